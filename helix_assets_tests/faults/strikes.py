"""Faults at a step of an action in Python itself: killed there, or the disk full there for once. No strace needed.

Belongs here: striking before the n-th change of the disk that our own code asks for. `injection` strikes at every
system call, of libraries too.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from helix_assets.model.errors import StoreError
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.connection import Connection

_CALLS = ("rename", "replace", "unlink", "fsync", "link", "mkdir")
KILLED = 137


def kill(_call: str) -> None:
    """As SIGKILL: nothing is tidied up."""
    os._exit(KILLED)


def fill_disk(call: str) -> None:
    """What the code above would see."""
    if call == "commit":
        raise StoreError("the catalog cannot be written: the disk is full")
    if call != "unlink":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def struck(number: int, strike: Callable[[str], None]) -> Iterator[None]:
    """While this lasts, the n-th change is struck."""
    left = number

    def count(call: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            strike(call)

    def counted(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            count(name)
            return real(*args, **options)

        return call

    write: Callable[[Catalog], AbstractContextManager[Connection]] = Catalog.writing

    @contextmanager
    def writing(catalog: Catalog) -> Iterator[Connection]:
        with write(catalog) as connection:
            yield connection
            count("commit")

    with ExitStack() as stack:
        for name in _CALLS:
            stack.enter_context(mock.patch.object(os, name, counted(name)))
        stack.enter_context(mock.patch.object(Catalog, "writing", writing))
        yield


def in_child(work: Callable[[], object]) -> Callable[[], int]:
    """Start work in a process of its own; the call given back waits for its exit code: 0 well, 1 an exception."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)

    def wait(patience_s: float = 120.0) -> int:
        give_up = time.monotonic() + patience_s
        while time.monotonic() < give_up:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        raise TimeoutError(f"process {child} does not end")

    return wait
