"""Refusing unknown names, and settings that are valid alone but contradict each other.

Each refusal names the line or the variable, the reason, and the nearest valid name.
"""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from helix_assets.agents import AGENTS
from helix_assets.model.errors import SettingsError
from helix_assets.settings.model import SECTIONS, Known, Settings
from helix_assets.settings.toml_file import KeyPath, TomlFile

# Set for other programs when a session closes; never read as settings.
RESERVED_VARIABLES = frozenset(
    f"HELIX_{name}" for name in ("SESSION_UID", "REPO", "FLAVOR", "TOKENS", "INFRA_OVERHEAD_SHARE", "STORE_DB")
)
# The Helix text editor reads these, and people who use it export them.
_FOREIGN_VARIABLES = frozenset({"HELIX_RUNTIME", "HELIX_DEFAULT_RUNTIME", "HELIX_LOG_LEVEL"})


def unknown_variables(environ: Mapping[str, str], known: Mapping[KeyPath, Known]) -> None:
    """Refuse a HELIX_* variable that is neither a setting nor reserved."""
    ours = {item.env for item in known.values()} | {"HELIX_CONFIG"}
    for name in sorted(environ):
        if name.startswith("HELIX_") and name not in ours | RESERVED_VARIABLES | _FOREIGN_VARIABLES:
            raise SettingsError(f"{name}: unknown variable{_did_you_mean(name, ours)}")


def unknown_key(file: TomlFile, key: KeyPath, spelled: KeyPath, known: Mapping[KeyPath, Known]) -> None:
    """Refuse a key of helix.toml that is not a setting; `spelled` is the key as the file spells it."""
    if key in known:
        return
    if len(key) > 1:
        near = _did_you_mean(key[-1], (other[-1] for other in known if other[:-1] == key[:-1]))
        raise SettingsError(f"{file.where(spelled)}: unknown key {key[-1]!r}{near or _other_section(key[-1], known)}")
    if key[0] in SECTIONS:
        raise SettingsError(f"{file.where(spelled)}: {key[0]!r} is a section: write [{key[0]}]")
    top = [other[0] for other in known if len(other) == 1]
    near = _did_you_mean(key[0], [*SECTIONS, *top])
    raise SettingsError(f"{file.where(spelled)}: unknown key {key[0]!r}{_other_section(key[0], known) or near}")


def unknown_agents(settings: Settings) -> None:
    """Refuse an agent that is neither built in nor in `other_roots`, and a built-in one in `other_roots`."""
    others = settings.sources.other_roots
    for name, agents in (("sources.agents", settings.sources.agents), ("exclude.agents", settings.exclude.agents)):
        for agent in agents:
            if agent not in AGENTS and agent not in others:
                choices = ", ".join([*AGENTS, *others])
                raise SettingsError(f"{_origin(settings, name)}: agents {agent!r} is not one of {choices}")
    for agent in others:
        if agent in AGENTS:
            where = _origin(settings, "sources.other_roots")
            raise SettingsError(f"{where}: other_roots {agent!r} is built in: use {agent}_roots")


def contradictions(settings: Settings) -> None:
    """Refuse settings that contradict each other."""
    retention = settings.retention
    if retention.raw_hard_cap_bytes < retention.raw_soft_cap_bytes:
        raise SettingsError(
            f"{_origin(settings, 'retention.raw_hard_cap_bytes', 'retention.raw_soft_cap_bytes')}: "
            f"raw_hard_cap_bytes ({retention.raw_hard_cap_bytes}) is below raw_soft_cap_bytes "
            f"({retention.raw_soft_cap_bytes}): eviction must begin before the hard cap is reached"
        )
    _require_absolute(settings)
    for agent, roots in settings.roots.items():
        for root in roots:
            if settings.data_dir == root or root in settings.data_dir.parents:
                raise SettingsError(
                    f"{_origin(settings, 'data_dir')}: data_dir {settings.data_dir} lies inside {agent}'s own folder "
                    f"{root}, to which we never write: choose another"
                )


def _require_absolute(settings: Settings) -> None:
    """Refuse a relative path, which would mean another folder for each caller."""
    named: list[tuple[str, Path]] = [(_origin(settings, "data_dir"), settings.data_dir)]
    named.append((_origin(settings, "backup.dir", "data_dir"), settings.backup_dir))
    named += [(_origin(settings, "kaizen.projects"), Path(path)) for path in settings.kaizen.projects]
    for agent, roots in settings.roots.items():
        named += [(f"the folders of {agent}", root) for root in roots]
    for where, path in named:
        if not path.is_absolute():
            raise SettingsError(f"{where}: {str(path)!r} is not an absolute path: begin it with '/' or '~/'")


def _origin(settings: Settings, *names: str) -> str:
    return next((settings.origins[name] for name in names if name in settings.origins), "settings")


def _did_you_mean(word: str, choices: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(choices), n=1)
    return f" - did you mean {near[0]!r}?" if near else ""


def _other_section(word: str, known: Mapping[KeyPath, Known]) -> str:
    """A hint for a valid key in the wrong section."""
    for key in known:
        if key[-1] == word and len(key) > 1:
            return f" - it belongs under [{key[0]}]"
    return ""
