"""Putting our hook into an agent's own settings, only on request, and removing it.

Belongs here: which file of which agent, what is added to it, the check that nothing else changed, the backup. Every
edit is planned first, and the plan is also the dry run. Not here: what the hook does when it runs (`hooks.hook`).
"""

from __future__ import annotations

import copy
import difflib
import itertools
import json
import os
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from helix_assets.agents import SPECS
from helix_assets.hooks import hook, json_edit
from helix_assets.hooks.inbox import inbox_of
from helix_assets.model.agent import HookRecipe
from helix_assets.model.errors import StopRun
from helix_assets.settings.folders import agent_roots
from helix_assets.store.durable import replace_file

RECIPES: Mapping[str, HookRecipe] = {spec.flavor: spec.hook for spec in SPECS if spec.hook}
_TITLES = {spec.flavor: spec.title for spec in SPECS}
CLOSING = ("SessionStart", "Stop", "SubagentStop", "SessionEnd")
TIMINGS = ("UserPromptSubmit", "PreToolUse")
_TIMEOUT_S = 5
_GROUP = 3
"""The length of the path to a group of hooks: "hooks", the event, its number."""
_SCRIPT = str(Path(hook.__file__).absolute())
# Marks an entry as ours, whichever Python, checkout or data folder it was made with.
_SIGNS = (os.path.join("helix_assets", "hooks", "hook.py"), os.path.join("helix_assets", "hook.py"))


@dataclass(frozen=True)
class Edit:
    """A file's text now and after the edit; `after` is None if the file would be deleted."""

    agent: str
    path: Path
    before: str | None
    after: str | None

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after

    def diff(self) -> str:
        """The change with little context: the rest of the file is private."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(difflib.unified_diff(old, new, str(self.path), str(self.path), n=1))


def command_of(agent: str, data_dir: Path) -> list[str]:
    """The command that an agent runs: a bare Python on one file, because that starts fastest."""
    return [sys.executable, "-I", "-S", _SCRIPT, agent, str(inbox_of(data_dir.absolute()))]


def shell_line(command: Sequence[str]) -> str:
    """The command for agents that run hooks in a shell, silent and ending with 0 even if its script is gone.

    Python would end with 2, which an agent understands as: do not stop, do not run this tool.
    """
    return f"{shlex.join(command)} 2>/dev/null || true"


def settings_file(agent: str, environ: Mapping[str, str]) -> Path:
    """The file that names the agent's hooks."""
    return agent_roots(environ)[agent][0] / RECIPES[agent].file


def plan_install(agent: str, data_dir: Path, environ: Mapping[str, str], *, timings: bool = False) -> Edit:
    """Plan what installing would change. StopRun if the file cannot be read safely, or the agent is not there."""
    path = settings_file(agent, environ)
    root = agent_roots(environ)[agent][0]
    if not root.is_dir():
        raise StopRun(f"there is no {root}: start {agent} once, or set its variable if its folder is elsewhere")
    before = _read(path)
    command = command_of(agent, data_dir)
    if RECIPES[agent].style == "notify":
        return Edit(agent, path, before, _toml_with(path, before or "", command, _TITLES[agent]))
    events = [*CLOSING, *(TIMINGS if timings else ())]
    return Edit(agent, path, before, _json_with(path, before or "", shell_line(command), events))


def plan_uninstall(agent: str, environ: Mapping[str, str]) -> Edit:
    """Plan what uninstalling would change."""
    path = settings_file(agent, environ)
    before = _read(path)
    if before is None:
        return Edit(agent, path, None, None)
    recipe = RECIPES[agent]
    after = _toml_without(path, before) if recipe.style == "notify" else _json_without(path, before)
    is_ours = recipe.is_ours and not json_edit.parse(after)
    return Edit(agent, path, before, None if is_ours else after)


def installed_events(agent: str, environ: Mapping[str, str]) -> list[str]:
    """The events for which our hook is in the agent's settings."""
    path = settings_file(agent, environ)
    text = _read(path)
    if text is None:
        return []
    if RECIPES[agent].style == "notify":
        return ["Stop"] if _is_ours_toml(_toml(path, text).get("notify")) else []
    return sorted({str(place[1]) for place in _ours(_json(path, text))})


def apply(edit: Edit, now: datetime) -> Path | None:
    """Do what was planned. Returns the backup, which is next to the file. Refuses a file that has changed since."""
    target = Path(os.path.realpath(edit.path))  # a link to a folder of dotfiles stays a link
    if _read(target) != edit.before:
        raise StopRun(f"{edit.path} changed just now: nothing was written, try again")
    backup = None
    if edit.before is not None:
        backup = _backup_of(target, now)
        _write(backup, edit.before)
    if edit.after is None:
        target.unlink(missing_ok=True)
    else:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        _write(target, edit.after, mode)
    return backup


# -- style "events": JSON --------------------------------------------------------------------------------------------


def _json_with(path: Path, text: str, command: str, events: list[str]) -> str:
    """The settings with our hook for exactly these events."""
    found = _json(path, text)
    there = [(place, entry) for place, entry in _entries(found) if _is_ours(entry)]
    if sorted(place[1] for place, _ in there) == sorted(events) and all(e["command"] == command for _, e in there):
        return text
    after = _json_without(path, text)
    if "hooks" not in _json(path, after):
        after = json_edit.add(after, (), "hooks", {})
    group = {"hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT_S}]}
    for event in events:
        if event in _json(path, after)["hooks"]:
            after = json_edit.add(after, ("hooks", event), None, group)
        else:
            after = json_edit.add(after, ("hooks",), event, [group])
    _check(path, _tidy(_stripped(_json(path, after))) == _tidy(_stripped(found)))
    return after if after.endswith("\n") else after + "\n"


def _json_without(path: Path, text: str) -> str:
    """The settings without our hook, and without what contained nothing else."""
    expected = _stripped(_json(path, text))
    while places := _ours(_json(path, text)):
        text = json_edit.remove(text, _outermost(text, _json(path, text), places[0]))
    _check(path, _tidy(_json(path, text)) == _tidy(expected))
    return text


def _entries(found: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Every hook in the settings with the path that leads to it."""
    hooks = found.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for place, entry in enumerate(inner if isinstance(inner, list) else ()):
                if isinstance(entry, dict):
                    yield ("hooks", event, number, "hooks", place), entry


def _ours(found: dict[str, Any]) -> list[tuple[str | int, ...]]:
    return [place for place, entry in _entries(found) if _is_ours(entry)]


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return _is_our_command(str(entry.get("command", "")))


def _emptied(found: Any, place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The outermost part that would be empty without what is at `place`."""
    values = [found]
    for name in place:
        values.append(values[-1][name])
    while len(place) > 1:
        above = values[len(place) - 1]
        is_group = len(place) == _GROUP + 1  # a group without hooks has no use, whatever else it contains
        if len(above) > 1 and not is_group:
            break
        place = place[:-1]
    return place


def _outermost(text: str, found: dict[str, Any], place: json_edit.Path) -> json_edit.Path:
    """What to remove with our hook at `place`: all that contains nothing else, but not a list with a comment."""
    outer = _emptied(found, place)
    while len(outer) < _GROUP and json_edit.has_comment(text, outer):
        outer = place[: len(outer) + 1]
    return outer


def _stripped(found: dict[str, Any]) -> dict[str, Any]:
    """The settings without our hook, as a value."""
    rest = copy.deepcopy(found)
    while places := _ours(rest):
        place = _emptied(rest, places[0])
        above = rest
        for name in place[:-1]:
            above = above[name]  # type: ignore[index]  # an index of a list, a key of an object
        del above[place[-1]]  # type: ignore[arg-type]
    return rest


def _tidy(found: dict[str, Any]) -> dict[str, Any]:
    """The settings without empty lists of hooks, which mean nothing."""
    hooks = {event: groups for event, groups in found.get("hooks", {}).items() if groups}
    return {name: value for name, value in found.items() if name != "hooks"} | ({"hooks": hooks} if hooks else {})


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        found = json_edit.parse(text)
    except ValueError as exc:
        raise StopRun(f"{path} is not JSON that can be edited safely ({exc}): nothing was changed") from exc
    hooks = found.get("hooks", {}) if isinstance(found, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise StopRun(f"{path} does not contain hooks in the form that the agent reads: nothing was changed")
    return dict(found)


# -- style "notify": TOML --------------------------------------------------------------------------------------------


def _toml_with(path: Path, text: str, command: list[str], title: str) -> str:
    """The settings with our command as `notify`. Refuses to replace another program's."""
    found = _toml(path, text)
    there = found.get("notify")
    if there == command:
        return text
    if there is not None and not _is_ours_toml(there):
        raise StopRun(
            f"{path}: `notify` already runs another program, and {title} allows only one: let that program run "
            f"`{shlex.join(command)}` with the same last argument. Nothing was changed"
        )
    rest = _toml_without(path, text)
    # Before the first table, or it would become part of one.
    after = f"notify = {json.dumps(command, ensure_ascii=False)}\n{rest}"
    _check(path, _toml(path, after) == {**_toml(path, rest), "notify": command})
    return after


def _toml_without(path: Path, text: str) -> str:
    found = _toml(path, text)
    if not _is_ours_toml(found.get("notify")):
        return text
    lines = text.splitlines(keepends=True)
    rest = "".join(line for line in lines if not (line.lstrip().startswith("notify") and _is_our_command(line)))
    _check(path, _toml(path, rest) == {name: value for name, value in found.items() if name != "notify"})
    return rest


def _is_ours_toml(notify: Any) -> bool:
    return isinstance(notify, list) and any(_is_our_command(str(word)) for word in notify)


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise StopRun(f"{path} is not TOML that can be edited safely ({exc}): nothing was changed") from exc


# -- files -----------------------------------------------------------------------------------------------------------


def _check(path: Path, holds: bool) -> None:
    """Refuse an edit that would change anything but our hook."""
    if not holds:
        raise StopRun(f"{path} cannot be edited without changing more than our hook: nothing was changed")


def _read(path: Path) -> str | None:
    try:
        if path.exists() and not path.is_file():
            raise StopRun(f"{path} is not a regular file: nothing was changed")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise StopRun(f"{path} cannot be read ({exc}): nothing was changed") from exc


def _backup_of(target: Path, now: datetime) -> Path:
    """A name that no earlier backup has, even one of the same second."""
    stem = f"{target.name}.before-helix-{now:%Y%m%dT%H%M%SZ}"
    names = itertools.chain([stem], (f"{stem}.{number}" for number in itertools.count(2)))
    return next(path for path in map(target.with_name, names) if not path.exists())


def _write(path: Path, text: str, mode: int = 0o600) -> None:
    try:
        replace_file(path, text.encode("utf-8"), mode)
    except OSError as exc:
        raise StopRun(f"{path} cannot be written ({exc.strerror}): nothing was changed") from exc


def _is_our_command(text: str) -> bool:
    return any(sign in text for sign in _SIGNS)
