"""One session's part of a sweep: read its files, redact, order, derive, write one part file, digest.

Runs in a worker process and touches only the sources (read-only) and the staging folder; `sweep.sweep` publishes the
result. An append continues after the stored rows; everything else is rewritten from the stored rows that still count
and from the files. Not here: which files changed.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, cast

import orjson

from helix_assets.agents import ADAPTERS, pieces_of, vocabulary_of
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
from helix_assets.agents.repositories import repository_root
from helix_assets.agents.roles import DATABASE, ONE_RECORD, READ_WHOLE, TEXT, UNITS, UNREADABLE
from helix_assets.agents.spec import Adapter, Identity, JsonObject, Parser, SessionFacts
from helix_assets.derive.digest_builder import DigestBuilder, SessionHead
from helix_assets.derive.fact_builder import FactBuilder
from helix_assets.derive.link import BareLinker, Linker
from helix_assets.derive.places import PlaceRules, domain_of, repo_of, task_of
from helix_assets.model.digest import Digest
from helix_assets.model.errors import HelixError, Problem, RetryLater, SkipSource, StoreError
from helix_assets.model.event import AFTER_THE_END, DOCUMENT, UNPARSED, Record, Row, SessionEvent
from helix_assets.model.facts import SessionFactRows
from helix_assets.model.identity import is_worldwide, utf8_name
from helix_assets.redaction.again import value_again
from helix_assets.redaction.joined import Joiner
from helix_assets.store.catalog.session_keys import SessionKeys, message_key
from helix_assets.store.key import hasher, text_hash
from helix_assets.store.parquet import SessionWriter, keys_without_text, read_placed, read_rows, read_unplaced
from helix_assets.store.raw import PartFile, file_hash
from helix_assets.store.words.hashing import WordHasher
from helix_assets.sweep.task import BEFORE_TIME, FileTask, Ingested, IngestTask, SourceCursor, Workshop

MAX_DOCUMENT_BYTES = 8 << 20
UNPLACED_ROLES = frozenset({"about", "aside"})
NOT_UNDERSTOOD = "kept, but cannot be understood"
_LISTED_PROBLEMS = 50
_READ_TRIES = 3


_new = tuple.__new__  # a named tuple without the call that checks its length

# A record in the merged stream, with its JSON object if it is one.
_Line = tuple[Record, JsonObject | None]


class _OutOfOrder(Exception):
    """An appended record belongs before stored ones: the session must be rewritten."""


class _Rewritten(Exception):
    """A file was rewritten since the task was planned: its session must be read from the start."""


class _Incomplete(Exception):
    """Some records that the session has counted can no longer be read: new ones are merged into the kept digest."""


def _place(item: _Line) -> tuple[int, int, int]:
    """The record's place in its session."""
    return item[0][:3]


def _renewed(item: _Line, raw: bytes, obj: JsonObject) -> _Line:
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


class _Source:
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
        self.joiner = Joiner(shop.redactor, pieces, _renewed) if pieces and task.role not in ONE_RECORD else None

    def read(self) -> Iterator[_Line]:
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

    def _records(self, fd: int) -> Iterator[_Line]:
        """The records of the open file, whatever kind of file it is."""
        if self.task.role == UNITS:
            return self._units(fd)
        if self.task.role == DATABASE:
            return self._rows()
        if self.task.role == TEXT:
            return self._blocks(fd)
        return self._document(fd) if self.task.role in ONE_RECORD else self._jsonl(fd)

    def _document(self, fd: int) -> Iterator[_Line]:
        data = os.pread(fd, MAX_DOCUMENT_BYTES + 1, 0)
        self.offset = len(data)
        obj = decode(data)
        if isinstance(obj, dict):
            yield from self._chunk(json.dumps(obj).encode(), 1, 0)
        else:
            self.bad(1, 0, obj if len(data) <= MAX_DOCUMENT_BYTES else "larger than a document may be")
        self._read_hash = text_hash(self._shop.key, data)

    def _units(self, fd: int) -> Iterator[_Line]:
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

    def _rows(self) -> Iterator[_Line]:
        """The units of one session of a database, from its private copy."""
        adapter = cast(ReadsDatabases, self._adapter)
        with asking(self.task.opens, adapter.queries) as ask:
            rows = adapter.rows(ask, self.task.part)
            yield from self._made(_Unit(dumped(unit), number, 0) for number, unit in enumerate(rows, 1))
        self.offset = self.task.found[2] if self.task.found else 0  # all of it, whatever the size of its units

    def _blocks(self, fd: int) -> Iterator[_Line]:
        """The units of one session of a text, from where the last reading ended."""
        task, key = self.task, self._shop.key
        state = hashed_up_to(fd, task.opens, self.offset, key)
        if task.read_hash is not None and state.hexdigest() != task.read_hash:
            raise _Rewritten
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

    def _made(self, units: Iterable[_Unit]) -> Iterator[_Line]:
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

    def _jsonl(self, fd: int) -> Iterator[_Line]:
        path, key = self.task.path, self._shop.key
        state = hashed_up_to(fd, path, self.offset, key)
        if self.task.read_hash is not None and state.hexdigest() != self.task.read_hash:
            raise _Rewritten
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
            raise _Rewritten

    def _refuse_touched(self, fd: int) -> None:
        """Refuse a document that changed while it was read: it may be a mix of two versions."""
        if self._opened is None or _is_touched(self._opened, os.fstat(fd)):
            raise _Rewritten

    def _chunk(self, data: bytes, line: int, offset: int) -> Generator[_Line, None, int]:
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

    def _joined(self, item: _Line, original: bytes, text: bytes) -> Iterable[_Line]:
        """Pass on a line that may be a piece of a message. Returns the lines of complete messages."""
        assert self.joiner is not None
        record, obj = item
        is_changed = text != original and self.joiner.is_piece(record.native_type)
        before = decode(original) if is_changed else None
        return self.joiner.take(item, record.file, record.native_type, obj, before if type(before) is dict else obj)

    def _line(self, original: bytes, text: bytes, line: int, offset: int) -> _Line:
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


class _SessionRun:
    """The state of one task: takes the stream record by record and writes rows."""

    def __init__(self, task: IngestTask, shop: Workshop, last_sighting: dict[int, int]) -> None:
        self.task, self._shop = task, shop
        self.adapter = ADAPTERS[task.flavor]
        self._shares_history = self.adapter.shares_history
        self._hash64 = hasher(shop.key)
        self._last_sighting = last_sighting
        self._files = {f.rank: f for f in task.files}
        self._parsers: dict[int, Parser] = {}
        self._last_record: dict[int, Record] = {}
        self._states: dict[int, JsonObject | None] = {}
        roles = {**task.roles, **{f.rank: f.role for f in task.files}}
        self._unplaced = {rank for rank, role in roles.items() if role in UNPLACED_ROLES}
        self._marks: dict[int, int] = {}
        self._repeats: dict[int, int] = {}
        self._known: set[int] = set()
        self._in_files: set[int] = set()
        self.outlived: set[int] = set()
        self._writer: SessionWriter | None = None
        self.facts = replace(task.facts, unknown_types=dict(task.facts.unknown_types))
        if not task.append and not task.is_bare:  # what is carried over may be redacted by older rules
            self.facts = SessionFacts(**value_again(shop.redactor, asdict(self.facts)))
        self._foreign = set(task.foreign_messages)
        words = vocabulary_of(task.flavor)
        self.linker = (BareLinker if task.is_bare else Linker)(words, self._foreign)
        self._earlier = task.earlier
        self._counted = task.earlier.keys.all if task.earlier else frozenset[int]()
        self._open_before: dict[int, Counter[str | None]] = {}
        self._light: set[int] = set()
        self._records: set[int] = set()
        self._bad_lines: set[int] = set()
        self.evicted: set[int] = set()
        self.light: set[int] = set()
        if task.merges and task.earlier is not None:
            self.linker.start_at(task.earlier.first_seq)
        self.digests = DigestBuilder(words)
        self.fact_builder = FactBuilder(words)
        self.failure = task.no_digest_because
        self.changed: set[int] = set()
        self.sources = [_Source(f, self.adapter, shop, self._hash64) for f in task.files]
        self._source_of = {source.task.rank: source for source in self.sources}
        self.unparsed_before = task.unparsed if task.append else 0
        self.withheld = 0
        self._stored_alone: set[int] = set()
        self.shareable: set[int] = set()
        self.message_ids: dict[int, str] = {}
        self._last_message: str | None = None
        self.held_since_us, self.ended_us = task.facts.held_since_us or task.started_us, task.ended_us
        self.started_us = None if task.not_ours and not task.append else task.started_us
        self._copied_branch: str | None = None
        self.last_row = task.last_row

    def run(self) -> None:
        stored = [Path(path) for path, _ in self.task.stored]
        self._refuse_damaged()
        if stored:
            self._take_in(stored)
        streams = [source.read() for source in self.sources]
        if stored and not self.task.append:
            self._in_files = self._keys_in_files()
            streams += [self._kept(read_placed(stored, raw=True)), self._kept(read_unplaced(stored, raw=True))]
        for item in heapq.merge(*streams, key=_place) if len(streams) > 1 else streams[0] if streams else ():
            self._take(item)
        if not self._in_files <= self._marks.keys():
            raise _Rewritten
        self._refuse_incomplete()
        for rank, parser in self._parsers.items():
            self._states[rank] = parser.state()  # before `finish`, which closes what is open
            if (events := self._uncounted(rank, parser.finish())) and rank in self._last_record:
                last = self._last_record[rank]
                self._emit(
                    self.linker.rows(
                        last._replace(raw=b"", native_id=None, parent_id=None, native_type=AFTER_THE_END), events
                    )
                )
        self._check_what_events_rest_on()

    def _refuse_incomplete(self) -> None:
        """Refuse an evicted session if not all that it has counted was read: its digest would count less.

        A merge that finds all of it was read while its log was written to.
        """
        if self._earlier is None:
            return
        tripped = set[int]().union(*(source.tripped for source in self.sources))
        if tripped - self._earlier.keys.bad_lines:
            raise HelixError("a new line of its log is not understood: it waits until a newer version reads it")
        met = self._marks.keys() | (self._known - self._light)
        is_whole = self._earlier.keys.records <= met and len(met) >= (self._earlier.at_least or 0)
        if self.task.merges and is_whole and self._marks:
            raise _Rewritten
        if not self.task.merges and not is_whole:
            raise _Incomplete
        if not self.task.merges:
            self.unparsed_before += len(self._earlier.keys.bad_lines - self._marks.keys())

    def _check_what_events_rest_on(self) -> None:
        """Refuse an append if the session's documents changed, because stored rows depend on them."""
        for rank, file in self._files.items():
            is_continued = self.task.append and not self.task.merges
            if is_continued and file.role == "about" and self.parser_state(rank) != file.state:
                raise _OutOfOrder

    def _refuse_damaged(self) -> None:
        """Refuse damaged files: nothing is derived from them, and nothing replaces them."""
        for path, proof in self.task.stored:
            if file_hash(Path(path), self._shop.key) != proof:
                raise StoreError(f"{os.path.basename(path)} is damaged: run `helix verify`")

    def _take_in(self, stored: list[Path]) -> None:
        """Read what is stored; for an append bring linker and digest to the end of the stored rows."""
        rows = list(read_rows(stored, raw=False))
        self._known = {row.record_key for row in rows}
        if self._earlier is not None:
            self._light = keys_without_text(stored)
        if self.task.append:
            self.linker.resume(rows)
            # In a merge only those stored while no digest could be made, which the kept one does not count.
            self._digest([row for row in rows if self._is_news(row)] if self.task.merges and self._counted else rows)
        for source in self.sources:
            source.known = self._known if source.task.offset else set()

    def _keys_in_files(self) -> set[int]:
        """The records in the files now. If a later reading misses one, a file was rewritten."""
        keys = set[int]()
        for task in self.task.files:
            source = _Source(task, self.adapter, self._shop, self._hash64)
            source.joiner = None
            source.known = self._known if task.offset else set()
            keys.update(record.key for record, _ in source.read())
        return keys

    def _kept(self, rows: Iterator[Row]) -> Iterator[_Line]:
        """Stored records before the cursor, and those that no file holds any longer."""
        lines, pieces = self._kept_lines(rows), pieces_of(self.task.flavor)
        if pieces is None:
            yield from lines
            return
        joiner = Joiner(self._shop.redactor, pieces, _renewed, heals=True)
        for item in lines:
            yield from joiner.take(item, item[0].file, item[0].native_type, item[1])
        yield from joiner.close()
        self.withheld += joiner.withheld

    def _kept_lines(self, rows: Iterator[Row]) -> Iterator[_Line]:
        for row in rows:
            is_before_cursor = row.file in self._files and row.offset < self._files[row.file].offset
            if row.raw and (is_before_cursor or row.record_key not in self._in_files):
                redacted = self._shop.redactor.lines(row.raw)  # by the current rules, which may be newer
                obj = decode(redacted.data)
                names = self._identity_again(row, obj)
                self.withheld += redacted.withheld
                self.unparsed_before += names.native_type == UNPARSED
                if not is_before_cursor:
                    self.outlived.add(row.file)
                    self._stored_alone.add(row.record_key)
                record = Record(row.order_us, row.file, row.line, row.offset, row.record_key, *names, redacted.data)
                yield record, obj if isinstance(obj, dict) else None

    def _identity_again(self, row: Row, obj: object) -> Identity:
        """Ids, time and type of a stored record from its line, redacted by the current rules.

        The row may have the time of its event, such as the beginning of a message that the record closes.
        """
        names = Identity(row.record_id, row.parent_id, row.ts_us, row.native_type)
        if isinstance(obj, dict) and (found := identity(self.adapter, obj)):
            names = found._replace(native_id=None, native_type=DOCUMENT) if row.native_type == DOCUMENT else found
        clean = self._shop.redactor.text
        native_id, parent_id = (name and clean(name).text for name in names[:2])
        return Identity(native_id, parent_id, names.ts_us, clean(names.native_type).text)

    def _take(self, item: _Line) -> None:
        record, obj = item
        ts_us = record.ts_us
        if ts_us is not None:
            if self.held_since_us is None or ts_us < self.held_since_us:
                self.held_since_us = ts_us
            if self.ended_us is None or ts_us > self.ended_us:
                self.ended_us = ts_us
            self._date(record, ts_us)
        is_given_up = record.key in self._stored_alone and record.key in self.task.not_ours
        if self._shares_history and is_worldwide(record.native_id) and not is_given_up:
            self.shareable.add(record.key)
        if self._is_repeated(record):
            return
        if self.task.merges and self._was_counted(record):
            self._skip(record, obj)
            return
        is_unplaced = record.file in self._unplaced
        is_continued = self.task.append and not self.task.merges
        if is_continued and not is_unplaced and (_place(item) <= self.task.last_row or record.key in self._known):
            raise _OutOfOrder
        if self.task.merges and record.file not in self._last_record:
            self._note_what_is_open(record.file)
        events = self._uncounted(record.file, self._events(record, obj)) if obj is not None else []
        self._last_record[record.file] = record
        if not is_given_up:
            self._note_messages(events)
        if is_unplaced:
            self._emit(self.linker.unplaced(record, events))
        elif record.key not in self.task.not_ours:
            self.last_row = _place(item)
            self._emit(self.linker.rows(record, events))

    def _date(self, record: Record, ts_us: int) -> None:
        """Start the session with its first own record; copied history before it also has another one's branch.

        Behind copied history only a record with an id shows that it is the session's own.
        """
        is_resumed = bool(self.task.not_ours)
        if is_resumed and (record.key in self.task.not_ours or not is_worldwide(record.native_id)):
            return
        if self.started_us is None or ts_us < self.started_us:
            if self.started_us is None and is_resumed:
                self._copied_branch, self.facts.git_branch = self.facts.git_branch, None
            self.started_us = ts_us

    def settle_start(self) -> None:
        """Note since when the session holds records of another one. Without own records these date it."""
        self.facts.git_branch = self.facts.git_branch or self._copied_branch
        if self.started_us is None or self.facts.own_since_us is not None:
            self.started_us = self.held_since_us
        self.facts.held_since_us = self.held_since_us if self.held_since_us != self.started_us else None

    def _is_news(self, row: Row) -> bool:
        return row.native_type != DOCUMENT and row.record_key not in self._counted

    def _was_counted(self, record: Record) -> bool:
        """Whether a record is already counted: by its key alone, because a log may have been cut.

        The time decides only if an earlier version recorded no keys.
        """
        is_known = record.key in self._counted or record.key in self._known or self._is_same_document(record)
        earlier = self._earlier
        is_old = earlier is not None and earlier.at_least is not None and record.order_us <= earlier.last_row[0]
        return is_known or is_old

    def _is_same_document(self, record: Record | Row) -> bool:
        file = self._files.get(record.file)
        return record.native_type == DOCUMENT and file is not None and file.is_same

    def _skip(self, record: Record, obj: JsonObject | None) -> None:
        """Show a record that is already counted only to the parser, which needs it later."""
        self._last_record.pop(record.file, None)  # events of the end of the file were counted with it
        self.unparsed_before -= record.native_type == UNPARSED
        if obj is not None:
            with suppress(Exception):  # if a parser fails here, that was reported when the record was counted
                self._parser(record.file).feed(obj, record)

    def _note_what_is_open(self, rank: int) -> None:
        """Note the open events of counted records: they were counted, and new records close them."""
        if rank in self._parsers:
            self._open_before[rank] = Counter(event.kind for event in deepcopy(self._parsers[rank]).finish())

    def _uncounted(self, rank: int, events: list[SessionEvent]) -> list[SessionEvent]:
        """The events without those that were counted while they were still open."""
        if not (was_open := self._open_before.get(rank)):
            return events
        fresh = []
        for event in events:
            if was_open[event.kind] > 0:
                was_open[event.kind] -= 1
            else:
                fresh.append(event)
        return fresh

    def _events(self, record: Record, obj: JsonObject) -> list[SessionEvent]:
        """The record's events. If the parser fails, the record is kept and reported, and has none."""
        if self.task.is_bare:
            return []
        try:
            return self._parser(record.file).feed(obj, record)
        except MemoryError:
            raise  # the line may not be the cause, and the next one would fail, too
        except Exception as exc:  # noqa: BLE001 - one line must not cost the session
            source = self._source_of.get(record.file)
            if source is None:
                self.unparsed_before += 1
            else:
                source.bad(record.line, record.offset, f"{NOT_UNDERSTOOD}: {type(exc).__name__}")
            return []

    def _is_repeated(self, record: Record) -> bool:
        """Whether this run has the record elsewhere: of equal ones the first counts, of several versions the last."""
        key = record.key
        mark = self._marks.get(key)
        # without an id the key is made of the bytes, so there cannot be two versions
        version = hash(record.raw) if record.native_id or record.native_type == DOCUMENT else 0
        if mark is None:
            self._marks[key] = version
            return bool(self._last_sighting) and self._last_sighting.get(key, 1) != 1
        count = self._repeats[key] = self._repeats.get(key, 1) + 1
        if key in self._last_sighting:
            return count != self._last_sighting[key]
        if mark != version:
            self.changed.add(key)
        return True

    def sightings_of_changed(self) -> dict[int, int]:
        """For records seen in several versions: how often each was seen."""
        return {key: self._repeats[key] for key in self.changed}

    def _note_messages(self, events: list[SessionEvent]) -> None:
        """Remember the messages whose usage the session holds; a message often has several lines in a row."""
        if not self._shares_history:
            return
        for event in events:
            message_id = event.message_id
            if message_id and event.usage is not None and message_id != self._last_message and is_worldwide(message_id):
                self.message_ids[message_key(self._hash64, message_id)] = message_id
                self._last_message = message_id

    def _parser(self, rank: int) -> Parser:
        parser = self._parsers.get(rank)
        if parser is None:
            task = self._files.get(rank)
            state = task.state if task and self.task.append else None
            parser = self.adapter.parser(self._role(rank), self.facts, self._hash64, state)
            self._parsers[rank] = parser
        return parser

    def _role(self, rank: int) -> str:
        task = self._files.get(rank)
        return task.role if task else self.task.roles.get(rank, "main")

    def _digest(self, rows: list[Row]) -> None:
        """Feed digest and facts. If they fail, the records are still stored."""
        for row in rows:
            if row.native_type not in (DOCUMENT, AFTER_THE_END):
                (self._bad_lines if row.native_type == UNPARSED else self._records).add(row.record_key)
        if self.failure is None:
            try:
                self.digests.add(rows)
                self.fact_builder.add(rows)
            except Exception as exc:  # noqa: BLE001 - any error is reported in status and in a check
                self.failure = f"{type(exc).__name__} while the digest was built"

    def _emit(self, rows: list[Row]) -> None:
        self._digest(rows)
        record = rows[0].record_key
        if self._earlier is not None and record not in self._known:
            if self._is_same_document(rows[0]):
                return
            if record in self._counted:
                self.evicted.add(record)
                return
        if record in self._light:
            self.light.add(record)
            rows = [row._replace(raw=None) for row in rows]
        if self._writer is None:
            name = f"{text_hash(self._shop.key, self.task.session_uid.encode('utf-8', 'replace'))[:20]}.{os.getpid()}"
            path, key = Path(self._shop.staging) / name, self._shop.key
            words = WordHasher(key) if self._shop.finds_words and not self.task.is_bare else None
            self._writer = SessionWriter(path, self.task.session_uid, key, hasher=words)
        self._writer.add(rows)

    @property
    def has_counted(self) -> bool:
        """Whether the digest counts any record."""
        return bool(self._records)

    def keys(self) -> SessionKeys:
        """The keys that the digest of this run counts, and for each message the record whose usage counts."""
        messages = {
            message_key(self._hash64, row.message_id): row.record_key
            for row, _ in self.digests.counted_usage()
            if row.message_id
        }
        return SessionKeys(frozenset(self._records), frozenset(self._bad_lines), messages)

    def parser_state(self, rank: int) -> JsonObject | None:
        """The state for the file's next append, None if it must be derived from the start."""
        if self.task.is_bare:
            return None
        if rank in self._states:
            return self._states[rank]
        file = self._files[rank]
        return file.state if self.task.append and file.role not in READ_WHOLE else {}

    def finish_part(self) -> PartFile | None:
        if self._writer is None:
            return None
        part = self._writer.close()
        if self._writer.wordless_because:
            self.failure = self.failure or f"{self._writer.wordless_because} while its words were found"
        return part

    def discard(self) -> None:
        if self._writer:
            self._writer.discard()


def ingest(task: IngestTask, shop: Workshop) -> Ingested:
    """Bring one session up to date. An append that does not fit becomes a rewrite."""
    if task.is_bare:
        task = replace(_as_rewrite(task), facts=task.facts)
    for _ in range(_READ_TRIES):
        try:
            return _ingest(task, shop)
        except _Rewritten:
            files = (replace(f, offset=0, line=1, order_us=BEFORE_TIME, state=None, read_hash=None) for f in task.files)
            task = replace(_as_rewrite(task), files=tuple(files), facts=SessionFacts(), started_us=None, ended_us=None)
    raise RetryLater("a file was rewritten each time it was read; the next sweep tries again")


def _ingest(task: IngestTask, shop: Workshop) -> Ingested:
    try:
        run = _last_versions(task, shop)
    except _OutOfOrder:
        run = _last_versions(_as_rewrite(task), shop)
    except _Incomplete:
        run = _last_versions(_as_merge(task), shop)
    try:
        return _result(run, shop)
    except BaseException:
        run.discard()
        raise


def _last_versions(task: IngestTask, shop: Workshop) -> _SessionRun:
    """A run in which the last of several versions of a record counts."""
    run = _run(task, shop, {})
    if run.changed:
        run.discard()
        run = _run(_as_rewrite(task), shop, run.sightings_of_changed())
    return run


def _as_merge(task: IngestTask) -> IngestTask:
    """The task as one that only adds what was not counted before to what is stored and kept."""
    earlier = task.earlier
    if earlier is None:
        raise ValueError("nothing was evicted of this session")
    return replace(
        task,
        merges=True,
        append=True,
        files=tuple(replace(file, state=earlier.state or file.state) for file in task.files),
        last_row=earlier.last_row,
        facts=earlier.facts,
        started_us=earlier.started_us,
        ended_us=earlier.ended_us,
        unparsed=earlier.unparsed,
    )


def _as_rewrite(task: IngestTask) -> IngestTask:
    """The task as one that replaces what is stored, unless it is a merge."""
    if task.merges:
        return task
    task = replace(task, append=False, facts=task.facts.of_first_lines(), unparsed=0)
    if task.not_ours and (not task.files or any(file.offset for file in task.files)):
        return task  # copied history before those offsets is not read again, but sets the session's start and folder
    return replace(task, facts=SessionFacts(), started_us=None, ended_us=None)


def _run(task: IngestTask, shop: Workshop, last_sighting: dict[int, int]) -> _SessionRun:
    run = _SessionRun(task, shop, last_sighting)
    try:
        run.run()
    except BaseException:
        run.discard()
        raise
    return run


def _result(run: _SessionRun, shop: Workshop) -> Ingested:
    sources = run.sources
    if run.task.merges and run.task.earlier is not None and not run.has_counted:
        run.facts = run.task.earlier.facts  # nothing new was read about the session
    run.settle_start()
    if not run.task.is_bare:
        run.facts.cwd = run.facts.cwd or _cwd_of_path(run, shop)
        run.facts.repo_root = _repository(run, shop)
        _settle_times(run)
    unparsed = sum(s.unparsed for s in sources) + run.unparsed_before
    part = run.finish_part()
    digest, fact_rows, keys, failure = digest_of(run, shop.places, unparsed)
    cursors = [c for s in sources if (c := s.cursor(_next_state(run, s, shop)))]
    return Ingested(
        task=run.task,
        part=part,
        cursors=cursors,
        facts=run.facts,
        started_us=run.started_us,
        ended_us=run.ended_us,
        last_row=run.last_row,
        digest=digest,
        failure=failure,
        problems=[p for s in sources for p in s.all_problems()],
        bad_lines=sum(s.unparsed for s in sources),
        unparsed=unparsed,
        lines=sum(s.lines for s in sources),
        objects=sum(s.objects for s in sources),
        bytes_read=sum(s.bytes_read for s in sources),
        redactions=sum(s.redactions for s in sources),
        withheld=sum(s.withheld for s in sources) + run.withheld,
        shareable=sorted(run.shareable),
        message_ids=run.message_ids,
        fact_rows=fact_rows,
        outlived=frozenset(file.rank for file in run.task.files) if run.task.merges else frozenset(run.outlived),
        keys=keys,
        evicted=len(run.evicted),
        light=len(run.light),
    )


def _next_state(run: _SessionRun, source: _Source, shop: Workshop) -> JsonObject | None:
    """The state for the next append. A bad document has none, so that it is counted again when it changes."""
    is_bad = source.task.role in ONE_RECORD and source.unparsed
    state = None if is_bad else run.parser_state(source.task.rank)
    if source.task.role != TEXT or state is None:
        return state
    return {"parser": state, "splitter": value_again(shop.redactor, source.split)}


def _settle_times(run: _SessionRun) -> None:
    """Set start and end: copied history does not count, and lines without times leave those the log itself states."""
    facts = run.facts
    for seen_us in (source.seen_us for source in run.sources if source.seen_us is not None):
        run.started_us = seen_us if run.started_us is None else min(run.started_us, seen_us)
        run.ended_us = max(run.ended_us or seen_us, seen_us)
    if run.started_us is None:
        run.started_us, run.ended_us = facts.said_start_us, facts.said_end_us
    elif facts.own_since_us is not None:
        run.started_us = max(run.started_us, facts.own_since_us)
        run.ended_us = max(run.ended_us or run.started_us, run.started_us)


def _cwd_of_path(run: _SessionRun, shop: Workshop) -> str | None:
    """The working folder from the path, if no record names it."""
    for source in run.sources:
        if cwd := run.adapter.cwd_from_head(source.task.path, b""):
            return shop.redactor.text(utf8_name(cwd)).text
    return None


def _repository(run: _SessionRun, shop: Workshop) -> str | None:
    """The root of the working folder's repository, as it was when the session was first read."""
    cwd, known = run.facts.cwd, run.task.known_root
    if known is not None and known[0] == cwd:
        return known[1]
    root = repository_root(cwd) if cwd else None
    return shop.redactor.text(utf8_name(root)).text if root else None


def digest_of(
    run: _SessionRun, places: PlaceRules, unparsed: int
) -> tuple[Digest | None, SessionFactRows, SessionKeys, str | None]:
    """Digest, facts and the keys that they count, or the reason why there are none."""
    if run.failure is not None:
        return None, {}, SessionKeys(), run.failure
    try:
        head = session_head(run.task.session_uid, run.task.flavor, run.facts, places, run.digests.first_prompt)
        head = replace(
            head,
            started_us=run.started_us,
            ended_us=run.ended_us,
            generation=run.task.generation,
            unparsed_lines=unparsed,
        )
        rows = run.fact_builder.finish(run.digests.counted_usage(), run.digests.signal_rows())
        head = replace(head, facts={fact: len(made) for fact, made in rows.items()})
        return run.digests.finish(head), rows, run.keys(), None
    except Exception as exc:  # noqa: BLE001 - as above
        return None, {}, SessionKeys(), f"{type(exc).__name__} while the digest was built"


def session_head(
    session_uid: str, flavor: str, facts: SessionFacts, places: PlaceRules, first_prompt: str | None
) -> SessionHead:
    """The session as its own lines describe it, with repository and domain by the user's map."""
    repo = repo_of(facts.cwd, places, facts.repo_root)
    return SessionHead(
        session_uid=session_uid,
        flavor=flavor,
        repo=repo,
        domain=domain_of(repo, places),
        title=facts.title,
        cwd=facts.cwd,
        git_branch=facts.git_branch,
        task_ref=task_of(places, facts.git_branch, facts.title, first_prompt),
        parent_uid=f"{flavor}:{facts.parent_native_id}" if facts.parent_native_id else None,
        started_us=None,
        ended_us=None,
        generation=0,
        unparsed_lines=0,
    )
