"""The contract that every agent keeps, as checks that run over an adapter and sample homes of its agent.

For our own agents and for packages that add one:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_the_contract_is_kept(check):
        check(ToyAdapter(), [Path("fixtures/plain"), Path("fixtures/resumed")])

A sample home is a folder as the agent makes it, and the root for `discover`. All samples together should have a file of
each kind, and a record of each type. Nothing here needs pytest. Not here: what a record means, which only an agent's
own tests can know.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from helix_assets.agents.cutting import Cut, Cutting
from helix_assets.agents.database import asking, copy_database
from helix_assets.agents.jsonl import block_reader, decode, open_source
from helix_assets.agents.kinds import ReadsDatabases, ReadsTexts, SplitsDocuments
from helix_assets.agents.roles import DATABASE, ONE_RECORD, SHARED, TEXT, UNITS, UNREADABLE
from helix_assets.agents.spec import Adapter, FoundFile, Identity, JsonObject, Parser, SessionFacts
from helix_assets.model.agent import AgentSpec
from helix_assets.model.errors import Problem
from helix_assets.model.event import SUMMARY_CHARS, EventKind, Record, SessionEvent, Usage

ROUNDS = 20
_SEVERAL = 5
_LARGEST = 1 << 63
_TEXTS = ("role", "tool", "summary", "status", "call_id", "message_id", "model", "agent_id", "file_path", "text")
_NUMBERS = ("exit_code", "duration_ms", "lines_added", "lines_removed", "size", "ts_us")


_DEEP = "@deep@"
_NESTED = '[{"text":' * 450 + '"x"' + "}]" * 450
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 1 << 40, 1 << 62, -(1 << 63), 1.5, 1e308, -0.0),
    *("", " ", "x", "\0", "\ud800", "9" * 30, "{", '{"output":5,"metadata":{"exit_code":"x"}}', "*** Begin Patch\n+x"),
    _DEEP,
    *([], [[]], [None], ["x", 1, None, {}], {}, {"": None}, {"type": []}, {"text": {"text": 1}}),
)
"""Values to put in place of the expected ones; the mark stands for deeply nested arrays and objects."""


@dataclass(frozen=True)
class Sample:
    """One file of a session as a parser gets it: its objects, each with its record."""

    path: str
    role: str
    lines: tuple[tuple[JsonObject, Record], ...]


def hash64(data: bytes) -> int:
    """A hash like a store's, without a key."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def record_of(adapter: Adapter, obj: JsonObject, *, order_us: int = 0, file: int = 0, line: int = 1) -> Record:
    """The record of a line; `order_us` is that of the previous line."""
    native_id, parent_id, ts_us, native_type = adapter.identify(obj)
    key = hash64(repr(obj).encode("utf-8", "replace"))
    return Record(max(order_us, ts_us or 0), file, line, 0, key, native_id, parent_id, ts_us, native_type, b"{}")


def sessions(adapter: Adapter, home: Path) -> list[list[Sample]]:
    """The sessions of a sample home, each with its files as a sweep passes them to parsers."""
    found = defaultdict[str, list[tuple[FoundFile, _Objects]]](list)
    for file in adapter.discover(str(home), []):
        for session, objects in _objects_of(adapter, file).items():
            found[session].append((file, objects))
    return [_session(adapter, files) for files in found.values()]


def _session(adapter: Adapter, files: Sequence[tuple[FoundFile, _Objects]]) -> list[Sample]:
    has_main = any(file.role == "main" for file, _ in files)
    samples = []
    for rank, (file, objects) in enumerate(files):
        lines, order_us = [], 0
        for number, obj in objects:
            record = record_of(adapter, obj, order_us=order_us, file=rank, line=number)
            order_us = record.order_us
            lines.append((obj, record))
        role = "aside" if file.role == "fallback" and has_main else file.role
        samples.append(Sample(file.path, role, tuple(lines)))
    return samples


_Objects = list[tuple[int, JsonObject]]
"""The objects of a file that are records, each with its line or number."""


def _objects_of(adapter: Adapter, file: FoundFile) -> dict[str, _Objects]:
    """The records of a file by session, read as its kind is: see `agents.kinds`."""
    if file.role == DATABASE:
        return _rows_of(adapter, file.path)
    data = _bytes_of(file.path)
    if file.role == TEXT:
        blocks = defaultdict[str, _Objects](list)
        for cut in _cut(adapter, file.path, data):
            blocks[cut.block.session].append((cut.line, cut.block.unit))
        return dict(blocks)
    session = file.native_id or adapter.native_id_from_head(file.path, data)
    if file.role == UNREADABLE:
        return {session: []}
    lines = [decode(line) for line in ([data] if file.role in (UNITS, *ONE_RECORD) else data.split(b"\n"))]
    if file.role == UNITS:
        lines = [unit for obj in lines for unit in cast(SplitsDocuments, adapter).units(cast(JsonObject, obj))]
    return {session: [(number, obj) for number, obj in enumerate(lines, 1) if isinstance(obj, dict)]}


def _rows_of(adapter: Adapter, path: str) -> dict[str, _Objects]:
    """The sessions of a database, by the queries that the adapter declares and no others."""
    reads = cast(ReadsDatabases, adapter)
    with TemporaryDirectory() as folder:
        copy_database(path, Path(folder) / "copy.db", os.path.getsize(path))
        with asking(Path(folder) / "copy.db", reads.queries) as ask:
            held = list(reads.sessions(ask))
            _must(len({one.native_id for one in held}) == len(held), f"{path}: a session is listed twice")
            return {one.native_id: list(enumerate(reads.rows(ask, one.native_id), 1)) for one in held}


def _cut(adapter: Adapter, path: str, data: bytes) -> list[Cut]:
    """The blocks of a text; a splitter that continues from any state on yields the same ones."""
    reads = cast(ReadsTexts, adapter)
    cutting = Cutting(BytesIO(data).read, reads.splitter(path, None), is_over=True)
    cuts, ends = list[Cut](), list[tuple[int, int, JsonObject]]()
    for cut in cutting:
        cuts.append(cut)
        ends.append((cutting.offset, cutting.line, json.loads(json.dumps(cutting.state))))
    for place, (offset, line, state) in enumerate(ends[:-1], 1):
        later = Cutting(BytesIO(data[offset:]).read, reads.splitter(path, state), offset, line, is_over=True)
        _must(list(later) == cuts[place:], f"{path}: other blocks when continued in line {line}")
        first = data[offset:].splitlines(keepends=True)[0].decode("utf-8", "replace")
        splitter = reads.splitter(path, state)
        session = splitter.block(first, line).session if splitter.begins(first) else ""
        _must(session == cuts[place].block.session, f"{path}: line {line} alone does not name its session")
    return cuts


def _bytes_of(path: str) -> bytes:
    """The bytes of a file, unpacked if it is packed."""
    fd = open_source(os.path.realpath(path))
    try:
        read = block_reader(fd, path)
        return b"".join(iter(lambda: read(1 << 20), b""))
    finally:
        os.close(fd)


def _files(adapter: Adapter, homes: Iterable[Path]) -> Iterator[Sample]:
    return (sample for home in homes for session in sessions(adapter, home) for sample in session)


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


# -- the checks --------------------------------------------------------------------------------------------------------


def every_kind_of_file_is_found_and_declared(adapter: Adapter, homes: Sequence[Path]) -> None:
    """Discovery finds the same files twice, copes with odd folders, and yields what the spec declares."""
    spec: AgentSpec = getattr(adapter, "spec", AgentSpec(flavor=adapter.flavor))
    roles = set()
    _must(spec.flavor == adapter.flavor and type(adapter.version) is int, f"{adapter.flavor}: spec of {spec.flavor}")
    for home in homes:
        problems: list[Problem] = []
        files = list(adapter.discover(str(home), problems))
        _must(bool(files) and not problems, f"{home}: {len(files)} files, {problems}")
        _must(list(adapter.discover(str(home), [])) == files, f"{home}: found differently the second time")
        for file in files:
            roles.add(file.role)
            kind = spec.role_of(os.path.basename(file.path))
            _must(kind == file.role or not spec.file_kinds, f"{file.path}: {file.role}, declared as {kind}")
            _must(list(adapter.discover(file.path, [])) == [], f"{file.path}: is a file, but has files below it")
        _must(list(adapter.discover(f"{home}/not there", [])) == [], "a missing folder has files")
    missing = {role for _, role in spec.file_kinds} - roles
    _must(not missing, f"no sample has a file of the kind {', '.join(sorted(missing))}")


def a_line_names_itself_the_same_each_time(adapter: Adapter, homes: Sequence[Path]) -> None:
    """`identify` returns valid ids and times, and does not change the object."""
    for sample in _files(adapter, homes):
        named = [record.native_id for _, record in sample.lines if record.native_id]
        _must(len(named) < _SEVERAL or len({*named}) > 1, f"{sample.path}: one id for all of {len(named)} records")
        for obj, record in sample.lines:
            before = copy.deepcopy(obj)
            first, again = adapter.identify(obj), adapter.identify(json.loads(json.dumps(obj)))
            _must(first == again and obj == before, f"{sample.path}:{record.line}: {first}, then {again}")
            _must_be_sound_identity(first, f"{sample.path}:{record.line}")


def a_head_names_its_session_however_short(adapter: Adapter, homes: Sequence[Path]) -> None:
    """After the first line, more lines do not change the name; any bytes yield a name."""
    for home in homes:
        for file in adapter.discover(str(home), []):
            data = _bytes_of(file.path)
            name = adapter.native_id_from_head(file.path, data)
            ends = [place + 1 for place in range(len(data)) if data[place : place + 1] == b"\n"][:ROUNDS]
            if file.role in SHARED:
                continue  # its sessions are known once it is read
            for end in ends if file.native_id is None and file.role not in (UNITS, *ONE_RECORD) else ():
                early = adapter.native_id_from_head(file.path, data[:end])
                _must(early == name, f"{file.path}: {early!r} by its first {end} bytes, {name!r} by all")
            for head in (b"", b"\n", b"{", b"[]\n1\n", b"\0\xff\xfe", b"[" * 9000, b'{"a":' * 9000, *_cuts(data)):
                _must(bool(adapter.native_id_from_head(file.path, head)), f"{file.path}: no name by {head[:40]!r}")
                cwd = adapter.cwd_from_head(file.path, head)
                _must(cwd is None or isinstance(cwd, str), f"{file.path}: works in {cwd!r}")


def known_lines_give_sound_events(adapter: Adapter, homes: Sequence[Path]) -> None:
    """Each session has an event, and the values of all events fit into the store's columns."""
    for home in homes:
        for session in sessions(adapter, home):
            events = [event for sample in session for event in _read(adapter, sample)[0]]
            kinds = {event.kind for event in events}
            if all(sample.role == UNREADABLE for sample in session):
                continue
            _must(not kinds.isdisjoint(EventKind), f"{session[0].path}: no event at all")


def reading_goes_on_from_any_state(adapter: Adapter, homes: Sequence[Path]) -> None:
    """A file read in two pieces, or line by line, yields the same events and facts as at once.

    The state goes through JSON in between. If it is None, the same parser continues.
    """
    for sample in _files(adapter, homes):
        if sample.role in ONE_RECORD:
            continue
        whole = _read(adapter, sample)
        for cut in range(1, len(sample.lines)):
            parts = _read(adapter, sample, {cut})
            _must(parts == whole, f"{sample.path}: {_difference(parts, whole)} when continued after line {cut}")
        parts = _read(adapter, sample, range(1, len(sample.lines)))
        _must(parts == whole, f"{sample.path}: {_difference(parts, whole)} when read line by line")


def a_parser_goes_on_from_what_was_spent(adapter: Adapter, homes: Sequence[Path]) -> None:
    """`spent` and `model` alone are a valid state, for when all earlier records are gone."""
    for sample in _files(adapter, homes):
        facts = SessionFacts()
        parser = adapter.parser(sample.role, facts, hash64, {"spent": [3, 5, 7, 0, 1], "model": "m-1"})
        _feed(adapter, parser, sample.lines, sample.path)


def results_follow_their_calls(adapter: Adapter, homes: Sequence[Path]) -> None:
    """In a session's order no result comes before its call, and no event after its record."""
    for home in homes:
        for session in sessions(adapter, home):
            facts = SessionFacts()
            parsers = [adapter.parser(sample.role, facts, hash64) for sample in session]
            lines = [(record, obj, p) for s, p in zip(session, parsers, strict=True) for obj, record in s.lines]
            lines.sort(key=lambda line: line[0][:3])
            events = [event for record, obj, parser in lines for event in _timely(parser.feed(obj, record), record)]
            events += [event for parser in parsers for event in parser.finish()]
            results = set[str | None]()
            for event in events:
                is_late = event.kind is EventKind.TOOL_CALL and event.call_id in results - {None}
                _must(not is_late, f"{session[0].path}: the result of {event.call_id} comes before its call")
                if event.kind is EventKind.TOOL_RESULT:
                    results.add(event.call_id)


def odd_input_is_survived(adapter: Adapter, homes: Sequence[Path]) -> None:
    """Odd values anywhere in a known record cause no exception and yield valid events and a state that fits JSON."""
    seen = set[str]()
    for sample in _files(adapter, homes):
        for obj, record in sample.lines:
            for path, kind in _places(obj, kind=f"{sample.role} {record.native_type} "):
                for odd in _variants(obj, path) if kind not in seen else ():
                    _survive(adapter, sample.role, [odd])
                seen.add(kind)
        chance = random.Random(sample.path.rpartition("/")[2])
        for _ in range(ROUNDS):
            _survive(adapter, sample.role, [_with_one_odd(obj, chance) for obj, _ in sample.lines])
    for role in {sample.role for sample in _files(adapter, homes)}:
        _survive(adapter, role, [{}, *({"type": value} for value in ODD), {}])


CHECKS: tuple[Callable[[Adapter, Sequence[Path]], None], ...] = (
    every_kind_of_file_is_found_and_declared,
    a_line_names_itself_the_same_each_time,
    a_head_names_its_session_however_short,
    known_lines_give_sound_events,
    reading_goes_on_from_any_state,
    a_parser_goes_on_from_what_was_spent,
    results_follow_their_calls,
    odd_input_is_survived,
)


# -- reading -----------------------------------------------------------------------------------------------------------


def _read(adapter: Adapter, sample: Sample, cuts: Iterable[int] = ()) -> tuple[list[SessionEvent], dict[str, Any]]:
    """The events and facts of a file; at each cut another parser continues from the state, if there is one."""
    facts = SessionFacts()
    parser = adapter.parser(sample.role, facts, hash64)
    events: list[SessionEvent] = []
    for place, line in enumerate(sample.lines):
        if place in cuts and (state := parser.state()) is not None:
            facts = SessionFacts(**copy.deepcopy(asdict(facts)))
            parser = adapter.parser(sample.role, facts, hash64, json.loads(json.dumps(state)))
        events += _fed(parser, line, sample.path)
    return events + _sound(parser.finish(), sample.path), asdict(facts)


def _feed(adapter: Adapter, parser: Parser, lines: Iterable[tuple[JsonObject, Record]], where: str) -> None:
    for line in lines:
        _fed(parser, line, where)
    _sound(parser.finish(), where)


def _fed(parser: Parser, line: tuple[JsonObject, Record], path: str) -> list[SessionEvent]:
    return _sound(parser.feed(*line), f"{path}:{line[1].line}")


def _timely(events: list[SessionEvent], record: Record) -> list[SessionEvent]:
    for event in events:
        is_late = event.ts_us is not None and record.ts_us is not None and event.ts_us > record.order_us
        _must(not is_late, f"line {record.line}: an event of {event.ts_us} in a record of {record.order_us}")
    return events


def _survive(adapter: Adapter, role: str, objects: Iterable[JsonObject]) -> None:
    """Feed objects as read from a log, each to a parser that continues from the last one's state."""
    facts = SessionFacts()
    parser = adapter.parser(role, facts, hash64)
    for number, obj in enumerate(objects, 1):
        clean = decode(json.dumps(obj).replace(json.dumps(_DEEP), _NESTED).encode())
        if not isinstance(clean, dict):
            continue
        try:
            _must_be_sound_identity(adapter.identify(clean), "odd input")
            _fed(parser, (clean, record_of(adapter, clean, line=number)), "odd input")
            state = parser.state()
            if state is not None:
                parser = adapter.parser(role, facts, hash64, json.loads(json.dumps(state)))
        except Exception as exc:
            raise AssertionError(f"{type(exc).__name__} ({exc}) by a {role} line: {json.dumps(obj)[:600]}") from exc
    _sound(parser.finish(), "odd input")


def _difference(parts: tuple[list[SessionEvent], Any], whole: tuple[list[SessionEvent], Any]) -> str:
    if parts[0] == whole[0]:
        return "other facts"
    place = next((n for n, pair in enumerate(zip(parts[0], whole[0], strict=False)) if pair[0] != pair[1]), None)
    return f"{len(parts[0])} events, not {len(whole[0])}" if place is None else f"another event {place}"


# -- what is sound -----------------------------------------------------------------------------------------------------


def _must_be_sound_identity(identity: Identity, where: str) -> None:
    values: tuple[Any, ...] = identity
    native_id, parent_id, ts_us, native_type = values
    ids = native_id != "" and all(value is None or isinstance(value, str) for value in (native_id, parent_id))
    _must(ids and isinstance(native_type, str), f"{where}: {identity}")
    _must(ts_us is None or (type(ts_us) is int and abs(ts_us) < _LARGEST), f"{where}: {identity}")


def _sound(events: list[SessionEvent], where: str) -> list[SessionEvent]:
    for event in events:
        _must(event.kind is None or isinstance(event.kind, EventKind), f"{where}: {event}")
        texts = [getattr(event, name) for name in _TEXTS]
        _must(all(text is None or isinstance(text, str) for text in texts), f"{where}: no text in {event}")
        numbers = [*(getattr(event, name) for name in _NUMBERS), *(event.usage or Usage())]
        whole = all(one is None or (type(one) is int and abs(one) < _LARGEST) for one in numbers)
        _must(whole, f"{where}: no whole number in {event}")
        _must(event.cost_usd is None or 0 <= event.cost_usd < math.inf, f"{where}: no cost in {event}")
        _must(len(event.summary or "") <= SUMMARY_CHARS, f"{where}: a summary of {len(event.summary or '')}")
        _must(event.detail is None or isinstance(json.loads(event.detail), dict), f"{where}: detail {event.detail}")
    return events


# -- odd input ---------------------------------------------------------------------------------------------------------


def _cuts(data: bytes) -> list[bytes]:
    """The beginning of a file, cut within a line, and with a wrong byte."""
    middle = len(data) // 2
    return [data[:7], data[:middle], data[:middle] + b"\xff" + data[middle:]]


def _places(
    value: Any, path: tuple[str | int, ...] = (), kind: str = ""
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The path to every value in an object, and its kind of place: the names and types around it, without numbers."""
    if isinstance(value, dict):
        kind += f"<{value.get('type')} {value.get('role')}>"
        for name, item in value.items():
            yield (*path, name), f"{kind}{name}"
            yield from _places(item, (*path, name), f"{kind}{name}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield (*path, number), f"{kind}[]"
            yield from _places(item, (*path, number), f"{kind}[]")


def _variants(obj: JsonObject, path: tuple[str | int, ...]) -> Iterator[JsonObject]:
    """The object with each odd value in one place, and without a value there."""
    for odd in ODD:
        yield _put(obj, path, odd)
    yield _put(obj, path)


_ABSENT = object()


def _put(obj: JsonObject, path: Sequence[str | int], value: Any = _ABSENT) -> JsonObject:
    """A copy of the object with another value in one place, or without it; the rest is shared."""
    name, rest = path[0], path[1:]
    changed: Any = obj.copy()
    if rest:
        changed[name] = _put(changed[name], rest, value)
    elif value is _ABSENT:
        del changed[name]
    else:
        changed[name] = value
    return changed  # type: ignore[no-any-return]  # an object is copied as one


def _with_one_odd(obj: JsonObject, chance: random.Random) -> JsonObject:
    paths = [path for path, _ in _places(obj)]
    return _put(obj, chance.choice(paths), chance.choice(ODD)) if paths else obj
