"""Where things lie on a machine: the checkout, helix.toml, the state, the agents' homes.

Answers come from the environment handed in, never from the caller's working folder. Nothing is created here.
"""

import os
import pwd
import tomllib
from collections.abc import Mapping
from pathlib import Path

_PROJECT_NAME = "helix-assets"
_APP = "helix_assets"


def home(environ: Mapping[str, str]) -> Path:
    """The user's home folder: HOME, else what the system knows."""
    return Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def checkout() -> Path | None:
    """The folder of the source tree that this package runs from, or None when it is installed elsewhere."""
    folder = Path(__file__).resolve().parents[2]
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return None
    return folder if project.get("name") == _PROJECT_NAME else None


def config_candidates(environ: Mapping[str, str]) -> list[Path]:
    """Where helix.toml is looked for when HELIX_CONFIG does not name it; the first that exists wins."""
    folders = [folder for folder in (checkout(), _xdg(environ, "XDG_CONFIG_HOME", ".config") / _APP) if folder]
    return [folder / "helix.toml" for folder in folders]


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """data/ of the checkout, else the XDG data folder."""
    folder = checkout()
    return folder / "data" if folder else _xdg(environ, "XDG_DATA_HOME", ".local/share") / _APP


def agent_roots(environ: Mapping[str, str]) -> dict[str, tuple[Path, ...]]:
    """The folders that each agent keeps its logs under, existing or not.

    An agent's own variable replaces all of its folders. Claude's desktop app keeps many homes below one folder, which
    is given as such.
    """
    base = home(environ)
    desktop = base / "Library" / "Application Support" / "Claude" / "local-agent-mode-sessions"
    claude = (base / ".claude", _xdg(environ, "XDG_CONFIG_HOME", ".config") / "claude", desktop)
    return {
        "claude": _listed(environ, "CLAUDE_CONFIG_DIR") or claude,
        "codex": _single(environ, "CODEX_HOME") or (base / ".codex",),
        "grok": _single(environ, "GROK_HOME") or (base / ".grok",),
    }


def expand(text: str, environ: Mapping[str, str]) -> Path:
    """A path whose leading ~ stands for the home folder of this environment."""
    if text == "~" or text.startswith("~/"):
        return home(environ) / text[2:]
    return Path(text)


def _xdg(environ: Mapping[str, str], name: str, default: str) -> Path:
    # The XDG specification says to ignore an empty or relative value.
    folder = Path(environ.get(name, ""))
    return folder if folder.is_absolute() else home(environ) / default


def _single(environ: Mapping[str, str], name: str) -> tuple[Path, ...]:
    text = environ.get(name, "").strip()
    return (expand(text, environ),) if text else ()


def _listed(environ: Mapping[str, str], name: str) -> tuple[Path, ...]:
    parts = (part.strip() for part in environ.get(name, "").split(","))
    return tuple(dict.fromkeys(expand(part, environ) for part in parts if part))
