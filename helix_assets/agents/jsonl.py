"""Tolerant reading of JSON Lines files: safe opening, chunks of whole lines, decoding that survives bad lines.

Belongs here: bytes to lines to objects, the same for every agent. Not here: what an object means.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from itertools import chain, repeat
from typing import Any, NamedTuple, Protocol

import orjson

from helix_assets.agents.spec import JsonObject
from helix_assets.model.errors import SkipSource

CHUNK_BYTES = 512 << 10
FIRST_BYTES = 32 << 10
"""The size of first chunks, small because those of all files of a session wait in memory, and there may be hundreds."""
MAX_LINE_BYTES = 64 << 20
MAX_UNPACKED_BYTES = 8 << 30
PACKED = ".zst"
READING_FAILED = "reading failed"
# The layout of a zstd file: frames, each a header and blocks that begin with three bytes. RFC 8878.
_LONGEST_HEADER = 18
_SKIPPED_FRAME = b"\x2a\x4d\x18"
_REPEATED = 1
_EXACT_INT_DIGITS = 19
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_F_GETPATH = 50  # macOS: the path of an open descriptor


class Read(Protocol):
    """How far a file was read, and the hash of the bytes up to there."""

    @property
    def offset(self) -> int: ...

    @property
    def read_hash(self) -> str | None: ...


class Chunk(NamedTuple):
    """Whole lines from `offset` on, the first being line number `line` (1-based)."""

    data: bytes
    line: int
    offset: int


def open_source(path: str) -> int:
    """Open a transcript for reading, without following links or blocking. SkipSource unless it is a regular file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        raise SkipSource(f"cannot be opened: {exc.strerror}") from exc
    try:
        refusal = _refusal(fd, path)
    except OSError as exc:
        refusal = f"cannot be examined: {exc.strerror}"
    if refusal:
        os.close(fd)
        raise SkipSource(refusal)
    return fd


def _refusal(fd: int, path: str) -> str | None:
    """Why an open file is not read, None if it is."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return "skipped: it is not a regular file"
    if _path_of(fd) not in (None, path):
        return "skipped: a folder on its path was swapped while it was opened"
    return None


def failed_status(path: str, reason: str) -> str:
    """The status of a failed file: every sweep tries an unreadable one again, a damaged one only after a change."""
    return "damaged" if path.endswith(PACKED) and reason.startswith(READING_FAILED) else "unreadable"


def _path_of(fd: int) -> str | None:
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(fd, _F_GETPATH, bytes(1024)).rstrip(b"\0"))
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None


def block_reader(fd: int, path: str, offset: int = 0) -> Callable[[int], bytes]:
    """A function that reads an open transcript from `offset` on, block by block; a packed one is unpacked.

    A damaged, cut or too large packed file raises OSError after what could be unpacked.
    """
    if path.endswith(PACKED):
        return _unpacking(fd, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return partial(_read_ahead, fd)


def _read_ahead(fd: int, size: int) -> bytes:
    """The rest of a plain file, at most `size`. A full-size buffer would cost more than reading a small file."""
    left = os.fstat(fd).st_size - os.lseek(fd, 0, os.SEEK_CUR)
    return os.read(fd, min(size, max(left, 0) + 1))


def _unpacking(fd: int, offset: int) -> Callable[[int], bytes]:
    from zstandard import ZstdDecompressor, ZstdError  # few homes have packed files

    os.lseek(fd, 0, os.SEEK_SET)
    stream = ZstdDecompressor().stream_reader(os.fdopen(fd, "rb", closefd=False), read_across_frames=True)

    def read(size: int) -> bytes:
        try:
            block = stream.read1(size)  # first returns what is before a damaged place
        except ZstdError as exc:
            raise OSError(errno.EIO, "it cannot be decompressed") from exc
        if stream.tell() > MAX_UNPACKED_BYTES:
            raise OSError(errno.EFBIG, f"it contains more than {MAX_UNPACKED_BYTES >> 30} GiB")
        if not block and _is_cut(fd):
            raise OSError(errno.EIO, "it is cut short")
        return block

    while offset > 0 and (skipped := read(min(offset, CHUNK_BYTES))):
        offset -= len(skipped)
    return read


def _is_cut(fd: int) -> bool:
    """Whether a packed file ends within a frame, which the decompressor does not notice."""
    from zstandard import ZstdError, frame_header_size, get_frame_parameters

    at, size = 0, os.fstat(fd).st_size
    try:
        while at < size:
            head = os.pread(fd, _LONGEST_HEADER, at)
            if head[1:4] == _SKIPPED_FRAME:
                at += 8 + int.from_bytes(head[4:8], "little")
                continue
            has_checksum = get_frame_parameters(head).has_checksum
            at += frame_header_size(head)
            is_last = False
            while not is_last:
                block = int.from_bytes(os.pread(fd, 3, at), "little")
                is_last, is_repeated = bool(block & 1), block >> 1 & 3 == _REPEATED
                at += 3 + (1 if is_repeated else block >> 3)
                if at > size:
                    return True
            at += 4 * has_checksum
    except ZstdError:  # an incomplete header
        return True
    return at != size


class WholeLines:
    """Chunks of whole lines from `read`, which continues at `offset`.

    A last line without its newline is yielded only if it is a whole JSON object; otherwise it waits, and `is_torn` is
    set at the end. A line over MAX_LINE_BYTES is skipped, once its newline is there, and its (line, offset) is added to
    `too_long`. `is_endless` means that the last line is already too long.
    """

    def __init__(self, read: Callable[[int], bytes], offset: int, line: int) -> None:
        self._read, self._offset, self._line = read, offset, line
        self.too_long: list[tuple[int, int]] = []
        self.is_torn = self.is_endless = False

    def __iter__(self) -> Iterator[Chunk]:
        offset, line = self._offset, self._line
        pending: list[bytes] = []
        held = 0
        skipped = 0
        sizes = chain((FIRST_BYTES,), repeat(CHUNK_BYTES))
        while block := self._read(next(sizes)):
            cut = block.rfind(b"\n") + 1
            if skipped:
                first = block.find(b"\n") + 1
                skipped += first or len(block)
                if not first:
                    continue
                self.too_long.append((line, offset))
                offset, line, skipped = offset + skipped, line + 1, 0
                yield Chunk(b"", line, offset)
                block, cut = block[first:], cut - first
            if not cut:
                pending.append(block)
                held += len(block)
                if held > MAX_LINE_BYTES:
                    skipped, pending, held = held, [], 0
                continue
            data = b"".join([*pending, block[:cut]]) if pending or cut < len(block) else block
            yield Chunk(data, line, offset)
            line += data.count(b"\n")
            offset += len(data)
            pending = [block[cut:]] if cut < len(block) else []
            held = len(block) - cut
        rest = b"".join(pending)  # empty while skipping
        if rest and _is_whole_object(rest):
            yield Chunk(rest, line, offset)
        else:
            self.is_endless = bool(skipped)
            self.is_torn = self.is_endless or bool(rest.strip())


def _is_whole_object(data: bytes) -> bool:
    text = data.strip()
    return text.startswith(b"{") and text.endswith(b"}") and isinstance(decode(text), dict)


def decode(line: bytes) -> JsonObject | str:
    """The line's JSON object, or the reason why it is not one."""
    try:
        obj = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            text = line.decode("utf-8", "replace")
            # Not strict: raw control characters in a string are wrong, but the record should not be lost.
            obj = json.loads(
                text, strict=False, parse_int=_int_or_none, parse_constant=lambda _: None, parse_float=_float_or_none
            )
            # Lone surrogates are allowed in JSON's escapes but not in UTF-8, so they are replaced here.
            obj = orjson.loads(json.dumps(obj, ensure_ascii=False).encode("utf-8", "replace"))
        except RecursionError:
            return "nested too deeply"
        except ValueError as exc:
            if not isinstance(exc, json.JSONDecodeError):
                return "not JSON"
            return f"not JSON: {exc.msg.removesuffix(' at')} at character {exc.pos}"
    return obj if isinstance(obj, dict) else f"a {type(obj).__name__} where an object is expected"


def _int_or_none(digits: str) -> int | None:
    return int(digits) if len(digits) <= _EXACT_INT_DIGITS else None


def _float_or_none(text: str) -> float | None:
    value = float(text)
    return value if abs(value) != float("inf") else None


def timestamp_us(value: Any) -> int | None:
    """Microseconds since 1970 of an ISO timestamp; None for anything else. A time without a zone is UTC."""
    if not isinstance(value, str):
        return None
    moment = _moment(value)
    if moment is None:
        return _leap_second(value)
    return _since_epoch(moment)


def _since_epoch(moment: datetime) -> int:
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _leap_second(value: str) -> int | None:
    head, mark, tail = value.partition(":60")
    earlier = _moment(f"{head}:59{tail}") if mark else None
    return None if earlier is None else _since_epoch(earlier) + 1_000_000


def _moment(value: str) -> datetime | None:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def count_or_zero(value: Any) -> int:
    """A token count from a log; anything but a whole number from 0 to 2^53 counts as 0."""
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


def hash_of_read(fd: int, path: str, offset: int, key: bytes) -> str:
    """The keyed hash of all bytes before `offset`. Reading may continue from there only while it is the same.

    For a packed file it is the hash of the unpacked bytes, so that packing does not change it.
    """
    return hashed_up_to(fd, path, offset, key).hexdigest()


def hashed_up_to(fd: int, path: str, offset: int, key: bytes) -> blake2b:
    """The state of that hash, so that bytes after `offset` can be added.

    A sweep asks twice, to plan and to read, and hashing is most of the work of a turn of a large log. So the hashes of
    a few files are remembered, as long as a file was not touched since.
    """
    info = os.fstat(fd)
    mark = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, offset, key)
    if (known := _hashed.get(mark)) is not None:
        return known.copy()
    state = _hashed_up_to(fd, path, offset, key)
    # A file may change once more without a new time: times are only as fine as the system's clock ticks.
    if time.time_ns() - max(info.st_mtime_ns, info.st_ctime_ns) > _TICK_NS:
        while len(_hashed) >= _HASHES:
            _hashed.pop(next(iter(_hashed)), None)
        _hashed[mark] = state.copy()
    return state


_hashed: dict[tuple[object, ...], blake2b] = {}
_HASHES = 64
_TICK_NS = 100_000_000


def _hashed_up_to(fd: int, path: str, offset: int, key: bytes) -> blake2b:
    state, read = blake2b(digest_size=16, key=key), block_reader(fd, path)
    while offset > 0 and (block := read(min(offset, CHUNK_BYTES))):
        state.update(block)
        offset -= len(block)
    return state


def begins_alike(key: bytes, path: str, source: Read) -> bool:
    """Whether a file begins with the same bytes that were read from its source."""
    if source.read_hash is None:
        return False
    try:
        fd = open_source(path)
    except SkipSource:
        return False
    try:
        return hash_of_read(fd, path, source.offset, key) == source.read_hash
    except OSError:
        return False
    finally:
        os.close(fd)
