"""One session while it is read: its files as one stream in session order, and what is derived from it.

Belongs here: which records count, and the way of a record through parser, linker, digest, facts and part file. An
append continues after the stored rows; everything else is rewritten from the stored rows that still count and from the
files.
Not here: reading one file (`sweep.source`), or what is tried if a run does not fit (`sweep.read`).
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

from helix_assets.agents import ADAPTERS, pieces_of, vocabulary_of
from helix_assets.agents.jsonl import decode
from helix_assets.agents.roles import READ_WHOLE
from helix_assets.agents.spec import Identity, JsonObject, Parser, SessionFacts
from helix_assets.derive.digest_builder import DigestBuilder
from helix_assets.derive.fact_builder import FactBuilder
from helix_assets.derive.link import BareLinker, Linker
from helix_assets.model.errors import HelixError, StoreError
from helix_assets.model.event import AFTER_THE_END, DOCUMENT, UNPARSED, Record, Row, SessionEvent
from helix_assets.model.identity import is_worldwide
from helix_assets.redaction.again import value_again
from helix_assets.redaction.joined import Joiner
from helix_assets.store.catalog.session_keys import SessionKeys, message_key
from helix_assets.store.key import hasher, text_hash
from helix_assets.store.parquet import SessionWriter, keys_without_text, read_placed, read_rows, read_unplaced
from helix_assets.store.raw import PartFile, file_hash
from helix_assets.store.words.hashing import WordHasher
from helix_assets.sweep.source import NOT_UNDERSTOOD, UNPLACED_ROLES, Line, Rewritten, Source, identity, place, renewed
from helix_assets.sweep.task import IngestTask, Workshop
from helix_assets.sweep.warm import Derived


class OutOfOrder(Exception):
    """An appended record belongs before stored ones: the session must be rewritten."""


class Incomplete(Exception):
    """Some records that the session has counted can no longer be read: new ones are merged into the kept digest."""


class SessionRun:
    """The state of one task: takes the stream record by record and writes rows."""

    held_since_us: int | None
    started_us: int | None
    ended_us: int | None
    _copied_branch: str | None

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
        self._fold: SessionWriter | None = None
        self.facts = replace(task.facts, unknown_types=dict(task.facts.unknown_types))
        if not task.append and not task.is_bare:  # what is carried over may be redacted by older rules
            self.facts = SessionFacts(**value_again(shop.redactor, asdict(self.facts)))
        self._foreign = set(task.foreign_messages)
        words = vocabulary_of(task.flavor)
        self.linker = (BareLinker if task.is_bare else Linker)(words, self._foreign)
        self.digests = DigestBuilder(words)
        self.fact_builder = FactBuilder(words)
        self._earlier = task.earlier
        self._counted = task.earlier.keys.all if task.earlier else frozenset[int]()
        self._open_before: dict[int, Counter[str | None]] = {}
        self._light: set[int] = set()
        self._records: set[int] = set()
        self._bad_lines: set[int] = set()
        self._written: set[int] = set()
        self.evicted: set[int] = set()
        self.light: set[int] = set()
        if task.merges and task.earlier is not None:
            self.linker.start_at(task.earlier.first_seq)
        self._goes_on = self._continue()
        self.failure = task.no_digest_because
        self.changed: set[int] = set()
        self.sources = [Source(f, self.adapter, shop, self._hash64) for f in task.files]
        self._source_of = {source.task.rank: source for source in self.sources}
        self.unparsed_before = task.unparsed if task.append else 0
        self.withheld = 0
        self._stored_alone: set[int] = set()
        self.shareable: set[int] = set()
        self.message_ids: dict[int, str] = {}
        self._last_message: str | None = None
        self._begin_span()
        self.last_row = task.last_row

    def _continue(self) -> bool:
        """Continue what was derived earlier in this process. False if there is none, or this is not an append."""
        derived = self.task.derived
        if derived is None or not self.task.append or self.task.merges or self.task.is_bare or not derived.use():
            return False
        self.linker, self.digests, self.fact_builder = derived.linker, derived.digests, derived.fact_builder
        self._known, self._records, self._bad_lines = derived.keys, derived.records, derived.bad_lines
        return True

    def derived(self) -> Derived | None:
        """What the next append can continue. None if it must read the stored rows."""
        if self.failure is not None or self.task.is_bare or self.task.merges or self._earlier is not None:
            return None
        keys = self._known | self._written if self.task.append else self._written
        return Derived(self.linker, self.digests, self.fact_builder, keys, self._records, self._bad_lines)

    def run(self) -> None:
        stored = [Path(path) for path, _ in self.task.stored]
        if not self._goes_on:
            self._refuse_damaged(self.task.stored)
            if stored:
                self._take_in(stored)
        for source in self.sources:
            source.known = self._known if source.task.offset else set()
        streams = [source.read() for source in self.sources]
        if stored and not self.task.append:
            self._in_files = self._keys_in_files()
            streams += [self._kept(read_placed(stored, raw=True)), self._kept(read_unplaced(stored, raw=True))]
        for item in heapq.merge(*streams, key=place) if len(streams) > 1 else streams[0] if streams else ():
            self._take(item)
        if not self._in_files <= self._marks.keys():
            raise Rewritten
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
            raise Rewritten
        if not self.task.merges and not is_whole:
            raise Incomplete
        if not self.task.merges:
            self.unparsed_before += len(self._earlier.keys.bad_lines - self._marks.keys())

    def _check_what_events_rest_on(self) -> None:
        """Refuse an append if the session's documents changed, because stored rows depend on them."""
        for rank, file in self._files.items():
            is_continued = self.task.append and not self.task.merges
            if is_continued and file.role == "about" and self.parser_state(rank) != file.state:
                raise OutOfOrder

    def _refuse_damaged(self, stored: Iterable[tuple[str, str]]) -> None:
        """Refuse damaged files: nothing is derived from them, and nothing replaces them."""
        for path, proof in stored:
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

    def _keys_in_files(self) -> set[int]:
        """The records in the files now. If a later reading misses one, a file was rewritten."""
        keys = set[int]()
        for task in self.task.files:
            source = Source(task, self.adapter, self._shop, self._hash64)
            source.joiner = None
            source.known = self._known if task.offset else set()
            keys.update(record.key for record, _ in source.read())
        return keys

    def _kept(self, rows: Iterator[Row]) -> Iterator[Line]:
        """Stored records before the cursor, and those that no file holds any longer."""
        lines, pieces = self._kept_lines(rows), pieces_of(self.task.flavor)
        if pieces is None:
            yield from lines
            return
        joiner = Joiner(self._shop.redactor, pieces, renewed, heals=True)
        for item in lines:
            yield from joiner.take(item, item[0].file, item[0].native_type, item[1])
        yield from joiner.close()
        self.withheld += joiner.withheld

    def _kept_lines(self, rows: Iterator[Row]) -> Iterator[Line]:
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

    def _take(self, item: Line) -> None:
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
        if is_continued and not is_unplaced and (place(item) <= self.task.last_row or record.key in self._known):
            raise OutOfOrder
        if self.task.merges and record.file not in self._last_record:
            self._note_what_is_open(record.file)
        events = self._uncounted(record.file, self._events(record, obj)) if obj is not None else []
        self._last_record[record.file] = record
        if not is_given_up:
            self._note_messages(events)
        if is_unplaced:
            self._emit(self.linker.unplaced(record, events))
        elif record.key not in self.task.not_ours:
            self.last_row = place(item)
            self._emit(self.linker.rows(record, events))

    def _begin_span(self) -> None:
        """Start, end and the first record held, as the catalog knows them; own records date a resumed session again."""
        task = self.task
        self.held_since_us = task.facts.held_since_us or task.started_us
        self.ended_us = task.ended_us
        self.started_us = None if task.not_ours and not task.append else task.started_us
        self._copied_branch = None

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
            self._writer = self._new_part("")
        self._writer.add(rows)
        self._written.add(record)

    def _new_part(self, suffix: str) -> SessionWriter:
        uid, key = self.task.session_uid, self._shop.key
        name = f"{text_hash(key, uid.encode('utf-8', 'replace'))[:20]}.{os.getpid()}{suffix}"
        words = WordHasher(key) if self._shop.finds_words and not self.task.is_bare else None
        return SessionWriter(Path(self._shop.staging) / name, uid, key, hasher=words)

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

    def fold(self) -> PartFile | None:
        """Make one file of the last stored parts, if the task says so."""
        if self.task.folds is None or not self.task.append:
            return None
        stored = self.task.stored[self.task.folds :]
        self._refuse_damaged(stored)
        paths = [Path(path) for path, _ in stored]
        self._fold = self._new_part(".folded")
        for row in chain(read_unplaced(paths, raw=True), read_placed(paths, raw=True)):
            self._fold.add([row])
        return self._fold.close()

    def discard(self) -> None:
        for writer in (self._writer, self._fold):
            if writer:
                writer.discard()
