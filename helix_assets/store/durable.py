"""Writing and opening files of the store: synced before the catalog names them, and refused if not regular files."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO


def sync(root: Path, files: Sequence[Path]) -> None:
    """Sync files and their folders to the disk: with one syncfs if the system has it, else file by file."""
    if not files:
        return
    if len(files) > 4 and sys.platform == "linux":
        fd = os.open(root, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd) == 0:
                return
            raise OSError(ctypes.get_errno(), "syncfs failed", str(root))
        finally:
            os.close(fd)
    for path in [*files, *{file.parent for file in files}]:
        fd = os.open(path, os.O_RDONLY)
        try:
            with naming(path):
                os.fsync(fd)
        finally:
            os.close(fd)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to errors of calls on an open file, which lack it: a full disk, for example."""
    try:
        yield
    except OSError as exc:
        if exc.filename is None:
            exc.filename = str(path)
        raise


def open_new(path: Path) -> BinaryIO:
    """Open a new file that only this user can read, or empty an old one."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """As `open_new`, for as long as it is written to; errors name the file."""
    with naming(path), open_new(path) as file:
        yield file


def open_plain(path: Path) -> IO[bytes]:
    """Open a regular file for reading. OSError for anything else: links are not followed, pipes not waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(fd, "rb")


def drop(path: Path) -> None:
    """Remove what is at this path, if anything: a file, a link or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make or replace a file in one step. Its bytes are on the disk when the call returns. An error changes nothing."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        with new_file(fresh) as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        sync(path.parent, [fresh])
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
    sync(path.parent, [path])
