"""Where folders are on a machine: the checkout, helix.toml, the state, the agents' homes.

The answers depend on the environment passed in, never on the caller's working folder. Nothing is created here.
"""

import os
import pwd
import tomllib
from collections.abc import Mapping
from pathlib import Path

from helix_assets.agents import SPECS
from helix_assets.model.agent import AgentSpec

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
    """Where to look for helix.toml if HELIX_CONFIG does not name it; the first that exists wins."""
    folders = [folder for folder in (checkout(), _xdg(environ, "XDG_CONFIG_HOME", ".config") / _APP) if folder]
    return [folder / "helix.toml" for folder in folders]


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """data/ of the checkout, else the XDG data folder."""
    folder = checkout()
    return folder / "data" if folder else _xdg(environ, "XDG_DATA_HOME", ".local/share") / _APP


def agent_roots(environ: Mapping[str, str]) -> dict[str, tuple[Path, ...]]:
    """The folders of each agent's logs, existing or not.

    An agent's own variable replaces all of its folders.
    """
    return {spec.flavor: _named(spec, environ) or _usual(spec, environ) for spec in SPECS}


def agent_variables() -> dict[str, str]:
    """The variable that names each agent's folders."""
    return {spec.flavor: spec.variable for spec in SPECS}


def expand(text: str, environ: Mapping[str, str]) -> Path:
    """A path whose leading ~ stands for the home folder of this environment."""
    if text == "~" or text.startswith("~/"):
        return home(environ) / text[2:]
    return Path(text)


def _xdg(environ: Mapping[str, str], name: str, default: str) -> Path:
    # The XDG specification says to ignore an empty or relative value.
    folder = Path(environ.get(name, ""))
    return folder if folder.is_absolute() else home(environ) / default


def _usual(spec: AgentSpec, environ: Mapping[str, str]) -> tuple[Path, ...]:
    config = str(_xdg(environ, "XDG_CONFIG_HOME", ".config"))
    return tuple(expand(root.replace("$XDG_CONFIG_HOME", config), environ) for root in spec.roots)


def _named(spec: AgentSpec, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders in the agent's variable: one, or several separated by commas."""
    text = environ.get(spec.variable, "")
    parts = (part.strip() for part in (text.split(",") if spec.variable_is_list else [text]))
    return tuple(dict.fromkeys(expand(part, environ) for part in parts if part))
