"""The pool that ingests sessions side by side, each within its limits of time and memory.

Small work is done in place, since starting processes costs more. A session that takes too long is interrupted, and one
that asks for too much memory is refused it, in both places. What does not answer to that, such as a loop in a library
written in C, ends its worker process; then every session that was with the pool gets a process of its own, and only the
guilty one fails. In place there is no such last resort, so only little is done there. Of a session that is too much its
records alone are tried; if these can be stored it lacks nothing but its digest.
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
"""What a session costs beside its bytes, mostly its file, as so many bytes more."""
PARTS_AHEAD = 4
SLOW_BYTES = 64 << 20
"""So many bytes of a session give it as much time again."""
GRACE_S = 10
Outcome = tuple[IngestTask, Ingested | Exception]
_shop: Workshop | None = None
_nowhere: IO[bytes] | None = None
"""In a worker process, where a dump of its threads goes when it is ended: they may name what nobody may read."""


class TooMuchError(HelixError):
    """A session took more time or memory than the settings allow."""


class _Overdue(BaseException):
    """Raised where a session is when its time is up; no `except Exception` on the way may take it for its own."""


@dataclass
class Work:
    """Tasks handed in together: those still to be done in place, how many are with the pool, and what came of them."""

    in_place: Sequence[IngestTask] = ()
    with_pool: int = 0
    done: deque[Outcome] = field(default_factory=deque)


class Workers:
    """Runs ingest tasks, in worker processes when there is enough to do; before these start, `prepare` makes what they
    are to have in common."""

    def __init__(self, shop: Workshop, count: int, prepare: Callable[[], None]) -> None:
        self._local = shop
        self._count = count
        self._prepare = prepare
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: deque[tuple[Work, list[IngestTask]]] = deque()
        self._running: dict[Future[list[Outcome]], tuple[Work, list[IngestTask], ProcessPoolExecutor]] = {}

    def run(self, tasks: Sequence[IngestTask]) -> Iterator[Outcome]:
        """Results as they come, before all that waits; a task that fails gives its error and stops no other."""
        return self.results(self.start(tasks, first=True))

    def start(self, tasks: Sequence[IngestTask], *, first: bool = False) -> Work:
        """Hand tasks in. The pool is given a few at once, and more whenever results are waited for."""
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
        """What comes of the work, in the order in which it is done."""
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
                if pool is self._pool:  # not one that was started since
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
        """Try a task of a pool that died in a process of its own: only the guilty one fails now."""
        return _or_stored_alone(task, self._in_own_process)

    def _in_own_process(self, task: IngestTask) -> Ingested | Exception:
        began = time.monotonic()
        with ProcessPoolExecutor(1, _context(), _set_up, (self._local,)) as pool:
            try:
                return pool.submit(_ingest_here, [task]).result()[0][1]
            except BrokenProcessPool:
                if time.monotonic() - began >= seconds_for(task, self._local.limits):
                    return _too_long(task, self._local.limits)
                return TooMuchError("its worker process died, most likely out of memory")
            except Exception as exc:  # noqa: BLE001 - handed to the caller like any other outcome
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
    """The large tasks first, one by one; small ones several at a time, since each hand-over costs about as much."""
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
    """Fork is fastest and safe while there is one thread; anything else gets fresh interpreters."""
    return multiprocessing.get_context("fork" if _can_fork() else "forkserver")


def _can_fork() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1 and "pyarrow" not in sys.modules


def _set_up(shop: Workshop) -> None:
    global _shop, _nowhere  # noqa: PLW0603 - one workshop per worker process, handed over once
    _shop = shop
    _nowhere = open(os.devnull, "wb")  # noqa: SIM115 - as long as the process lives
    os.umask(0o077)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Rows are many, short-lived and without cycles: with large files, looking for cycles among them at the usual rate
    # took a tenth of the time.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _end_with_parent() -> None:
    """A sweep that is killed leaves no worker behind, waiting for work that nobody will send."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _ingest_here(tasks: list[IngestTask]) -> list[Outcome]:
    if _shop is None:
        raise RuntimeError("the worker was not set up")
    shop = _shop
    return [(task, _tried(task, shop)) for task in tasks]


def _tried(task: IngestTask, shop: Workshop) -> Ingested | Exception:
    return _or_stored_alone(task, partial(_ingested, shop))


def _or_stored_alone(task: IngestTask, attempt: Callable[[IngestTask], Ingested | Exception]) -> Ingested | Exception:
    """Where deriving a session fails, store its records without a digest, or else alone: they are derived later.

    What is new of an evicted session has to be merged as events: without them it waits in its log.
    """
    outcome = attempt(task)
    if isinstance(outcome, Ingested) or not _may_be_deriving(outcome):
        return outcome
    told = f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, HelixError) else type(outcome).__name__
    for is_bare in (False, True) if task.earlier is None else (False,):
        stored = attempt(replace(task, no_digest_because=told, is_bare=is_bare))
        if isinstance(stored, Ingested):
            return stored
    return outcome


def _may_be_deriving(error: Exception) -> bool:
    """Whether the error may be of the code that derives: not of the disk, nor one that was raised on purpose."""
    return isinstance(error, TooMuchError) or not isinstance(error, HelixError | OSError)


def _ingested(shop: Workshop, task: IngestTask) -> Ingested | Exception:
    from helix_assets.sweep.read import ingest  # loads pyarrow: not before there is work

    try:
        with _within(shop.limits, seconds_for(task, shop.limits)):
            return ingest(task, shop)
    except _Overdue:
        return _too_long(task, shop.limits)
    except MemoryError:
        return TooMuchError("it needs more memory than sweep.worker_memory_bytes allows")
    except Exception as exc:  # noqa: BLE001 - handed to the caller, who names the session and goes on
        return exc


def seconds_for(task: IngestTask, limits: Limits) -> float:
    """How long a session may take: the more bytes, the longer."""
    return limits.seconds * (1 + task.weight / SLOW_BYTES)


def _too_long(task: IngestTask, limits: Limits) -> TooMuchError:
    return TooMuchError(f"it took longer than {seconds_for(task, limits):.0f} s; see sweep.session_seconds")


def _can_interrupt() -> bool:
    """Whether this thread may set an alarm, and nobody else has set one."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)


@contextmanager
def _within(limits: Limits, seconds: float) -> Iterator[None]:
    """Hold what happens inside to a time and an amount of memory."""
    before = signal.signal(signal.SIGALRM, _raise_overdue)
    memory = resource.getrlimit(resource.RLIMIT_DATA)
    if _nowhere is not None:
        # Kept by a thread of its own, whatever the interpreter does: this ends the process.
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
    """Let this process have so much more memory than it has now. Only Linux keeps to it."""
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as file:
            now = int(file.read().split()[5]) * resource.getpagesize()
        limit = now + more_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def _raise_overdue(_: int, __: FrameType | None) -> None:
    raise _Overdue
