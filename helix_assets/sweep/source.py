"""One file as a stream of records: read from where the last reading ended, redacted, decoded, with its keys.

Belongs here: all kinds of files, and where reading ended. Reads only. Not here: the events of records, or what several
files of a session have in common (`sweep.session_run`).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple, cast

import orjson

from helix_assets.agents import pieces_of
from helix_assets.agents.cutting import Cut, Cutting, reader
from helix_assets.agents.database import asking
from helix_assets.agents.jsonl import (
    CHUNK_BYTES,
    MAX_LINE_BYTES,
    PACKED,
    READING_FAILED,
    WholeLines,
    block_reader,
    decode,
    hash_of_read,
    hashed_up_to,
    open_source,
)
from helix_assets.agents.kinds import KnowsUnreadable, ReadsDatabases, ReadsTexts, SplitsDocuments
from helix_assets.agents.loose import dumped
from helix_assets.agents.roles import DATABASE, ONE_RECORD, TEXT, UNITS, UNREADABLE
from helix_assets.agents.spec import Adapter, Identity, JsonObject
from helix_assets.model.errors import Problem, SkipSource
from helix_assets.model.event import DOCUMENT, UNPARSED, Record
from helix_assets.redaction.joined import Joiner
from helix_assets.store.key import text_hash
from helix_assets.sweep.task import FileTask, SourceCursor, Workshop

MAX_DOCUMENT_BYTES = 8 << 20
UNPLACED_ROLES = frozenset({"about", "aside"})
NOT_UNDERSTOOD = "kept, but cannot be understood"
_LISTED_PROBLEMS = 50


_new = tuple.__new__  # a named tuple without the call that checks its length

# A record in the merged stream, with its JSON object if it is one.
Line = tuple[Record, JsonObject | None]


class Rewritten(Exception):
    """A file was rewritten since the task was planned: its session must be read from the start."""


def place(item: Line) -> tuple[int, int, int]:
    """The record's place in its session."""
    return item[0][:3]


def renewed(item: Line, raw: bytes, obj: JsonObject) -> Line:
    return item[0]._replace(raw=raw), obj


class _Unit(NamedTuple):
    """A unit that the adapter made, as a line of JSON, and its position in its file."""

    data: bytes
    line: int
    offset: int


def _batches(units: Iterable[_Unit]) -> Iterator[list[_Unit]]:
    """Units in groups so large that redacting them is as fast as for lines."""
    batch: list[_Unit] = []
    held = 0
    for unit in units:
        batch.append(unit)
        held += len(unit.data)
        if held >= CHUNK_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _is_touched(before: os.stat_result, now: os.stat_result) -> bool:
    return (now.st_mtime_ns, now.st_size) != (before.st_mtime_ns, before.st_size)


class _Counting:
    """A reader of blocks that counts the bytes it returned."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self.count = read, 0

    def __call__(self, size: int) -> bytes:
        block = self._read(size)
        self.count += len(block)
        return block


class Source:
    """Reads one file as a stream of lines, and knows where reading ended."""

    def __init__(self, task: FileTask, adapter: Adapter, shop: Workshop, hash64: Callable[[bytes], int]) -> None:
        self.task = task
        self._adapter = adapter
        self._shop = shop
        self._hash64 = hash64
        self._name = os.fsencode(os.path.basename(task.path).removesuffix(PACKED))
        self._seen: dict[int, int] = {}
        self.known: set[int] = set()
        self.order_us = task.order_us
        self.offset, self.line = task.offset, task.line
        self.problems: list[Problem] = []
        self.tripped: set[int] = set()
        self.problem: str | None = None
        self.split = task.split
        self.seen_us: int | None = None
        self._opened: os.stat_result | None = None
        self._read_hash: str | None = None
        self._hashed = blake2b()
        self._fell_short = False
        self.unparsed = self.lines = self.objects = self.bytes_read = self.redactions = self.withheld = 0
        pieces = pieces_of(adapter.flavor)
        self.joiner = Joiner(shop.redactor, pieces, renewed) if pieces and task.role not in ONE_RECORD else None

    def read(self) -> Iterator[Line]:
        if self.task.role == UNREADABLE:
            self._look_at_unreadable()
            return
        try:
            fd = open_source(self.task.opens or self.task.path)
        except SkipSource as exc:
            self.problem = str(exc)
            self.problems.append(Problem(self.task.shown, str(exc)))
            return
        try:
            # Taken before reading, so that what is appended meanwhile is news to the next sweep.
            self._opened = os.fstat(fd)
            yield from self._records(fd)
        except OSError as exc:
            self.problem = f"{READING_FAILED}: {exc.strerror}"
            self.problems.append(Problem(self.task.shown, self.problem, self.line, self.offset))
        finally:
            os.close(fd)
        if self.joiner is not None:
            yield from self.joiner.close()
            self.redactions += self.joiner.hits
            self.withheld += self.joiner.withheld

    def _look_at_unreadable(self) -> None:
        """Note the times of a file that cannot be read by design. The reason is not reported as a problem."""
        with suppress(OSError):  # it was deleted
            self._opened = os.stat(self.task.path, follow_symlinks=False)
            self.seen_us = self._opened.st_mtime_ns // 1000
        self.problem = cast(KnowsUnreadable, self._adapter).unreadable_because

    def _records(self, fd: int) -> Iterator[Line]:
        """The records of the open file, whatever kind of file it is."""
        if self.task.role == UNITS:
            return self._units(fd)
        if self.task.role == DATABASE:
            return self._rows()
        if self.task.role == TEXT:
            return self._blocks(fd)
        return self._document(fd) if self.task.role in ONE_RECORD else self._jsonl(fd)

    def _document(self, fd: int) -> Iterator[Line]:
        data = os.pread(fd, MAX_DOCUMENT_BYTES + 1, 0)
        self.offset = len(data)
        obj = decode(data)
        if isinstance(obj, dict):
            yield from self._chunk(json.dumps(obj).encode(), 1, 0)
        else:
            self.bad(1, 0, obj if len(data) <= MAX_DOCUMENT_BYTES else "larger than a document may be")
        self._read_hash = text_hash(self._shop.key, data)

    def _units(self, fd: int) -> Iterator[Line]:
        """The units of a document. One that is half written yields nothing, and its stored records stay."""
        data = os.pread(fd, MAX_LINE_BYTES + 1, 0)
        self._refuse_touched(fd)
        obj = decode(data) if len(data) <= MAX_LINE_BYTES else "larger than a document may be"
        if not isinstance(obj, dict):
            self.problems.append(Problem(self.task.shown, f"not read: {obj}"))
            return
        made = cast(SplitsDocuments, self._adapter).units(obj)
        yield from self._made(_Unit(dumped(unit), number, 0) for number, unit in enumerate(made, 1))
        self.offset = len(data)
        self._read_hash = text_hash(self._shop.key, data)

    def _rows(self) -> Iterator[Line]:
        """The units of one session of a database, from its private copy."""
        adapter = cast(ReadsDatabases, self._adapter)
        with asking(self.task.opens, adapter.queries) as ask:
            rows = adapter.rows(ask, self.task.part)
            yield from self._made(_Unit(dumped(unit), number, 0) for number, unit in enumerate(rows, 1))
        self.offset = self.task.found[2] if self.task.found else 0  # all of it, whatever the size of its units

    def _blocks(self, fd: int) -> Iterator[Line]:
        """The units of one session of a text, from where the last reading ended."""
        task, key = self.task, self._shop.key
        state = hashed_up_to(fd, task.opens, self.offset, key)
        if task.read_hash is not None and state.hexdigest() != task.read_hash:
            raise Rewritten
        read = _Counting(reader(fd, self.offset, task.until))
        splitter = cast(ReadsTexts, self._adapter).splitter(task.opens, task.split)
        cutting = Cutting(read, splitter, self.offset, self.line, is_over=task.is_over, hashed=state)
        self._hashed = cutting.hashed
        yield from self._made(self._own(cutting))
        self._read_hash = self._hashed.hexdigest()
        self._refuse_rewritten(fd, task.offset + read.count)

    def _own(self, cutting: Cutting) -> Iterator[_Unit]:
        """The blocks of this session. The next reading starts after the last complete one of them.

        So where reading stopped names no other session.
        """
        for cut in cutting:
            if cut.block.session != self.task.part:
                continue
            is_complete = cutting.offset == cut.end
            if is_complete:
                self.offset, self.line, self.split = cutting.offset, cutting.line, cutting.state
                self._hashed = cutting.hashed
            if not cut.is_too_long:
                yield _Unit(dumped(cut.block.unit), cut.line, cut.offset)
            else:
                self._skip_block(cut, is_complete=is_complete)

    def _skip_block(self, cut: Cut, *, is_complete: bool) -> None:
        """Count a block that is too long; one that may still grow only once it is complete."""
        if is_complete:
            self.bad(cut.line, cut.offset, "longer than a block may be; not stored")
        else:
            reason = "longer than a block may be, and it may still grow"
            self.problems.append(Problem(self.task.shown, reason, cut.line, cut.offset))

    def _made(self, units: Iterable[_Unit]) -> Iterator[Line]:
        """The records of units that the adapter made, each redacted like a line of JSON Lines."""
        for batch in _batches(units):
            data = b"\n".join(unit.data for unit in batch)
            lines = self._redacted(data).split(b"\n")
            for unit, text in zip(batch, lines, strict=True):
                self.lines += 1
                item = self._line(unit.data, text, unit.line, unit.offset)
                yield from (item,) if self.joiner is None else self._joined(item, unit.data, text)

    def _redacted(self, data: bytes) -> bytes:
        """Whole lines without secrets; the hits are counted."""
        redacted = self._shop.redactor.lines(data)
        self.redactions += redacted.hits
        self.withheld += redacted.withheld
        self.bytes_read += len(data)
        return redacted.data

    def _jsonl(self, fd: int) -> Iterator[Line]:
        path, key = self.task.path, self._shop.key
        state = hashed_up_to(fd, path, self.offset, key)
        if self.task.read_hash is not None and state.hexdigest() != self.task.read_hash:
            raise Rewritten
        read = _Counting(block_reader(fd, path, self.offset))
        whole = WholeLines(read, self.offset, self.line)
        try:
            for data, line, offset in whole:
                lines = yield from self._chunk(data, line, offset)
                self.line = line + lines
                self.offset = offset + len(data)
                state.update(data)
        finally:
            for line, offset in whole.too_long:
                self.bad(line, offset, "longer than a line may be; not stored")
        if whole.is_torn and path.endswith(PACKED):
            raise OSError(errno.EIO, "it ends within a line")  # a packed log is finished
        if whole.is_endless:
            reason = "longer than a line may be, and its end is not there yet"
            self.problems.append(Problem(self.task.shown, reason, self.line, self.offset))
        self._read_hash = hash_of_read(fd, path, self.offset, key) if whole.too_long else state.hexdigest()
        self._refuse_rewritten(fd, self.task.offset + read.count)

    def _refuse_rewritten(self, fd: int, reached: int) -> None:
        """Refuse a file that was rewritten while it was read: its lines would be of two versions."""
        opened, now = self._opened, os.fstat(fd)
        if opened is None or self.task.path.endswith(PACKED):
            return
        self._fell_short = reached < opened.st_size
        if (
            _is_touched(opened, now)
            and hash_of_read(fd, self.task.path, self.offset, self._shop.key) != self._read_hash
        ):
            raise Rewritten

    def _refuse_touched(self, fd: int) -> None:
        """Refuse a document that changed while it was read: it may be a mix of two versions."""
        if self._opened is None or _is_touched(self._opened, os.fstat(fd)):
            raise Rewritten

    def _chunk(self, data: bytes, line: int, offset: int) -> Generator[Line, None, int]:
        """The records of some whole lines. Returns how many lines there are."""
        clean = self._redacted(data)
        originals = data.split(b"\n")
        lines = originals if clean is data else clean.split(b"\n")
        for original, text in zip(originals, lines, strict=True):
            if original and not original.isspace():
                self.lines += 1
                item = self._line(original, text, line, offset)
                if self.joiner is None:
                    yield item
                else:
                    yield from self._joined(item, original, text)
            line += 1
            offset += len(original) + 1
        return len(originals) - 1

    def _joined(self, item: Line, original: bytes, text: bytes) -> Iterable[Line]:
        """Pass on a line that may be a piece of a message. Returns the lines of complete messages."""
        assert self.joiner is not None
        record, obj = item
        is_changed = text != original and self.joiner.is_piece(record.native_type)
        before = decode(original) if is_changed else None
        return self.joiner.take(item, record.file, record.native_type, obj, before if type(before) is dict else obj)

    def _line(self, original: bytes, text: bytes, line: int, offset: int) -> Line:
        task = self.task
        body = text.removeprefix(b"\xef\xbb\xbf") if line == 1 else text
        try:
            obj = orjson.loads(body)  # also proves that the text is UTF-8
        except orjson.JSONDecodeError:
            obj, text = decode(body), text.decode("utf-8", "replace").encode()
        is_object = type(obj) is dict
        self.objects += is_object
        named = identity(self._adapter, obj) if is_object else None
        if named is not None:
            native_id, parent_id, ts_us, native_type = named
        else:
            self.bad(line, offset, NOT_UNDERSTOOD if is_object else decode(body))
            obj, native_id, parent_id, ts_us, native_type = None, None, None, None, UNPARSED
        if ts_us is not None and ts_us > self.order_us and task.role not in UNPLACED_ROLES:
            self.order_us = ts_us
        if task.role in ONE_RECORD:
            native_id, native_type = None, DOCUMENT
            key = self._hash64(b"document:" + self._name)
        elif native_id:
            key = self._hash64(b"id:" + self._id_as_logged(native_id, original, text).encode("utf-8", "replace"))
        else:
            key = self._anonymous_key(original)
        if is_object and named is None:
            self.tripped.add(key)
        return _new(
            Record, (self.order_us, task.rank, line, offset, key, native_id, parent_id, ts_us, native_type, text)
        ), obj

    def _id_as_logged(self, native_id: str, original: bytes, text: bytes) -> str:
        """The record's id as its agent wrote it, because it must not change with the redaction rules."""
        if text == original or native_id.encode() in original:
            return native_id
        obj = decode(original)
        named = identity(self._adapter, obj) if isinstance(obj, dict) else None
        return named.native_id or native_id if named is not None else native_id

    def _anonymous_key(self, original: bytes) -> int:
        """A key for a line without an id: its bytes, its file's name, and how often it occurred before in this file."""
        base = self._hash64(self._name + b"\0" + original.strip())
        count = self._seen.get(base, 0)
        key = base if not count else self._hash64(b"%d:%d" % (base, count))
        while key in self.known:
            count += 1
            key = self._hash64(b"%d:%d" % (base, count))
        self._seen[base] = count + 1
        return key

    def bad(self, line: int, offset: int, reason: str | JsonObject) -> None:
        """Count a line that is not a record, or was not understood; list the first of them."""
        self.unparsed += 1
        if self.unparsed <= _LISTED_PROBLEMS:
            self.problems.append(Problem(self.task.shown, str(reason), line, offset))

    def all_problems(self) -> list[Problem]:
        """What could not be read. Of very many bad lines only the first are listed and the others counted."""
        more = self.unparsed - _LISTED_PROBLEMS
        if more <= 0:
            return self.problems
        return [*self.problems, Problem(self.task.shown, f"{more} more lines are bad and not listed")]

    def cursor(self, state: JsonObject | None) -> SourceCursor | None:
        """Where reading ended, or None if the file was deleted meanwhile.

        Without a hash, as after a failed read, the next sweep reads the file from the start. A file that was cut while
        it was read always looks changed to the next sweep.
        """
        try:
            info = self._opened or os.stat(self.task.path, follow_symlinks=False)
        except OSError:
            return None
        if self.joiner is not None and self.joiner.ended_within:
            state = None  # all pieces of this message are needed again
        size = info.st_size if self.task.path.endswith(PACKED) else max(info.st_size, self.offset)
        found = info.st_dev, info.st_ino, size, -1 if self._fell_short else info.st_mtime_ns
        return SourceCursor(self.task.path_key, *(self.task.found or found), self._read_hash, self.offset,
                            self.line, self.order_us, state, self.problem)  # fmt: skip


def identity(adapter: Adapter, obj: JsonObject) -> Identity | None:
    """A line's ids, time and type, None if the adapter fails."""
    try:
        return adapter.identify(obj)
    except Exception:  # noqa: BLE001 - one line must not cost the session
        return None
