"""What is wrong with the set-up, in plain words, and what to do about it.

Belongs here: checks of what surrounds the store (settings, logs, clock, disk, rights, leftovers) and of figures that
others count. They change nothing, take no lock and do not import Dagster. Not here: the proof of the store itself
(`prove.verify`).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from helix_assets.agents import AGENTS
from helix_assets.agents.discover import discover
from helix_assets.ask.reading import NamedFile, has_store, named_files, open_existing, read_consistently, refuse_changed
from helix_assets.ask.status import Status, read_status
from helix_assets.hooks.inbox import read_notes
from helix_assets.keep.backup import EVERY, copies
from helix_assets.model.errors import DiskFullError, HelixError, SettingsError
from helix_assets.model.time import EPOCH, FIRST_DAY, iso
from helix_assets.prove.promises import PROMISES, RESTORE, open_to_others
from helix_assets.redaction.encoded import name_again
from helix_assets.settings import Settings, load_settings
from helix_assets.store.catalog import day_marks, meta
from helix_assets.store.catalog.catalog import index_bytes
from helix_assets.store.catalog.sources import unreadable_sessions
from helix_assets.store.folder import all_in
from helix_assets.store.lock import holder, is_locked
from helix_assets.store.proof import fault_of
from helix_assets.store.store import Store, rules_in_force
from helix_assets.sweep.look import scan

State = Literal["fine", "note", "wrong"]
_OLDEST_PYTHON, _OLDEST_SQLITE = (3, 11), (3, 35)
_LEAST_FREE, _LEAST_WRITTEN = 256 << 20, 64 << 10
_PROVEN_BYTES = 256 << 20
_WITHOUT_EFFECT = ("sweep.rest_minutes",)
_RUN_TAKES = timedelta(hours=6)
# A note waits less than this for its session to get a log; an older one means that nobody reads the notes.
_NOTE_WAITS = timedelta(hours=2)
UNWATCHED = "unwatched"
"""The file in Dagster's folder in which `helix up` says why it cannot watch the logs."""
_UNFINISHED = "select run_id, start_time from runs where status in ('STARTING', 'STARTED', 'CANCELING')"


@dataclass(frozen=True)
class Finding:
    """The result of one check; `do` is empty if nothing needs doing."""

    check: str
    state: State
    what: str
    do: str = ""


def examine(now: datetime, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """Run all checks. A check that cannot run is a finding itself. All texts are redacted by the rules in force."""
    found = list(_programs())
    try:
        settings = load_settings(environ)
    except SettingsError as exc:
        return [*found, Finding("settings", "wrong", str(exc), "correct that, then run `helix doctor` again")]
    found += _with(settings, now)
    rules = rules_in_force(settings)  # paths may hold anything
    return [replace(one, what=name_again(rules, one.what), do=name_again(rules, one.do)) for one in found]


def _with(settings: Settings, now: datetime) -> list[Finding]:
    found = [Finding("settings", "fine", f"read from {settings.config_file or 'the defaults'}")]
    found += [
        Finding("settings", "note", f"{name} has no effect any longer ({settings.origins[name]})", "remove it")
        for name in _WITHOUT_EFFECT
        if name in settings.origins
    ]
    checks: list[Callable[[], Iterator[Finding]]] = [
        lambda: _logs(settings),
        lambda: _watching(settings.data_dir),
        lambda: _rights(settings.data_dir),
        lambda: _writer(settings.data_dir),
        lambda: _runs(settings.data_dir, now),
        lambda: _inbox(settings.data_dir, now),
        lambda: _room(settings),
        lambda: _memory(settings, now),
    ]
    for check in checks:
        try:
            found += check()
        except DiskFullError as exc:
            found.append(Finding("disk", "wrong", str(exc), "make room"))
        except Exception as exc:  # noqa: BLE001 - whatever error a damaged store causes, it is a finding
            what = str(exc) if isinstance(exc, OSError | HelixError | sqlite3.Error) else type(exc).__name__
            found.append(Finding("store", "wrong", what, "`helix verify` says what is damaged"))
    return found


def _programs() -> Iterator[Finding]:
    sqlite = sqlite3.sqlite_version_info
    words = f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    is_old = sys.version_info < _OLDEST_PYTHON or sqlite < _OLDEST_SQLITE
    wanted = "install Python 3.11 or newer with SQLite 3.35 or newer"
    yield Finding("programs", "wrong" if is_old else "fine", words, wanted if is_old else "")


def _logs(settings: Settings) -> Iterator[Finding]:
    """Whether each agent's folders exist, can be read and contain logs."""
    seen = discover(settings.roots, settings.exclude.paths)
    for flavor, roots in settings.roots.items():
        count = sum(of == flavor for of in seen.flavors.values())
        here = [root for root in roots if root.is_dir()]
        if count:
            yield Finding("logs", "fine", f"{flavor}: {count} files")
        elif here:
            yield Finding("logs", "note", f"{flavor}: no log in {', '.join(map(str, here))}")
        else:
            yield Finding("logs", "note", f"{flavor}: no folder; looked for {', '.join(map(str, roots))}")
    for flavor, problem in seen.problems:
        what = f"{flavor}: {problem.path}: {problem.reason}"
        yield Finding("logs", "wrong", what, "make it readable for this user, or leave it out under [exclude]")
    if not seen.files:
        keys = ", ".join(f"{agent}_roots" for agent in AGENTS)
        do = f"under [sources], set one of {keys} to where the logs are"
        yield Finding("logs", "wrong", "no agent has any log", do)


def _watching(data_dir: Path) -> Iterator[Finding]:
    """Whether the last `helix up` was notified of changes."""
    note = data_dir / "dagster" / UNWATCHED
    if note.exists():
        what = f"`helix up` looks at the logs only every 30 seconds: {note.read_text(encoding='utf-8')}"
        yield Finding("logs", "note", what, "if that is a limit of the system, raise it: fs.inotify.max_user_watches")


def _rights(data_dir: Path) -> Iterator[Finding]:
    """Whether only its owner can open the data folder."""
    if not data_dir.exists():
        return
    foreign = [path for path, info in all_in(data_dir) if info.st_uid != os.getuid()]
    open_ones = [one.path for one in open_to_others(data_dir) if one.path not in foreign]
    if foreign:
        what = f"{len(foreign)} files belong to another user, such as {foreign[0]}"
        yield Finding("rights", "wrong", what, f"run `sudo chown -R $(id -u) {data_dir}`")
    if open_ones:
        what = f"{len(open_ones)} files are open to others, such as {open_ones[0]}"
        yield Finding("rights", "wrong", what, f"run `chmod -R go= {data_dir}`")
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("rights", "wrong", f"{data_dir} cannot be written to", f"run `chmod u+rwx {data_dir}`")
    elif not foreign and not open_ones:
        yield Finding("rights", "fine", f"{data_dir} is this user's alone")


def _writer(data_dir: Path) -> Iterator[Finding]:
    lock = data_dir / "lock"
    if is_locked(data_dir):
        yield Finding("writer", "note", f"{holder(data_dir)} is writing")
    elif lock.exists() and lock.stat().st_size:
        yield Finding("writer", "note", f"{holder(data_dir)} was killed while writing; the next sweep cleans up")


def _runs(data_dir: Path, now: datetime) -> Iterator[Finding]:
    """Dagster's runs that never ended, from its own database, read-only."""
    for path in (data_dir / "dagster").rglob("runs.db"):
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            try:
                rows = connection.execute(_UNFINISHED).fetchall()
            except sqlite3.OperationalError:
                continue  # a new database without tables
        stale = [run for run, start in rows if start is None or now.timestamp() - start > _RUN_TAKES.total_seconds()]
        if stale:
            what = f"{len(stale)} Dagster runs never ended, such as {stale[0]}"
            yield Finding("runs", "wrong", what, "restart `helix up`: it closes them")


def _room(settings: Settings) -> Iterator[Finding]:
    """Whether the disks of the memory and of its copies accept writes: a disk or a quota may be full."""
    for folder in filter(Path.is_dir, (settings.data_dir, settings.backup_dir)):
        try:
            with TemporaryFile(dir=folder) as file:
                file.write(bytes(_LEAST_WRITTEN))
        except OSError as exc:
            do = "make room: sweeps and copies need it; `helix evict --apply` works on a full disk, too"
            yield Finding("disk", "wrong", f"nothing can be written in {folder}: {exc.strerror}", do)


# -- the memory ------------------------------------------------------------------------------------------------------


def _inbox(data_dir: Path, now: datetime) -> Iterator[Finding]:
    asking = [note for note in read_notes(data_dir) if note.asks_for_a_sweep]
    if asking and now - (EPOCH + timedelta(microseconds=asking[0].at_us)) > _NOTE_WAITS:
        what = f"{len(asking)} notes of agents' hooks wait, the oldest since {iso(asking[0].at_us)}"
        yield Finding("hooks", "wrong", what, "run `helix up`, which takes them in, or `helix sweep`")


def _memory(settings: Settings, now: datetime) -> Iterator[Finding]:
    yield from _clock(now, None)
    is_gone = not settings.catalog_path.is_file() and bool(copies(settings))
    if is_gone or not has_store(settings):
        what = "the catalog is gone" if is_gone else f"there is no memory in {settings.data_dir} yet"
        yield Finding("store", "wrong", what, "run `helix restore`" if is_gone else "run `helix sweep`")
        return
    with closing(open_existing(settings)) as store:
        yield from _clock(now, store)
        yield from _promises(store)
        yield from _files(store)
        status = read_status(store)
        yield from _space(settings, status)
        yield from _backup(settings, status, now)
        yield from _sessions(store, status)


def _clock(now: datetime, store: Store | None) -> Iterator[Finding]:
    if store is None:
        if now.date() < FIRST_DAY:
            yield Finding("clock", "wrong", f"the clock says {now:%Y-%m-%d}", "set the clock of this machine")
        return
    with store.catalog.reading() as connection:
        last = day_marks.last_at(connection)
    if last and datetime.fromisoformat(last) > now + timedelta(minutes=5):
        what = f"the clock says {now:%Y-%m-%d %H:%M}, but a sweep ran at {last}"
        yield Finding("clock", "wrong", what, "set the clock of this machine; nothing is evicted by age meanwhile")


def _promises(store: Store) -> Iterator[Finding]:
    """The promises that are not kept, with what to do."""
    is_damaged = False
    for promise in PROMISES:
        if promise.advice is not None and not (answer := promise.asked(store)).holds:
            advice, first = promise.advice, next(iter(answer.wrong), None)
            is_damaged = is_damaged or advice.topic == "store"
            yield Finding(advice.topic, "wrong", advice.what.format(count=len(answer.wrong), first=first), advice.do)
    if not is_damaged:
        with store.catalog.reading() as connection:
            version = meta.value(connection, "catalog_version")
        yield Finding("store", "fine", f"catalog of version {version}, sound")


def _files(store: Store) -> Iterator[Finding]:
    """Whether every file in the catalog exists with its size. Facts and the newest parts are also compared by hash."""

    def look() -> tuple[int, int, list[NamedFile]]:
        files = named_files(store)
        proven = sum(total <= _PROVEN_BYTES for total in accumulate(file.bytes for file in files))
        keys = [store.key] * proven + [None] * (len(files) - proven)
        bad = [file for file, key in zip(files, keys, strict=True) if fault_of(file.path, file.bytes, file.hash, key)]
        refuse_changed(store, [(file.path, file.hash) for file in bad])
        return len(files), proven, bad

    count, proven, bad = read_consistently(look)
    if bad:
        what = f"{len(bad)} of {count} files of the memory are missing or damaged, such as {bad[0].path}"
        yield Finding("store", "wrong", what, RESTORE)
    else:
        yield Finding("store", "fine", f"{count} files are there with their sizes, {proven} proven by their hashes")


def _space(settings: Settings, status: Status) -> Iterator[Finding]:
    """Whether the caps fit on the disk and are respected."""
    usage, free = status.usage, shutil.disk_usage(settings.data_dir).free
    to_come = max(0, usage.raw_hard_cap_bytes - usage.raw_bytes) + max(
        0, usage.distilled_cap_bytes - usage.distilled_bytes
    )
    if free < _LEAST_FREE:
        yield Finding("disk", "wrong", f"{free >> 20} MiB are free", "make room: a full disk stops the sweeps")
    elif free < to_come:
        what = f"{free >> 20} MiB are free, but the caps allow {to_come >> 20} MiB more"
        yield Finding("disk", "wrong", what, "make room, or lower the caps under [retention]")
    else:
        yield Finding("disk", "fine", f"{free >> 20} MiB are free, the caps allow {to_come >> 20} MiB more")
    index = index_bytes(settings.data_dir)
    if usage.raw_bytes - index > usage.raw_hard_cap_bytes:
        yield Finding("disk", "wrong", "the raw cache is over its hard cap", "run `helix evict --apply`")
    elif usage.raw_bytes > usage.raw_hard_cap_bytes:
        do = 'run `helix evict --apply`; if that is not enough, raise that cap, or set index = "off" under [search]'
        yield Finding("disk", "wrong", "the raw cache with its search index is over raw_hard_cap_bytes", do)
    if index > usage.raw_soft_cap_bytes:
        size = f"{index / 2**20:.1f} MiB"
        what = f"the search index alone ({size}) is above raw_soft_cap_bytes: raw sessions are evicted for it"
        yield Finding("disk", "wrong", what, 'raise that cap, or set index = "off" under [search]')


def _backup(settings: Settings, status: Status, now: datetime) -> Iterator[Finding]:
    held = copies(settings)
    if not held:
        if status.agents:
            yield Finding("backup", "wrong", f"there is no copy in {settings.backup_dir}", "run `helix backup`")
        return
    swept = (status.last_sweep and status.last_sweep.ended_at) or held[-1].made_at
    is_behind = datetime.fromisoformat(swept) - datetime.fromisoformat(held[-1].made_at) > 3 * EVERY
    what = f"the last copy was made at {held[-1].made_at}"
    do = "run `helix backup`; if it fails it says why" if is_behind else ""
    yield Finding("backup", "wrong" if is_behind else "fine", what, do)


def _sessions(store: Store, status: Status) -> Iterator[Finding]:
    trouble, withheld = status.trouble, status.withheld
    if withheld.texts:
        what = f"{withheld.texts} of {withheld.sessions} sessions are withheld because of new redaction rules"
        yield Finding("sessions", "note", what, "run `helix sweep`: it redacts them, then they are shown again")
    unread = status.sources.get("unreadable", 0)
    if unread:
        do = "`helix status` names the newest; make them readable for this user"
        yield Finding("sources", "wrong", f"{unread} log files cannot be read", do)
    damaged_files = status.sources.get("damaged", 0)
    if damaged_files:
        do = "`helix status` names the newest and why; each is tried again once it changes"
        yield Finding("sources", "wrong", f"{damaged_files} log files are damaged or too large", do)
    if places := trouble.problem_count:
        what = f"{places} places in logs could not be read; `helix status` names the newest and why"
        yield Finding("sources", "note", what)
    with store.catalog.reading() as connection:
        for (flavor, reason), count in unreadable_sessions(connection).items():
            yield Finding("sources", "note", f"{flavor}: {count} sessions are there but cannot be read: {reason}")
    news = len(scan(store).changes.changed)
    if news:
        yield Finding("sources", "note", f"{news} log files have news; `helix sweep` or `helix up` takes them in")
