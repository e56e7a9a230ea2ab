"""Proves the facts: every file in the catalog exists undamaged, and each digest has the facts that it counts.

What a session spent is the same in its digest and in its facts, which are in the file of its agent and day. So the sums
by day, repository, model and agent are the same, too. Belongs here: proofs by partition. What changed during its proof
is proven again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helix_assets.derive.prices import PICO, picodollars
from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.errors import StoreError
from helix_assets.model.event import FACTS_SINCE
from helix_assets.prove.answer import Violation
from helix_assets.store.catalog import digests, live_files, sessions
from helix_assets.store.catalog.connection import Row
from helix_assets.store.catalog.session_keys import gathered, recorded
from helix_assets.store.fact_files import FactFile, only, rows_of
from helix_assets.store.proof import is_proven
from helix_assets.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

_TOKENS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_KINDS = ("input", "output", "cache_read", "cache_write")
_ONCE = frozenset({"token_usage", "messages", "tool_calls"})
Partition = tuple[str, str]


@dataclass(frozen=True)
class _Partition:
    """What the catalog says of one partition at one moment; `merged` are sessions that an earlier version merged."""

    key: Partition
    files: Sequence[FactFile]
    digests: Sequence[Row]
    homes: Mapping[str, Partition]
    merged: frozenset[str]

    @property
    def mark(self) -> tuple[Any, ...]:
        """Differs whenever facts or digests of the partition were written."""
        return (*(file.name for file in self.files), *((row.session_uid, row.generation) for row in self.digests))


@dataclass
class Counted:
    """What was compared: sessions, and the tokens in their digests and in their facts."""

    sessions: int = 0
    tokens_over_sessions: int = 0
    tokens_over_facts: int = 0
    models: set[str | None] = field(default_factory=set)

    def add(self, other: Counted) -> None:
        self.sessions += other.sessions
        self.tokens_over_sessions += other.tokens_over_sessions
        self.tokens_over_facts += other.tokens_over_facts
        self.models |= other.models


@dataclass
class _Facts:
    """The facts of one session: how many of each, and what they add up to.

    `pico` is None if a price is unknown. `generation` is that of the newest; older ones stayed as they were.
    """

    generation: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    pico: int | None = 0


_Held = Mapping[str, _Facts]


def wrong_facts(store: Store, counted: Counted) -> Iterator[Violation]:
    """Everything that is wrong with the facts. Adds up in `counted` what was compared."""
    with store.catalog.reading() as connection:
        partitions = {(file.flavor, file.day) for file in live_files.fact_files(connection)}
        partitions |= digests.partitions(connection)
    for partition in sorted(partitions):
        yield from _settled(store, partition, counted)


def _settled(store: Store, key: Partition, counted: Counted) -> list[Violation]:
    """What is wrong with a partition that nobody wrote to during its proof."""
    held = _load(store, key)
    while found := list(_wrong(store, held, here := Counted())):
        now = _load(store, key)
        if now.mark == held.mark:
            break
        held = now
    counted.add(here)
    return found


def _load(store: Store, key: Partition) -> _Partition:
    with store.catalog.reading() as connection:
        rows = digests.in_partition(connection, *key)
        homes = sessions.homes(connection, [row.session_uid for row in rows])
        partial = sessions.merged_in(connection, *key)
        sure = recorded(connection, partial) - gathered(connection)
        merged = frozenset(uid for number, uid in partial.items() if number not in sure)
        return _Partition(key, live_files.fact_files(connection, {key}), rows, homes, merged)


def _wrong(store: Store, held: _Partition, counted: Counted) -> Iterator[Violation]:
    import pyarrow as pa

    facts: dict[str, _Facts] = defaultdict(_Facts)
    tables: dict[str, list[pa.Table]] = defaultdict(list)
    is_whole = True
    for file in held.files:
        try:
            table = store.facts.read(file)
        except StoreError as exc:
            is_whole = False
            yield Violation("fact_file", str(exc), path=file.name)
            yield from _affected(store, held, file)
            continue
        place = f"{file.fact}/flavor={file.flavor}/day={file.day}."
        if table.num_rows != file.row_count or not file.name.startswith(place):
            yield Violation("fact_file", "is not what its row in the catalog says", path=file.name)
        tables[file.fact].append(table)
    for fact, some in tables.items():
        table = pa.concat_tables(some)
        for row in table.group_by("session_uid").aggregate([([], "count_all"), ("generation", "max")]).to_pylist():
            one = facts[row["session_uid"]]
            one.rows[fact] += row["count_all"]
            one.generation = max(one.generation, row["generation_max"])
        if fact in _ONCE:
            yield from _twice(table, held)
        if fact == "token_usage":
            yield from _billed_twice(table)
            counted.models.update(table.column("model").unique().to_pylist())
            _add_spent(table, facts)
    counted.tokens_over_facts += sum(one.tokens.total() for one in facts.values())
    for row in held.digests:
        counted.sessions += 1
        if not is_proven(row, store.key):
            yield damaged_digest(row.session_uid)
            continue
        digest = parsed_digest(row.digest)
        counted.tokens_over_sessions += sum(_by_kind(digest["tokens"]))
        yield from digest_adds_up(row.session_uid, digest, held)
    if is_whole:
        yield from _digests_have_their_facts(store, held, facts)
        for row, digest in _with_facts(store, held):
            yield from facts_add_up(row.session_uid, digest, facts.get(row.session_uid, _Facts()))


def _affected(store: Store, held: _Partition, file: FactFile) -> Iterator[Violation]:
    """The sessions that have rows in an unreadable file, according to their digests."""
    for row, digest in _with_facts(store, held):
        if rows := digest["coverage"].get("facts", {}).get(file.fact):
            what = f"its rows of {file.fact} cannot be read ({rows})"
            yield Violation("facts_of_digest", what, row.session_uid, file.name)


def _with_facts(store: Store, held: _Partition) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Each undamaged digest that has facts."""
    for row in held.digests:
        if row.schema_version >= FACTS_SINCE and is_proven(row, store.key):
            yield row, parsed_digest(row.digest)


def _twice(table: pa.Table, held: _Partition) -> Iterator[Violation]:
    """Sessions that an earlier version merged and in which something counts more than once.

    That version took a log that was cut for a new one. In other sessions equal rows are fine: a log may repeat itself.
    """
    for uid in sorted(held.merged):
        rows = [row for session in rows_of(only(table, uid)) for row in session.rows]
        if len(set(rows)) < len(rows):
            what = "facts of it count more than once: sweep while its log is whole"
            yield Violation("counted_once", what, uid)


def _billed_twice(table: pa.Table) -> Iterator[Violation]:
    """The usage of a record counts once for each model."""
    times = table.group_by(["session_uid", "record_key", "model"]).aggregate([([], "count_all")]).to_pylist()
    for uid in sorted({row["session_uid"] for row in times if row["count_all"] > 1}):
        yield Violation("counted_once", "the usage of one record counts more than once", uid)


def _add_spent(table: pa.Table, facts: dict[str, _Facts]) -> None:
    """Add up tokens and costs of each session. As decimals, because the sum of large numbers of a log may be larger."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = {name: table.column(name) for name in _TOKENS}
    numbers["pico"] = pc.round(pc.multiply(table.column("cost_usd"), float(PICO)))
    exact = {name: column.cast(pa.decimal128(38, 0)) for name, column in numbers.items()}
    sums = pa.table({"session_uid": table.column("session_uid"), **exact}).group_by("session_uid")
    wanted = [*((name, "sum") for name in exact), ("pico", "count"), ([], "count_all")]
    for row in sums.aggregate(wanted).to_pylist():
        spent = facts[row["session_uid"]]
        spent.tokens.update({name: int(row[f"{name}_sum"] or 0) for name in _TOKENS})
        spent.pico = int(row["pico_sum"] or 0) if row["pico_count"] == row["count_all"] else None


def _digests_have_their_facts(store: Store, held: _Partition, facts: _Held) -> Iterator[Violation]:
    """Each digest's facts, none of them newer than it. No facts without a digest."""
    generations = {row.session_uid: row.generation for row in held.digests}
    for row, digest in _with_facts(store, held):
        said, found = digest["coverage"].get("facts", {}), facts.get(row.session_uid, _Facts())
        if said != found.rows:
            what = f"its facts are not the {sum(said.values())} rows that its digest counts"
            yield Violation("facts_of_digest", what, row.session_uid)
    for uid, one in sorted(facts.items()):
        if generations.get(uid, 0) < one.generation:
            yield Violation("facts_of_digest", f"has facts of generation {one.generation} and no digest of it", uid)


# -- the promises about a digest -------------------------------------------------------------------------------------


def damaged_digest(uid: str) -> Violation:
    """What is said of a digest that does not match its hash."""
    return Violation("digest_hash", "the digest is not the one that was written", uid)


def digest_adds_up(uid: str, digest: Mapping[str, Any], held: _Partition) -> Iterator[Violation]:
    """A digest is in the partition of its session, and its tokens are those of its main thread and its subagents."""
    if held.homes.get(uid) != held.key:
        yield Violation("names_agree", "its digest is in another partition than the session", uid)
    both, main, sub = (_by_kind(digest[name]) for name in ("tokens", "tokens_main", "tokens_subagent"))
    if both != [one + other for one, other in zip(main, sub, strict=True)]:
        yield Violation("tokens_add_up", "its tokens are not those of main thread and subagents", uid)


def _by_kind(tokens: Mapping[str, int | None]) -> list[int]:
    return [tokens[kind] or 0 for kind in _KINDS]


def facts_add_up(uid: str, said: Mapping[str, Any], facts: _Facts) -> Iterator[Violation]:
    """What a digest says was spent and called is what its facts add up to."""
    spent, tokens, kinds = facts.tokens, said["tokens"], said["kind_counts"]
    writes = spent["cache_write_5m"] + spent["cache_write_1h"]
    if any((tokens[name] or 0) != spent[name] for name in _TOKENS) or (tokens["cache_write"] or 0) != writes:
        yield Violation("tokens_add_up", f"its tokens are not the {spent.total()} of its facts", uid)
    calls, messages = facts.rows["tool_calls"], facts.rows["messages"]
    if not said["tool_calls"] == kinds.get("tool_call", 0) == calls:
        yield Violation("calls_add_up", f"it counts {said['tool_calls']} calls where its facts have {calls}", uid)
    said_by_all = kinds.get("user_msg", 0) + kinds.get("assistant_msg", 0)
    if said_by_all != messages:
        what = f"it counts {said_by_all} messages where its facts have {messages}"
        yield Violation("messages_add_up", what, uid)
    if said["event_count"] != sum(kinds.values()):
        what = f"it counts {said['event_count']} events, of all kinds {sum(kinds.values())}"
        yield Violation("events_add_up", what, uid)
    cost = [said["cost"][f"{name}_tokens"] for name in ("input", "output", "cache")]
    if cost != [tokens["input"], tokens["output"], tokens["cache_read"] + tokens["cache_write"]]:
        yield Violation("tokens_add_up", "its cost counts other tokens than it has", uid)
    usd = said.get("cost_usd")
    if facts.rows["token_usage"] and facts.pico != (None if usd is None else picodollars(usd)):
        yield Violation("costs_add_up", "its cost is not that of its facts", uid)
