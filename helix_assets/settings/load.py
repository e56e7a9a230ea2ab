"""Finding helix.toml and the HELIX_* variables, and making Settings of them.

A variable wins over the file, the file over the default. `refuse` refuses what is unknown or contradictory; malformed
values are refused here. No folder is created and the store is not opened.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from helix_assets.model.errors import SettingsError
from helix_assets.settings import folders, refuse
from helix_assets.settings.model import SECTIONS, Known, Settings, known_settings
from helix_assets.settings.rules_stamp import rules_stamp
from helix_assets.settings.toml_file import KeyPath, TomlFile, read_toml
from helix_assets.settings.values import ItemError, parse_text

# The section that contained [retention] in the first design of the session memory.
_SEED_SECTION = "session_memory"


@dataclasses.dataclass(slots=True)
class _Found:
    """The checked values and where each came from."""

    values: dict[KeyPath, object] = dataclasses.field(default_factory=dict)
    origins: dict[str, str] = dataclasses.field(default_factory=dict)

    def take(self, item: Known, raw: object, where: str, where_item: Callable[..., str] | None = None) -> None:
        """Check and keep a value; `where_item` returns the position of an item in it."""
        try:
            self.values[item.key] = item.kind.parse(raw)
        except ItemError as exc:
            raise SettingsError(f"{where_item(*exc.place) if where_item else where}: {exc}") from exc
        except ValueError as exc:
            raise SettingsError(f"{where}: {item.key[-1]} {exc}") from exc
        self.origins[item.name] = where


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read all settings. Raises SettingsError for anything unknown, malformed or contradictory."""
    environ = os.environ if environ is None else environ
    stamp = rules_stamp(environ)  # first: if the rules change while we read, the stamp is old and they are read again
    known = known_settings()
    refuse.unknown_variables(environ, known)
    file = _find_file(environ)
    found = _Found()
    if file:
        _take_from_file(found, file, known)
    _take_from_environment(found, environ, known)
    settings = _build(found, file, environ)
    refuse.contradictions(settings)
    return dataclasses.replace(settings, rules_stamp=stamp)


def _find_file(environ: Mapping[str, str]) -> TomlFile | None:
    if "HELIX_CONFIG" in environ:
        path = folders.expand(environ["HELIX_CONFIG"], environ)
        if not path.is_absolute():
            raise SettingsError(f"HELIX_CONFIG: {str(path)!r} is not an absolute path; say {str(path.absolute())!r}")
        return read_toml(path)
    return next((read_toml(path) for path in folders.config_candidates(environ) if path.is_file()), None)


def _take_from_file(found: _Found, file: TomlFile, known: Mapping[KeyPath, Known]) -> None:
    for key, spelled, raw in _leaves(file):
        refuse.unknown_key(file, key, spelled, known)
        if key in found.values:
            raise SettingsError(f"{file.where(spelled)}: {key[-1]!r} is already set at {found.origins['.'.join(key)]}")
        found.take(known[key], raw, file.where(spelled), lambda *place, at=spelled: file.where((*at, *place)))


def _leaves(file: TomlFile) -> Iterator[tuple[KeyPath, KeyPath, object]]:
    """Each value with our key and the key as the file spells it."""
    for name, value in file.values.items():
        if name in SECTIONS and isinstance(value, dict):
            yield from (((name, key), (name, key), raw) for key, raw in value.items())
        elif name == _SEED_SECTION and isinstance(value, dict):
            for section, table in value.items():
                if section != "retention" or not isinstance(table, dict):
                    raise SettingsError(f"{file.where((name, section))}: [{name}] may only contain [{name}.retention]")
                yield from (((section, key), (name, section, key), raw) for key, raw in table.items())
        else:
            yield (name,), (name,), value


def _take_from_environment(found: _Found, environ: Mapping[str, str], known: Mapping[KeyPath, Known]) -> None:
    for item in known.values():
        if item.env not in environ:
            continue
        try:
            raw = item.kind.from_env(parse_text(environ[item.env]))
        except ValueError as exc:
            raise SettingsError(f"{item.env}: {item.key[-1]} {exc}") from exc
        found.take(item, raw, item.env)


def _build(found: _Found, file: TomlFile | None, environ: Mapping[str, str]) -> Settings:
    sections: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    top: dict[str, object] = {}
    for key, value in found.values.items():
        (sections[key[0]] if len(key) > 1 else top)[key[-1]] = value
    data_dir = top.pop("data_dir", None)
    built = {section: model(**sections[section]) for section, model in SECTIONS.items()}
    settings = Settings(
        data_dir=folders.expand(str(data_dir), environ) if data_dir else folders.default_data_dir(environ),
        config_file=file.path if file else None,
        origins=found.origins,
        **built,
        **top,  # type: ignore[arg-type]  # the model's own kinds made these values
    )
    refuse.unknown_agents(settings)
    return dataclasses.replace(
        settings,
        roots=_roots(settings, environ),
        exclude=dataclasses.replace(
            settings.exclude, paths=tuple(str(folders.expand(path, environ)) for path in settings.exclude.paths)
        ),
        backup=dataclasses.replace(
            settings.backup, dir=settings.backup.dir and str(folders.expand(settings.backup.dir, environ))
        ),
        kaizen=dataclasses.replace(
            settings.kaizen, projects=tuple(str(folders.expand(path, environ)) for path in settings.kaizen.projects)
        ),
        repos=dataclasses.replace(
            settings.repos,
            paths={str(folders.expand(path, environ)): repo for path, repo in settings.repos.paths.items()},
        ),
    )


def _roots(settings: Settings, environ: Mapping[str, str]) -> dict[str, tuple[Path, ...]]:
    """The folders to read for each enabled agent: the usual ones and those of [sources], each once."""
    usual = folders.agent_roots(environ)
    extra = {
        agent: [folders.expand(path, environ) for path in settings.sources.roots_of(agent)]
        for agent in settings.enabled_agents
    }
    return {agent: tuple(dict.fromkeys([*usual.get(agent, ()), *more])) for agent, more in extra.items()}
