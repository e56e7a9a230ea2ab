"""The pool that ingests sessions side by side. Small work is done in place: starting processes costs more."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

from helix_assets.task import Ingested, IngestTask, Workshop

IN_PLACE_BYTES = 8 << 20
PART_BYTES = 2 << 20
TASK_BYTES = 64 << 10
"""What a session costs beside its bytes, mostly its file, as so many bytes more."""
PARTS_AHEAD = 4
Outcome = tuple[IngestTask, Ingested | Exception]
_shop: Workshop | None = None


@dataclass
class Work:
    """Tasks handed in together: those still to be done in place, how many are with the pool, and what came of them."""

    in_place: Sequence[IngestTask] = ()
    with_pool: int = 0
    done: deque[Outcome] = field(default_factory=deque)


class Workers:
    """Runs ingest tasks, in worker processes when there is enough to do."""

    def __init__(self, shop: Workshop, count: int) -> None:
        self._local = shop
        self._count = count
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: deque[tuple[Work, list[IngestTask]]] = deque()
        self._running: dict[Future[list[Outcome]], tuple[Work, list[IngestTask]]] = {}

    def run(self, tasks: Sequence[IngestTask]) -> Iterator[Outcome]:
        """Results as they come, before all that waits; a task that fails gives its error and stops no other."""
        return self.results(self.start(tasks, first=True))

    def start(self, tasks: Sequence[IngestTask], *, first: bool = False) -> Work:
        """Hand tasks in. The pool is given a few at once, and more whenever results are waited for."""
        total = sum(task.weight + TASK_BYTES for task in tasks)
        if self._count <= 1 or (self._pool is None and (len(tasks) <= 1 or total < IN_PLACE_BYTES)):
            return Work(in_place=tasks)
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
                self._running[self._started().submit(_ingest_here, part)] = work, part
            except BrokenProcessPool:
                self._stop()
                work.done.extend((task, self._alone(task)) for task in part)

    def _collect(self) -> None:
        """Wait for something to be done, and keep the workers busy."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            work, part = self._running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
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
        with ProcessPoolExecutor(1, _context(), _set_up, (self._local,)) as pool:
            try:
                return pool.submit(_ingest_here, [task]).result()[0][1]
            except BrokenProcessPool:
                return RuntimeError("the worker process died, most likely out of memory")
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
    can_fork = sys.platform == "linux" and threading.active_count() == 1 and "pyarrow" not in sys.modules
    return multiprocessing.get_context("fork" if can_fork else "forkserver")


def _set_up(shop: Workshop) -> None:
    global _shop  # noqa: PLW0603 - one workshop per worker process, handed over once
    _shop = shop
    os.umask(0o077)
    # Rows are many, short-lived and without cycles: with large files, looking for cycles among them at the usual rate
    # took a tenth of the time.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _ingest_here(tasks: list[IngestTask]) -> list[Outcome]:
    if _shop is None:
        raise RuntimeError("the worker was not set up")
    shop = _shop
    return [(task, _tried(task, shop)) for task in tasks]


def _tried(task: IngestTask, shop: Workshop) -> Ingested | Exception:
    from helix_assets.ingest import ingest  # loads pyarrow: not before there is work

    try:
        return ingest(task, shop)
    except Exception as exc:  # noqa: BLE001 - handed to the caller, who names the session and goes on
        return exc
