"""Proves the facts: every file in the catalog exists undamaged, and every digest has the facts it counts.

Belongs here: checks by partition. What changed during its check is checked again. Part of `prove.verify`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Row, select

from helix_assets.model.errors import StoreError
from helix_assets.model.event import FACTS_SINCE
from helix_assets.store.catalog.old_tables import digests, sessions
from helix_assets.store.catalog.session_keys import gathered, recorded
from helix_assets.store.fact_files import FactFile
from helix_assets.store.key import text_hash
from helix_assets.store.store import Store

_OF_SESSION = ("session_uid", "generation")
_TOKENS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_ONCE = frozenset({"token_usage", "messages", "tool_calls"})
_Counts = Mapping[tuple[str, int], Counter[str]]


class Wrong(NamedTuple):
    """What must never be: the name of the check, what was found, and where."""

    check: str
    what: str
    session_uid: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class _Partition:
    """What the catalog says of one partition at one moment; `merged` are sessions that an earlier version merged."""

    files: Sequence[FactFile]
    digests: Sequence[Row[Any]]
    merged: frozenset[str]

    @property
    def mark(self) -> tuple[Any, ...]:
        """Differs whenever facts or digests of the partition were written."""
        return (*(file.name for file in self.files), *((row.session_uid, row.generation) for row in self.digests))


def wrong_facts(store: Store) -> Iterator[Wrong]:
    """Everything that is wrong with the facts."""
    partitions = {(file.flavor, file.day) for file in store.catalog.fact_files()}
    with store.catalog.reading() as connection:
        rows = connection.execute(select(digests.c.flavor, digests.c.day).distinct())
        partitions |= {(flavor, day) for flavor, day in rows}
    for partition in sorted(partitions):
        yield from _settled(store, partition)


def _settled(store: Store, key: tuple[str, str]) -> list[Wrong]:
    """What is wrong with a partition that nobody wrote to during the check."""
    held = _load(store, key)
    while found := list(_partition(store, held)):
        now = _load(store, key)
        if now.mark == held.mark:
            break
        held = now
    return found


def _load(store: Store, key: tuple[str, str]) -> _Partition:
    flavor, day = key
    with store.catalog.reading() as connection:
        query = select(digests).where(digests.c.flavor == flavor, digests.c.day == day)
        rows = connection.execute(query.order_by(digests.c.session_uid)).all()
        is_merged = (sessions.c.flavor == flavor) & (sessions.c.day == day) & sessions.c.is_partial
        partial = {row.id: row.session_uid for row in connection.execute(select(sessions).where(is_merged))}
        sure = recorded(connection, partial) - gathered(connection)
        merged = frozenset(uid for number, uid in partial.items() if number not in sure)
    return _Partition(store.catalog.fact_files({key}), rows, merged)


def _partition(store: Store, held: _Partition) -> Iterator[Wrong]:
    counted: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    spent: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    is_whole = True
    for file in held.files:
        try:
            table = store.facts.read(file)
        except StoreError as exc:
            is_whole = False
            yield Wrong("fact_file", str(exc), path=file.name)
            yield from _affected(store, held, file)
            continue
        place = f"{file.fact}/flavor={file.flavor}/day={file.day}."
        if table.num_rows != file.row_count or not file.name.startswith(place):
            yield Wrong("fact_file", "is not what its row in the catalog says", path=file.name)
        for uid, generation in zip(*(table.column(n).to_pylist() for n in ("session_uid", "generation")), strict=True):
            counted[uid, generation][file.fact] += 1
        if file.fact in _ONCE:
            yield from _twice(store, file, held)
        if file.fact == "token_usage":
            billed = Counter[tuple[Any, ...]]()
            for row in table.select([*_OF_SESSION, "record_key", "model", *_TOKENS]).to_pylist():
                spent[row["session_uid"], row["generation"]].update({name: row[name] or 0 for name in _TOKENS})
                billed[row["session_uid"], row["generation"], row["record_key"], row["model"]] += 1
            for uid in sorted({uid for (uid, *_), times in billed.items() if times > 1}):
                yield Wrong("counted_once", "the usage of one record counts more than once", uid, file.name)
    if is_whole:
        yield from _sessions(store, held, counted)
        yield from _sums(store, held, counted, spent)


def _twice(store: Store, file: FactFile, held: _Partition) -> Iterator[Wrong]:
    """Sessions that an earlier version merged and in which something counts more than once.

    That version took a log that was cut for a new one. In other sessions equal rows are fine: a log may repeat itself.
    """
    for session in store.facts.rows(file) if held.merged else ():
        if session.session_uid in held.merged and len(set(session.rows)) < len(session.rows):
            what = "facts of it count more than once: sweep while its log is whole"
            yield Wrong("counted_once", what, session.session_uid)


def _sums(store: Store, held: _Partition, counted: _Counts, spent: _Counts) -> Iterator[Wrong]:
    """What a digest says was spent and called is what its facts add up to."""
    for row, said in _whole_digests(store, held):
        facts = spent.get((row.session_uid, row.generation), Counter[str]())
        tokens = {name: said["tokens"][name] or 0 for name in _TOKENS}
        if tokens != {name: facts[name] for name in _TOKENS}:
            yield Wrong("tokens_add_up", f"its tokens are not the {sum(facts.values())} of its facts", row.session_uid)
        held_facts, kinds = counted.get((row.session_uid, row.generation), Counter[str]()), said["kind_counts"]
        calls = held_facts["tool_calls"]
        if not said["tool_calls"] == kinds.get("tool_call", 0) == calls:
            what = f"it counts {said['tool_calls']} calls where its facts have {calls}"
            yield Wrong("calls_add_up", what, row.session_uid)
        said_by_all = kinds.get("user_msg", 0) + kinds.get("assistant_msg", 0)
        if said_by_all != held_facts["messages"]:
            what = f"it counts {said_by_all} messages where its facts have {held_facts['messages']}"
            yield Wrong("messages_add_up", what, row.session_uid)
        if said["event_count"] != sum(kinds.values()):
            what = f"it counts {said['event_count']} events, of all kinds {sum(kinds.values())}"
            yield Wrong("events_add_up", what, row.session_uid)
        cost = tuple(said["cost"][f"{name}_tokens"] for name in ("input", "output", "cache"))
        of_tokens = said["tokens"]
        if cost != (of_tokens["input"], of_tokens["output"], of_tokens["cache_read"] + of_tokens["cache_write"]):
            yield Wrong("tokens_add_up", "its cost counts other tokens than it has", row.session_uid)


def _affected(store: Store, held: _Partition, file: FactFile) -> Iterator[Wrong]:
    """The sessions that have rows in an unreadable file, according to their digests."""
    for row, said in _counts(store, held):
        if rows := said.get(file.fact):
            yield Wrong(
                "facts_of_digest", f"its rows of {file.fact} cannot be read ({rows})", row.session_uid, file.name
            )


def _counts(store: Store, held: _Partition) -> Iterator[tuple[Row[Any], dict[str, int]]]:
    """Each undamaged digest with the number of rows of each fact that it counts. `verify` names the damaged ones."""
    for row, digest in _whole_digests(store, held):
        yield row, digest["coverage"].get("facts", {})


def _whole_digests(store: Store, held: _Partition) -> Iterator[tuple[Row[Any], dict[str, Any]]]:
    for row in held.digests:
        if row.schema_version >= FACTS_SINCE and text_hash(store.key, row.digest.encode()) == row.hash:
            yield row, orjson.loads(row.digest)


def _sessions(store: Store, held: _Partition, counted: Mapping[tuple[str, int], Counter[str]]) -> Iterator[Wrong]:
    """Each digest's facts, at its generation and no other."""
    generations = {row.session_uid: row.generation for row in held.digests}
    for row, said in _counts(store, held):
        if said != counted.get((row.session_uid, row.generation), {}):
            what = f"its facts are not the {sum(said.values())} rows that its digest counts"
            yield Wrong("facts_of_digest", what, row.session_uid)
    for uid, generation in sorted(counted):
        if generations.get(uid, generation) != generation:
            yield Wrong("facts_of_digest", f"has facts of generation {generation} and no digest of it", uid)
