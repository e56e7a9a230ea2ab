"""The pool that ingests sessions in parallel, each within its limits of time and memory.

Small work is done in this process, because starting others costs more. Both interrupt a session that takes too long,
and refuse memory to one that wants too much. If a session does not react, such as in a loop in a C library, its worker
process ends. Then every session of the pool is tried again in its own process, and only the one at fault fails. This
process cannot be ended so, so it only gets little work. For a session that exceeds its limits, storing only its records
is tried; if that works, only its digest is missing.
"""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import IO

from helix_assets.model.errors import HelixError
from helix_assets.sweep.task import Ingested, IngestTask, Limits, Workshop

IN_PLACE_BYTES = 8 << 20
PART_BYTES = 2 << 20
TASK_BYTES = 64 << 10
"""The fixed cost of a session, mostly for its file, in bytes of work."""
PARTS_AHEAD = 4
SLOW_BYTES = 64 << 20
"""For each of so many bytes a session gets the time limit once more."""
GRACE_S = 10
Outcome = tuple[IngestTask, Ingested | Exception]
_shop: Workshop | None = None
_nowhere: IO[bytes] | None = None
"""In a worker process, where the dump of its threads goes when it is ended, because it may contain private names."""


class TooMuchError(HelixError):
    """A session took more time or memory than the settings allow."""


class Overdue(BaseException):
    """Raised in a session when its time is up. Not an `Exception`, so that no handler on the way catches it."""


@dataclass
class Work:
    """Tasks started together: those to do in this process, how many are in the pool, and the results."""

    in_place: Sequence[IngestTask] = ()
    with_pool: int = 0
    done: deque[Outcome] = field(default_factory=deque)


class Workers:
    """Runs ingest tasks, in worker processes if there is enough to do. Before these start, `prepare` makes what they
    share."""

    def __init__(self, shop: Workshop, count: int, prepare: Callable[[], None]) -> None:
        self._local = shop
        self._count = count
        self._prepare = prepare
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: deque[tuple[Work, list[IngestTask]]] = deque()
        self._running: dict[Future[list[Outcome]], tuple[Work, list[IngestTask], ProcessPoolExecutor]] = {}

    def run(self, tasks: Sequence[IngestTask]) -> Iterator[Outcome]:
        """Results as they come, before all waiting tasks. A task that fails returns its error; the others continue."""
        return self.results(self.start(tasks, first=True))

    def start(self, tasks: Sequence[IngestTask], *, first: bool = False) -> Work:
        """Start tasks. The pool gets a few at once, and more while the caller waits for results."""
        total = sum(task.weight + TASK_BYTES for task in tasks)
        if self._pool is None and total < IN_PLACE_BYTES and _can_interrupt():
            return Work(in_place=tasks)
        if self._pool is None and total >= IN_PLACE_BYTES:
            self._prepare()
        work = Work(with_pool=len(tasks))
        parts = [(work, part) for part in _parts(tasks)]
        self._waiting = deque([*parts, *self._waiting] if first else [*self._waiting, *parts])
        self._feed()
        return work

    def results(self, work: Work) -> Iterator[Outcome]:
        """The results of the work, in the order in which they are done."""
        for task in work.in_place:
            yield task, _tried(task, self._local)
        while work.with_pool:
            while not work.done:
                self._collect()
            work.with_pool -= 1
            yield work.done.popleft()

    def _feed(self) -> None:
        while self._waiting and len(self._running) < self._count * PARTS_AHEAD:
            work, part = self._waiting.popleft()
            try:
                pool = self._started()
                self._running[pool.submit(_ingest_here, part)] = work, part, pool
            except BrokenProcessPool:
                self._stop()
                work.done.extend((task, self._alone(task)) for task in part)

    def _collect(self) -> None:
        """Wait for something to be done, and keep the workers busy."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            work, part, pool = self._running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                if pool is self._pool:  # and not a newer one
                    self._stop()
                work.done.extend((task, self._alone(task)) for task in part)
            elif isinstance(error, Exception):
                work.done.extend((task, error) for task in part)
            elif error is not None:
                raise error
            else:
                work.done.extend(future.result())
        self._feed()

    def _alone(self, task: IngestTask) -> Ingested | Exception:
        """Try a task of a dead pool in its own process, so that only the one at fault fails."""
        return or_stored_alone(task, self._in_own_process)

    def _in_own_process(self, task: IngestTask) -> Ingested | Exception:
        began = time.monotonic()
        with ProcessPoolExecutor(1, _context(), _set_up, (self._local,)) as pool:
            try:
                return pool.submit(_ingest_here, [task]).result()[0][1]
            except BrokenProcessPool:
                if time.monotonic() - began >= seconds_for(task, self._local.limits):
                    return _too_long(task, self._local.limits)
                return TooMuchError("its worker process died, most likely out of memory")
            except Exception as exc:  # noqa: BLE001 - passed to the caller like any other outcome
                return exc

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._count, _context(), _set_up, (self._local,))
        return self._pool

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def close(self) -> None:
        """End the worker processes."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _parts(tasks: Sequence[IngestTask]) -> Iterator[list[IngestTask]]:
    """The large tasks first, one by one; small ones several at a time, because each transfer has a fixed cost."""
    part: list[IngestTask] = []
    held = 0
    for task in sorted(tasks, key=lambda task: task.weight, reverse=True):
        weight = task.weight + TASK_BYTES
        if part and held + weight > PART_BYTES:
            yield part
            part, held = [], 0
        part.append(task)
        held += weight
    if part:
        yield part


def _context() -> multiprocessing.context.BaseContext:
    """Fork is fastest, and safe with one thread; otherwise new interpreters are started."""
    return multiprocessing.get_context("fork" if _can_fork() else "forkserver")


def _can_fork() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1 and "pyarrow" not in sys.modules


def _set_up(shop: Workshop) -> None:
    global _shop, _nowhere  # noqa: PLW0603 - one workshop per worker process, sent once
    _shop = shop
    _nowhere = open(os.devnull, "wb")  # noqa: SIM115 - as long as the process lives
    os.umask(0o077)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Rows are many, short-lived and without cycles. With large files, the garbage collector took a tenth of the time to
    # search them at the usual rate.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _end_with_parent() -> None:
    """End this worker when its parent is gone, because nobody would send it work."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _ingest_here(tasks: list[IngestTask]) -> list[Outcome]:
    if _shop is None:
        raise RuntimeError("the worker was not set up")
    shop = _shop
    return [(task, _tried(task, shop)) for task in tasks]


def _tried(task: IngestTask, shop: Workshop) -> Ingested | Exception:
    return or_stored_alone(task, partial(_ingested, shop))


def or_stored_alone(task: IngestTask, attempt: Callable[[IngestTask], Ingested | Exception]) -> Ingested | Exception:
    """If deriving a session fails, store its rows without a digest, or else only its records, to be derived later.

    New records of an evicted session must be merged as events; without them they wait in its log.
    """
    outcome = attempt(task)
    if isinstance(outcome, Ingested) or not _may_be_deriving(outcome):
        return outcome
    reason = f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, HelixError) else type(outcome).__name__
    for is_bare in (False, True) if task.earlier is None else (False,):
        stored = attempt(replace(task, no_digest_because=reason, is_bare=is_bare))
        if isinstance(stored, Ingested):
            return stored
    return outcome


def _may_be_deriving(error: Exception) -> bool:
    """Whether the error may come from deriving: not from the disk, and not raised on purpose."""
    return isinstance(error, TooMuchError) or not isinstance(error, HelixError | OSError)


def _ingested(shop: Workshop, task: IngestTask) -> Ingested | Exception:
    from helix_assets.sweep.read import ingest  # imports pyarrow, only if there is work

    try:
        with _within(shop.limits, seconds_for(task, shop.limits)):
            return ingest(task, shop)
    except Overdue:
        return _too_long(task, shop.limits)
    except MemoryError:
        return TooMuchError("it needs more memory than sweep.worker_memory_bytes allows")
    except Exception as exc:  # noqa: BLE001 - passed to the caller, which reports the session and continues
        return exc


def seconds_for(task: IngestTask, limits: Limits) -> float:
    """How many seconds a session may take; more for more bytes."""
    return limits.seconds * (1 + task.weight / SLOW_BYTES)


def _too_long(task: IngestTask, limits: Limits) -> TooMuchError:
    return TooMuchError(f"it took longer than {seconds_for(task, limits):.0f} s; see sweep.session_seconds")


def _can_interrupt() -> bool:
    """Whether this thread may set an alarm, and no other code has set one."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)


@contextmanager
def _within(limits: Limits, seconds: float) -> Iterator[None]:
    """Limit the time and memory of what runs inside."""
    before = signal.signal(signal.SIGALRM, _raise_overdue)
    memory = resource.getrlimit(resource.RLIMIT_DATA)
    if _nowhere is not None:
        # Its own thread ends the process, even if the interpreter does not react.
        faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=_nowhere)
    try:
        _limit_memory(limits.memory_bytes, memory[1])
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_DATA, memory)
        if _nowhere is not None:
            faulthandler.cancel_dump_traceback_later()


def _limit_memory(more_bytes: int, most: int) -> None:
    """Let this process have so much more memory than it has now. Only Linux enforces it."""
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as file:
            now = int(file.read().split()[5]) * resource.getpagesize()
        limit = now + more_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def _raise_overdue(_: int, __: FrameType | None) -> None:
    raise Overdue
