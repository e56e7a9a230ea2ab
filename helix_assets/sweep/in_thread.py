"""Small news, taken in by a thread of a process that does other things, too, such as serving.

Such a thread cannot set signals, limits of the process, or fork. So each session is watched by a second thread, which
interrupts it when its time or memory is up. What it leaves is for a sweep in a process of its own, whose workers have
hard limits: nothing is stored of it, and no failure is noted. A session that does not even react, as in a loop in a C
library, ends the process; a file in the data folder names it, so that it is left once that has happened twice.
Belongs here: what small news is, what is left, the second thread. Not here: the sweep itself (`sweep.sweep`).
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import NamedTuple, TypeVar

from helix_assets.agents.jsonl import PACKED
from helix_assets.agents.roles import SHARED
from helix_assets.hooks.inbox import waiting
from helix_assets.keep.backup import is_due
from helix_assets.model.changes import FileState
from helix_assets.model.errors import HelixError
from helix_assets.store.catalog import live_files, retries
from helix_assets.store.durable import new_file, open_plain
from helix_assets.store.store import MEMORY_REDACTED, RULES_STAMP, Store, file_key
from helix_assets.sweep.look import EXCLUSIONS, Scan, exclusions_of, scan
from helix_assets.sweep.placing import is_placed
from helix_assets.sweep.plan import Candidate
from helix_assets.sweep.pricing import is_priced
from helix_assets.sweep.stale import is_settled, stale_sessions, unredacted_sessions
from helix_assets.sweep.task import Ingested, IngestTask, Limits, Workshop
from helix_assets.sweep.workers import GRACE_S, Outcome, Overdue, Work, or_stored_alone

MOST_FILES, MOST_BYTES = 20, 4 << 20
"""So much news is taken in at once, the rest is left: how many files, and how many bytes they gained."""
_GONE = "files are gone"
HEAVY_BYTES = 8 << 20
"""A session that needs more than its news read again is left if it has so many bytes."""
HEAVY_TOGETHER_BYTES = 32 << 20
"""If the sessions that share records with the news have so many, all of it is left."""
LIMITS = Limits(seconds=20, memory_bytes=512 << 20)
WAIT_S = 1.0
"""How long to wait for another writer: this thread has other things to do."""
UNDER_WAY = "under_way.json"
_NOTED_S = 24 * 3600.0
_TOO_OFTEN = 2
"""So many processes may end with a session under way before it is left: one may have been killed for another reason."""
LOOKS_EVERY_S = 0.05
_AGAIN_S = 1.0
"""A raised interruption can get lost, as in a callback whose errors are ignored: it is raised again."""

Result = TypeVar("Result")


class LeftError(HelixError):
    """A session, or all news, is left to a sweep in a process of its own."""


@dataclass
class SmallNews:
    """The small news of one look: what its sweep needs to know, and what it left, by session. Hooks' notes are news."""

    store: Store
    seen: Scan
    change: int
    now: datetime
    left: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.seen.changes) or bool(waiting(self.store.data_dir))

    def confirmed(self) -> Scan:
        """The news as the sweep finds it, which holds the lock. LeftError if by now it is not small."""
        if self.store.catalog.change() != self.change:  # another writer may have taken it in, or forgotten a session
            self.seen, self.change = scan(self.store, self.now), self.store.catalog.change()
            self.store.recall_rules(self.seen.known.meta)
            if self.seen.changes and (reason := why_large(self.store, self.seen, self.now)):
                raise LeftError(reason)
        return self.seen

    def chosen(self, groups: Mapping[str, list[Candidate]], seen: Scan) -> dict[str, list[Candidate]]:
        """The sessions to read here, the smallest news first, until it is too much; the others are left."""
        sizes = {uid: sum(_bytes_of_news(seen, one.path_key) for one in group) for uid, group in groups.items()}
        chosen, files, held = dict[str, list[Candidate]](), 0, 0
        for uid in sorted(groups, key=lambda uid: (sizes[uid], uid)):
            files, held = files + len(groups[uid]), held + sizes[uid]
            if files > MOST_FILES:
                self.left[uid] = f"more than {MOST_FILES} files have news"
            elif held > MOST_BYTES:
                self.left[uid] = f"more than {MOST_BYTES} bytes are news"
            else:
                chosen[uid] = groups[uid]
        return chosen

    def wants(self, uid: str, files: Iterable[str]) -> bool:
        """Whether to read a session here: not if it could not be read before, was too much, or has lost a file."""
        if not set(files).isdisjoint(self.seen.changes.gone):
            self.left[uid] = _GONE
        with self.store.catalog.reading() as connection:
            if retries.failed_unread(connection, uid):
                self.left[uid] = "it failed before"
        if _noted(self.store).get(file_key(self.store, uid), _NEVER).times >= _TOO_OFTEN:
            self.left[uid] = "it was too much before"
        return uid not in self.left

    def leave(self, uids: Iterable[str], reason: str) -> None:
        """Leave these sessions as they are."""
        self.left |= dict.fromkeys(uids, reason)

    def workers(self, shop: Workshop) -> ThreadWorkers:
        """What ingests its sessions."""
        return ThreadWorkers(self.store, shop)


def look(store: Store, now: datetime) -> SmallNews:
    """What is news now. LeftError if it is more than a thread should take in."""
    change = store.catalog.change()
    news = SmallNews(store, scan(store, now), change, now)
    store.recall_rules(news.seen.known.meta)
    is_work = news.seen.changes or not is_placed(store, news.seen.known.meta)  # a new map does not wait for news
    if is_work and (reason := why_large(store, news.seen, now)):
        raise LeftError(reason)
    if news.seen.changes.gone:
        news.left[""] = _GONE
    elif news.seen.changes and is_due(store, now, news.seen.known.meta, after_news=True):
        news.left[""] = "a copy of the memory is due"
    return news


def why_large(store: Store, seen: Scan, now: datetime) -> str | None:
    """Why no news can be taken in here now; None if some can."""
    changes, known = seen.changes, seen.known.meta
    news = {key: _bytes_of_news(seen, key) for key in changes.changed}
    if sum(size for key, size in news.items() if seen.found[key].role in SHARED) > MOST_BYTES:
        return "files of many sessions have a lot of news"
    if (known.get(MEMORY_REDACTED), known.get(RULES_STAMP)) != (store.rules_version, store.settings.rules_stamp):
        return "the redaction rules are new"
    if not is_settled(store, known) and (unredacted_sessions(store, now, None) or stale_sessions(store, now, None)):
        return "sessions are to be derived again"
    if not is_priced(store, known, now.date()):
        return "the prices are new"
    if not is_placed(store, known):
        return "the map of repositories, domains and tasks is new"
    if known.get(EXCLUSIONS) != exclusions_of(store):
        return "other sessions are excluded"
    with store.catalog.reading() as connection:
        ahead = live_files.raw_usage(connection) + min(sum(news.values()), MOST_BYTES)
        is_full = ahead > store.settings.retention.raw_hard_cap_bytes
    return "the raw cache is full" if is_full else None


def _bytes_of_news(seen: Scan, key: str) -> int:
    """How much of a file is news: what it gained, or all of a new one. A packed file may contain any amount."""
    file, before = seen.found[key], seen.known.sources.states.get(key)
    if file.path.endswith(PACKED):
        return MOST_BYTES + 1
    return file.size - _kept(file[-4:], before) if before is not None and file.role not in SHARED else file.size


def _kept(now: FileState, before: FileState) -> int:
    return before[2] if now[:2] == before[:2] and now[2] >= before[2] else 0


# -- sessions that are under way, or were too much -------------------------------------------------------------------


class _Note(NamedTuple):
    """When a session was under way, and how many processes ended with it."""

    at: float
    times: int


_NEVER = _Note(0.0, 0)


def _noted(store: Store) -> dict[str, _Note]:
    """The sessions that were too much on the last day, or that a process ended with, by keyed hash."""
    try:
        with open_plain(store.data_dir / UNDER_WAY) as file:
            found = json.loads(file.read())
        noted = {str(name): _Note(float(at), int(times)) for name, (at, times) in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
    return {name: one for name, one in noted.items() if 0 <= time.time() - one.at < _NOTED_S}


def _note(store: Store, noted: Mapping[str, _Note]) -> None:
    """Not synced: it has to outlive this process, not the machine."""
    path, fresh = store.data_dir / UNDER_WAY, store.data_dir / f".{UNDER_WAY}"
    if noted:
        with new_file(fresh) as file:
            file.write(json.dumps(noted).encode())
        fresh.replace(path)
    else:
        path.unlink(missing_ok=True)


class ThreadWorkers:
    """Ingests sessions in the calling thread, each watched. As `workers.Workers`, for tasks without processes.

    A session that takes too much has a LeftError as its outcome.
    """

    def __init__(self, store: Store, shop: Workshop) -> None:
        self._store, self._shop = store, shop
        limits = shop.limits
        self._seconds = min(limits.seconds, LIMITS.seconds)
        self._memory_bytes = min(limits.memory_bytes, LIMITS.memory_bytes)

    def run(self, tasks: Sequence[IngestTask]) -> Iterator[Outcome]:
        """Results as they come. Sessions depend on these: LeftError if one is left, or together they are too much."""
        if (heavy := sum(task.weight for task in tasks)) > HEAVY_TOGETHER_BYTES:
            raise LeftError(f"sessions of {heavy} bytes would have to be read again")
        for task, outcome in self.results(self.start(tasks)):
            if isinstance(outcome, LeftError):
                raise outcome
            yield task, outcome

    def start(self, tasks: Sequence[IngestTask], *, first: bool = False) -> Work:
        """Nothing yet: `results` does them one by one."""
        return Work(in_place=tasks)

    def results(self, work: Work) -> Iterator[Outcome]:
        """The results of the work, in its order."""
        for task in work.in_place:
            yield task, self._outcome(task)

    def close(self) -> None:
        """Nothing is left to end."""

    def _outcome(self, task: IngestTask) -> Ingested | Exception:
        if not task.append and task.weight > HEAVY_BYTES:
            return LeftError(f"all its {task.weight} bytes would have to be read again")
        noted, name = _noted(self._store), file_key(self._store, task.session_uid)
        before = noted.pop(name, _NEVER)
        _note(self._store, noted | {name: _Note(time.time(), before.times + 1)})
        outcome = or_stored_alone(task, self._watched)
        is_left = isinstance(outcome, LeftError)
        _note(self._store, noted | {name: _Note(time.time(), _TOO_OFTEN)} if is_left else noted)
        return outcome

    def _watched(self, task: IngestTask) -> Ingested | Exception:
        try:
            return watched(partial(_ingested, self._shop, task), self._seconds, self._memory_bytes)
        except LeftError as exc:
            return exc


def _ingested(shop: Workshop, task: IngestTask) -> Ingested | Exception:
    from helix_assets.sweep.read import ingest  # imports pyarrow, only if there is work

    try:
        return ingest(task, shop)
    except MemoryError:
        return LeftError("there is no memory for it")
    except Exception as exc:  # noqa: BLE001 - passed to the caller, which reports the session and continues
        return exc


# -- the second thread -----------------------------------------------------------------------------------------------


def watched(do: Callable[[], Result], seconds: float, memory_bytes: int) -> Result:
    """Do it in this thread. LeftError if it takes longer, or if the process grows by more memory meanwhile.

    If it does not react for some seconds more, the process ends.
    """
    watch = _Watch(seconds, memory_bytes)
    try:
        watch.begin()
        try:
            return do()
        finally:
            watch.end()
    except Overdue:
        watch.end()  # the interruption may have come while it ended
        raise LeftError(watch.reason) from None


class _Watch:
    """Interrupts the thread that made it when its time or memory is up, and not after `end`."""

    def __init__(self, seconds: float, memory_bytes: int) -> None:
        self.reason = ""
        self._seconds, self._memory_bytes = seconds, memory_bytes
        self._watched = threading.get_ident()
        self._is_over, self._lock, self._ended = False, threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def begin(self) -> None:
        """Watch from now on."""
        # A thread of its own ends the process, even if the interpreter does not react.
        faulthandler.dump_traceback_later(self._seconds + GRACE_S, exit=True, file=_nowhere())
        self._thread.start()

    def end(self) -> None:
        """Watch no longer. An interruption that comes meanwhile is raised here at the latest, and none later."""
        with self._lock:
            self._is_over = True
        _interrupt(self._watched, None)
        self._ended.set()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        until, most = time.monotonic() + self._seconds, _resident_bytes() + self._memory_bytes
        pause = LOOKS_EVERY_S
        while not self._ended.wait(pause):
            if time.monotonic() >= until:
                self._raise(f"it took longer than {self._seconds:.0f} s")
            elif _resident_bytes() > most:
                self._raise(f"it needs more than {self._memory_bytes >> 20} MiB of memory")
            pause = _AGAIN_S if self.reason else LOOKS_EVERY_S

    def _raise(self, reason: str) -> None:
        with self._lock:
            if not self._is_over:
                self.reason = reason
                _interrupt(self._watched, Overdue)


def _interrupt(thread: int, error: type[BaseException] | None) -> None:
    """Raise an error in a thread, or withdraw one that was not raised yet."""
    raised = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


@cache
def _nowhere() -> int:
    """Where the dump of the threads goes when the process is ended, because it may contain private names."""
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _resident_bytes() -> int:
    """The memory that this process has now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
