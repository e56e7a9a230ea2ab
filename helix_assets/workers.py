"""The pool that ingests sessions side by side. Small work is done in place: starting processes costs more."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from helix_assets.task import Ingested, IngestTask, Workshop

IN_PLACE_BYTES = 8 << 20
_shop: Workshop | None = None


class Workers:
    """Runs ingest tasks, in worker processes when there is enough to do."""

    def __init__(self, shop: Workshop, count: int) -> None:
        self._local = shop
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def run(self, tasks: Sequence[IngestTask]) -> Iterator[tuple[IngestTask, Ingested | Exception]]:
        """Results as they come; a task that fails gives its error and stops no other."""
        total = sum(_weight(task) for task in tasks)
        if self._count <= 1 or len(tasks) <= 1 or total < IN_PLACE_BYTES:
            for task in tasks:
                yield task, _tried(task, self._local)
            return
        yield from self._in_pool(sorted(tasks, key=_weight, reverse=True))

    def _in_pool(self, tasks: Sequence[IngestTask]) -> Iterator[tuple[IngestTask, Ingested | Exception]]:
        waiting = list(reversed(tasks))
        running: dict[Future[Ingested], IngestTask] = {}
        orphans: list[IngestTask] = []
        while waiting or running:
            while waiting and len(running) < self._count * 3:
                task = waiting.pop()
                try:
                    running[self._started().submit(_ingest_here, task)] = task
                except BrokenProcessPool:
                    orphans.append(task)
                    self._stop()
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                task = running.pop(future)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    orphans.append(task)
                    self._stop()
                elif isinstance(error, Exception):
                    yield task, error
                elif error is not None:
                    raise error
                else:
                    yield task, future.result()
        for task in orphans:
            yield task, self._alone(task)

    def _alone(self, task: IngestTask) -> Ingested | Exception:
        """Try a task of a pool that died in a process of its own: only the guilty one fails now."""
        with ProcessPoolExecutor(1, _context(), _set_up, (self._local,)) as pool:
            try:
                return pool.submit(_ingest_here, task).result()
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


def _weight(task: IngestTask) -> int:
    return task.weight


def _context() -> multiprocessing.context.BaseContext:
    """Fork is fastest and safe while there is one thread; anything else gets fresh interpreters."""
    can_fork = sys.platform == "linux" and threading.active_count() == 1 and "pyarrow" not in sys.modules
    return multiprocessing.get_context("fork" if can_fork else "forkserver")


def _set_up(shop: Workshop) -> None:
    global _shop  # noqa: PLW0603 - one workshop per worker process, handed over once
    _shop = shop
    os.umask(0o077)


def _ingest_here(task: IngestTask) -> Ingested:
    from helix_assets.ingest import ingest  # loads pyarrow: in the worker, once there is work

    if _shop is None:
        raise RuntimeError("the worker was not set up")
    return ingest(task, _shop)


def _tried(task: IngestTask, shop: Workshop) -> Ingested | Exception:
    from helix_assets.ingest import ingest  # loads pyarrow: not before there is work

    try:
        return ingest(task, shop)
    except Exception as exc:  # noqa: BLE001 - handed to the caller, who names the session and goes on
        return exc
