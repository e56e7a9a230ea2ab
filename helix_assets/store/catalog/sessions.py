"""Sessions: one row each, with what is stored of it and by which versions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, NamedTuple

from helix_assets.model.errors import NotFoundError
from helix_assets.store.catalog.conditions import Versions, covered, outdated
from helix_assets.store.catalog.connection import Connection, Row, marks
from helix_assets.store.catalog.retries import due
from helix_assets.store.catalog.schema import columns_of

_MANY = 5_000

_AT_FIRST = {
    "outcome": "unknown",
    **dict.fromkeys(("source_bytes", "raw_bytes", "row_count", "record_count", "unparsed_count", "failures"), 0),
    **dict.fromkeys(("is_pinned", "is_partial"), False),
}
"""Values of a new row. Tables that an earlier version made have no defaults of their own."""
_STORED = "row_count > 0 AND evicted_at IS NULL AND evicting_at IS NULL"

_WITH_ROWS = "SELECT session_uid, day, flavor, raw_bytes FROM sessions WHERE evicted_at IS NULL AND row_count > 0"


class Wanted(NamedTuple):
    """Which sessions are wanted; None is no limit. Times are in microseconds."""

    agent: str | None = None
    repo: str | None = None
    day: str | None = None
    ended_since_us: int | None = None
    started_before_us: int | None = None
    outcome: str | None = None
    uid: str | None = None


_CONDITIONS = ("flavor = ?", "repo = ?", "day = ?", "ended_us >= ?", "started_us < ?", "outcome = ?", "session_uid = ?")
"""What each field of `Wanted` limits, in the same order."""


def one(connection: Connection, session_uid: str) -> Row:
    """One session's row; NotFoundError when there is none."""
    row: Row | None = connection.execute("SELECT * FROM sessions WHERE session_uid = ?", (session_uid,)).fetchone()
    if row is None:
        raise NotFoundError(f"no session {session_uid!r} in the memory; `helix sessions` lists them")
    return row


def uids(connection: Connection) -> list[str]:
    """All sessions."""
    return connection.column("SELECT session_uid FROM sessions")


def by_uid(connection: Connection, names: Collection[str]) -> dict[str, Row]:
    """Those of the sessions that exist."""
    rows = connection.for_each("SELECT * FROM sessions WHERE session_uid IN ({})", names)
    return {row.session_uid: row for row in rows}


def uids_that_begin(connection: Connection, text: str, limit: int) -> list[str]:
    """Sessions whose uid or native id begins with a text, at most so many."""
    query = """SELECT session_uid FROM sessions
        WHERE substr(session_uid, 1, :size) = :text OR substr(native_session_id, 1, :size) = :text
        ORDER BY session_uid LIMIT :limit"""
    return connection.column(query, {"size": len(text), "text": text, "limit": limit})


def last_ended(connection: Connection, folder: str | None = None) -> str | None:
    """The session with a digest that ended last, of all sessions or of those in this folder or below it."""
    below = "" if folder is None else folder.rstrip("/") + "/"
    query = """SELECT sessions.session_uid FROM sessions JOIN digests ON digests.session_uid = sessions.session_uid
        WHERE :folder IS NULL OR cwd = :folder OR substr(cwd, 1, :size) = :below
        ORDER BY coalesce(ended_us, started_us, 0) DESC, ingest_order DESC LIMIT 1"""
    uid: str | None = connection.value(query, {"folder": folder, "below": below, "size": len(below)})
    return uid


def without_digest(connection: Connection) -> list[str]:
    """Sessions whose digest was made and is gone."""
    return connection.column("""SELECT session_uid FROM sessions WHERE derived_generation IS NOT NULL
        AND session_uid NOT IN (SELECT session_uid FROM digests)""")


def for_queries(connection: Connection, versions: Versions) -> list[Row]:
    """All sessions without their JSON columns, which cost more than all others, and whether each is covered."""
    plain = [name for name, kind in columns_of("sessions").items() if kind != "JSON"]
    return connection.rows(f"SELECT {', '.join(plain)}, {covered(versions)} AS is_covered FROM sessions ORDER BY id")


def with_digests(connection: Connection) -> Iterator[Row]:
    """Of every session with a digest its place, the facts it was found from, and the digest with its hash."""
    query = """SELECT id, sessions.session_uid, sessions.repo, sessions.domain, task_ref, facts, digest, hash
        FROM sessions JOIN digests ON digests.session_uid = sessions.session_uid"""
    with closing(connection.execute(query)) as found:
        yield from found


def for_search(connection: Connection) -> list[Row]:
    """All sessions, with what a search filters by and shows."""
    return connection.rows("""SELECT id, session_uid, flavor, repo, title, day, started_us, ended_us, evicted_at,
        evicting_at, redaction_version FROM sessions""")


def count_uncovered(connection: Connection, versions: Versions) -> int:
    """How many sessions that are not evicted have no digest of all their rows."""
    query = f"SELECT count(*) FROM sessions WHERE evicted_at IS NULL AND NOT {covered(versions)}"
    return int(connection.value(query))


def sums_by_agent(connection: Connection) -> list[Row]:
    """Of each agent the sessions, the evicted ones, the bytes stored and those of the sources."""
    return connection.rows("""SELECT flavor, count(*), count(evicted_at), sum(raw_bytes), sum(source_bytes)
        FROM sessions GROUP BY flavor""")


def count_by(connection: Connection, *columns: str) -> list[tuple[Any, ...]]:
    """How many sessions have each value of these columns: the values, then the count."""
    names = ", ".join(columns)
    return connection.tuples(f"SELECT {names}, count(*) FROM sessions GROUP BY {names}")


def by_id(connection: Connection, ids: Collection[int]) -> dict[int, Row]:
    """Those of the sessions that exist."""
    return {row.id: row for row in connection.for_each("SELECT * FROM sessions WHERE id IN ({})", ids)}


def uids_by_partition(
    connection: Connection, partitions: Collection[tuple[str, str]]
) -> dict[tuple[str, str], set[str]]:
    """The sessions of these (flavor, day) partitions."""
    found: dict[tuple[str, str], set[str]] = {partition: set() for partition in partitions}
    flavors = sorted({flavor for flavor, _ in partitions})
    query = f"SELECT flavor, day, session_uid FROM sessions WHERE flavor IN ({marks(flavors)}) AND day IN ({{}})"
    for flavor, day, uid in connection.for_each(query, {day for _, day in partitions}, flavors):
        if (flavor, day) in found:
            found[flavor, day].add(uid)
    return found


def uids_by_native(connection: Connection, natives: Collection[str]) -> dict[str, str]:
    """The uids of those sessions that exist, by the agents' own ids."""
    query = "SELECT native_session_id, session_uid FROM sessions WHERE native_session_id IN ({})"
    return {row.native_session_id: row.session_uid for row in connection.for_each(query, natives)}


def of_repo(connection: Connection, repo: str) -> list[Row]:
    """The sessions of a repository, by day."""
    query = "SELECT * FROM sessions WHERE repo = ? ORDER BY day, session_uid"
    return connection.rows(query, (repo,))


def agents(connection: Connection) -> list[str]:
    """The agents of which there are sessions."""
    return connection.column("SELECT DISTINCT flavor FROM sessions")


def newest(connection: Connection, wanted: Wanted, limit: int) -> tuple[list[Row], int]:
    """The newest sessions of those wanted, each with its digest if there is one, and how many are wanted."""
    where, values = _limits(wanted)
    query = f"""SELECT sessions.*, digest, hash FROM sessions
        LEFT JOIN digests ON digests.session_uid = sessions.session_uid WHERE {where}
        ORDER BY coalesce(sessions.started_us, 0) DESC, sessions.session_uid LIMIT ?"""
    total = connection.value(f"SELECT count(*) FROM sessions WHERE {where}", values)
    return connection.rows(query, (*values, limit)), int(total)


def to_derive(connection: Connection, wanted: Wanted, versions: Versions) -> list[Row]:
    """Those of the sessions wanted, the oldest first: what is gone of each, and whether older rules made its digest."""
    where, values = _limits(wanted)
    query = f"""SELECT session_uid, evicted_records + light_records > 0 AS is_lightened,
            evicted_at IS NOT NULL OR evicting_at IS NOT NULL AS is_evicted, {outdated(versions)} AS is_outdated
        FROM sessions WHERE {where} ORDER BY ingest_order"""
    return connection.rows(query, values)


def _limits(wanted: Wanted) -> tuple[str, list[Any]]:
    """The condition for the sessions wanted, and its values."""
    limits = [(condition, value) for condition, value in zip(_CONDITIONS, wanted, strict=True) if value is not None]
    return " AND ".join(f"sessions.{condition}" for condition, _ in limits) or "TRUE", [value for _, value in limits]


def identities(connection: Connection, days: Collection[str] | None = None) -> Iterator[Row]:
    """What identifies the stored rows of each session: its partition, its uid, and their generation."""
    return connection.of_days(
        "SELECT flavor, day, session_uid, generation FROM sessions {} ORDER BY session_uid", "day", days
    )


def of_days(connection: Connection, days: Collection[str]) -> Iterator[Row]:
    """The counts of the sessions of these days."""
    query = """SELECT flavor, day, row_count, record_count, unparsed_count, raw_bytes, source_bytes, evicted_at
        FROM sessions WHERE day IN ({})"""
    return connection.for_each(query, days)


def count_by_day(connection: Connection, first_day: str) -> list[Row]:
    """How many sessions each agent had on each day since the first, as rows of agent, day and count."""
    query = "SELECT flavor, day, count(*) FROM sessions WHERE day >= ? GROUP BY flavor, day ORDER BY flavor, day"
    return connection.rows(query, (first_day,))


def count_rows(connection: Connection) -> int:
    """How many rows of all sessions are stored."""
    query = "SELECT coalesce(sum(row_count), 0) FROM sessions WHERE evicted_at IS NULL"
    return int(connection.value(query))


def every_uid(connection: Connection) -> list[Row]:
    """The `id` and `session_uid` of every session, by uid."""
    return connection.rows("SELECT id, session_uid FROM sessions ORDER BY session_uid")


def count(connection: Connection) -> int:
    """How many sessions there are."""
    return int(connection.value("SELECT count(*) FROM sessions"))


def lines_read(connection: Connection) -> Iterator[Row]:
    """Of every session: agent, day, how many lines were read and how many could not be parsed, and its own facts."""
    with closing(connection.execute("SELECT flavor, day, record_count, unparsed_count, facts FROM sessions")) as found:
        yield from found


def homes(connection: Connection, uids: Collection[str]) -> dict[str, tuple[str, str]]:
    """The partition (flavor, day) of each of these sessions."""
    rows = connection.for_each("SELECT session_uid, flavor, day FROM sessions WHERE session_uid IN ({})", uids)
    return {row.session_uid: (row.flavor, row.day) for row in rows}


def merged_in(connection: Connection, flavor: str, day: str) -> dict[int, str]:
    """The uids by id of a partition's sessions whose digests were merged."""
    query = "SELECT id, session_uid FROM sessions WHERE flavor = ? AND day = ? AND is_partial"
    return dict(connection.tuples(query, (flavor, day)))


def stale_partitions(connection: Connection, versions: Versions) -> set[tuple[str, str]]:
    """Partitions (flavor, day) with sessions that are not covered and can still be derived."""
    query = f"""SELECT DISTINCT flavor, day FROM sessions
        WHERE NOT {covered(versions)} AND evicted_at IS NULL AND row_count > 0"""
    return set(connection.tuples(query))


def stored_whole(connection: Connection, versions: Versions, ids: Collection[int]) -> set[int]:
    """Those of these sessions of which all is stored that their digests count."""
    query = f"SELECT id FROM sessions WHERE {_stored_whole(versions)} AND id IN ({{}})"
    return {row.id for row in connection.for_each(query, ids)}


def sample(connection: Connection, size: int, versions: Versions | None = None) -> set[int]:
    """Sessions with stored rows: so many of the newest, and as many others by chance. Of these versions, if given."""
    wanted = _STORED if versions is None else _stored_whole(versions)
    query = f"SELECT id FROM sessions WHERE {wanted} ORDER BY {{}} LIMIT ?"
    orders = ("ingest_order DESC", "random()")
    return {number for order in orders for number in connection.column(query.format(order), (size,))}


def _stored_whole(versions: Versions) -> str:
    return f"({_STORED} AND NOT is_partial AND evicted_records = 0 AND {covered(versions)})"


def being_evicted(connection: Connection) -> list[Row]:
    """Sessions that are marked: the next writer finishes their eviction."""
    # Sorted here: an `order by` would read all sessions instead of the index of the marked ones.
    rows = connection.rows("SELECT * FROM sessions WHERE evicting_at IS NOT NULL")
    return sorted(rows, key=lambda row: row.id)


def mark_evicting(connection: Connection, session_uid: str, generation: int, at: str, reason: str) -> None:
    """Mark a session for eviction, if it has not changed since it was planned."""
    changes = {"evicting_at": at, "evicting_reason": reason}
    connection.update("sessions", changes, "session_uid = ? AND generation = ?", session_uid, generation)


def bytes_with_texts(connection: Connection) -> tuple[int, int]:
    """Bytes stored of all sessions with texts, and bytes of their sources."""
    stored, read = connection.execute(
        """SELECT coalesce(sum(raw_bytes), 0), coalesce(sum(source_bytes), 0) FROM sessions
            WHERE record_count > 0 AND raw_bytes > 0"""
    ).fetchone()
    return stored, read


def every(connection: Connection) -> list[Row]:
    """All sessions, by uid."""
    return connection.rows("SELECT * FROM sessions ORDER BY session_uid")


def is_any_redacted_otherwise(connection: Connection, redaction: str) -> bool:
    """Whether any session is redacted by other rules than these."""
    return connection.value("SELECT id FROM sessions WHERE redaction_version != ? LIMIT 1", (redaction,)) is not None


def count_redacted_otherwise(connection: Connection, redaction: str) -> tuple[int, int]:
    """How many sessions are redacted by other rules than these, and how many there are."""
    ((other, total),) = connection.tuples(
        "SELECT count(*) FILTER (WHERE redaction_version != ?), count(*) FROM sessions", (redaction,)
    )
    return other, total


def stale(connection: Connection, versions: Versions, now: datetime, among: Collection[str] | None) -> list[Row]:
    """Sessions with rows of an older parser or digest that may be tried now, the oldest first.

    `among` these, if it names few.
    """
    query = f"{_WITH_ROWS} AND {outdated(versions)} AND (failure IS NULL OR {due(now)}) AND {_is_among(among)}"
    return connection.rows(f"{query} ORDER BY ingest_order", _few(among))


def unredacted(connection: Connection, redaction: str, now: datetime) -> list[Row]:
    """Sessions with rows that are redacted by other rules and may be tried now, the newest first."""
    query = f"{_WITH_ROWS} AND redaction_version != ? AND (failure IS NULL OR {due(now)})"
    return connection.rows(f"{query} ORDER BY started_us DESC, id DESC", (redaction,))


def is_any_stale(connection: Connection, versions: Versions, redaction: str, among: Collection[str] | None) -> bool:
    """Whether any session is of older rules, whenever it may be tried; `among` as above."""
    query = f"""SELECT id FROM sessions WHERE (redaction_version != ?
            OR evicted_at IS NULL AND row_count > 0 AND {outdated(versions)}) AND {_is_among(among)} LIMIT 1"""
    return connection.value(query, (redaction, *_few(among))) is not None


def _is_among(uids: Collection[str] | None) -> str:
    return f"session_uid IN ({marks(_few(uids))})" if uids is not None and len(uids) <= _MANY else "1"


def _few(uids: Collection[str] | None) -> tuple[str, ...]:
    return tuple(uids) if uids is not None and len(uids) <= _MANY else ()


def next_ids(connection: Connection, count: int) -> range:
    """Ids for so many new sessions. There is one writer, so they stay free until the transaction ends."""
    if not count:
        return range(0)
    last = connection.value("SELECT coalesce(max(id), 0) FROM sessions")
    return range(last + 1, last + 1 + count)


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert or update sessions by uid. Columns that never change are kept. All rows have the same columns."""
    keep = {"id", "flavor", "day", "discovered_at", "file_key"} | (_AT_FIRST.keys() - rows[0].keys() if rows else set())
    connection.upsert("sessions", [{**_AT_FIRST, **row} for row in rows], ["session_uid"], keep)


def erase(connection: Connection, names: Collection[str]) -> None:
    """Erase forgotten sessions, and the times that hooks noted of them."""
    connection.run_for("DELETE FROM hook_events WHERE session_uid IN ({})", names)
    connection.run_for("DELETE FROM sessions WHERE session_uid IN ({})", names)


def change(connection: Connection, session_id: int, **values: Any) -> None:
    """Change some columns of a session."""
    connection.update("sessions", values, "id = ?", session_id)


def names(connection: Connection) -> dict[int, str]:
    """The uid of every session."""
    return dict(connection.tuples("SELECT id, session_uid FROM sessions"))


def pass_without_rows(connection: Connection, version: str) -> None:
    """Count sessions without rows as redacted by the rules of this version: they have no texts."""
    is_rowless = "(evicted_at IS NOT NULL OR row_count = 0) AND redaction_version != ?"
    connection.update("sessions", {"redaction_version": version}, is_rowless, version)
