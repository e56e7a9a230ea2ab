"""One writer at a time: a lock that the kernel releases when its holder dies."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helix_assets.model.errors import BusyError
from helix_assets.store.durable import naming

WAIT_S = 60.0
_POLL_S = 0.1


@contextmanager
def writer_lock(data_dir: Path, what: str, wait_s: float = WAIT_S, *, recovers: bool = True) -> Iterator[bool]:
    """Hold the store's writer lock. BusyError with the holder's name after `wait_s`.

    Yields whether the last holder was killed at work, so that leftovers are looked for only then. A holder that does
    not look for them (`recovers=False`) leaves that to the next one.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(fd, data_dir, what, wait_s)
        unfinished = bool(os.pread(fd, 1, 0))
        with naming(data_dir / "lock"):
            _note(fd, {"pid": os.getpid(), "what": what, "since": time.time()})
        yield unfinished
        if recovers or not unfinished:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _acquire(fd: int, data_dir: Path, what: str, wait_s: float) -> None:
    give_up = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise BusyError(
                    f"cannot {what}: the store in {data_dir} is in use by {holder(data_dir)}; try again later"
                ) from None
            time.sleep(_POLL_S)


def _note(fd: int, about: dict[str, object]) -> None:
    """Write down who holds the lock. The file is never empty meanwhile, so that a kill here still leaves a sign."""
    text = json.dumps(about).encode()
    os.pwrite(fd, text, 0)
    os.ftruncate(fd, len(text))


def is_locked(data_dir: Path) -> bool:
    """Whether some process holds the lock right now."""
    try:
        fd = os.open(data_dir / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def holder(data_dir: Path) -> str:
    """Who holds the lock, in words."""
    try:
        about = json.loads((data_dir / "lock").read_text())
        return f"process {about['pid']} ({about['what']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
