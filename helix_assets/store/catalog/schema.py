"""The catalog's tables, and the numbered steps that lead an older catalog to them.

Belongs here: shapes only. Times are ISO UTC text (sortable); `*_us` are microseconds; sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)

metadata = MetaData()
_Key = Integer().with_variant(BigInteger, "postgresql")


def _id() -> Column[int]:
    return Column("id", _Key, primary_key=True, autoincrement=True)


meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

sources = Table(
    "sources",
    metadata,
    _id(),
    # The path as it is on disk, or a keyed hash of it where the path itself holds a secret.
    Column("path_key", Text, nullable=False, unique=True),
    Column("path", Text, nullable=False),
    Column("flavor", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("native_id", Text),
    Column("session_id", ForeignKey("sessions.id"), index=True),
    Column("file_rank", BigInteger, nullable=False),
    Column("dev", BigInteger, nullable=False),
    Column("inode", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    # Of all bytes before the offset: only while they hash to this may reading go on from there.
    Column("read_hash", Text),
    Column("offset", BigInteger, nullable=False, default=0),
    Column("line", BigInteger, nullable=False, default=1),
    # Whether it is read from the start when it is next looked at, and compared with what is stored of it.
    Column("is_doubted", Boolean, nullable=False, default=False, server_default="0"),
    # Whether records are stored of it that it tells no more: it was rewritten, and is not all there was.
    Column("is_outlived", Boolean, nullable=False, default=False, server_default="0"),
    Column("order_us", BigInteger),
    Column("parser_state", JSON),
    Column("status", Text, nullable=False),
    Column("problem", Text),
    Column("discovered_at", Text, nullable=False),
    Column("ingested_at", Text),
    Column("gone_at", Text),
    # Every look at the disk asks for these.
    Index("sources_by_state", "path_key", "dev", "inode", "size", "mtime_ns"),
    Index("sources_not_fine", "status", sqlite_where=text("status != 'ok'")),
)

sessions = Table(
    "sessions",
    metadata,
    _id(),
    Column("session_uid", Text, nullable=False, unique=True),
    Column("flavor", Text, nullable=False),
    Column("native_session_id", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("file_key", Text, nullable=False),
    Column("repo", Text),
    Column("domain", Text),
    Column("cwd", Text),
    Column("git_branch", Text),
    Column("model", Text),
    Column("title", Text),
    Column("task_ref", Text),
    Column("parent_uid", Text),
    Column("facts", JSON, nullable=False),
    Column("started_us", BigInteger),
    Column("ended_us", BigInteger),
    Column("outcome", Text, nullable=False, default="unknown"),
    Column("source_bytes", BigInteger, nullable=False, default=0),
    Column("raw_bytes", BigInteger, nullable=False, default=0),
    Column("row_count", BigInteger, nullable=False, default=0),
    Column("record_count", BigInteger, nullable=False, default=0),
    Column("unparsed_count", BigInteger, nullable=False, default=0),
    Column("last_row", JSON),
    Column("schema_version", Integer, nullable=False),
    Column("parser_version", Integer, nullable=False),
    Column("redaction_version", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("derived_generation", Integer),
    Column("derivation_version", Integer),
    Column("discovered_at", Text, nullable=False),
    Column("ingested_at", Text, nullable=False),
    Column("analyzed_at", Text),
    # Set while raw bytes are going: whoever holds the writer lock next finishes it, for the reason kept here.
    Column("evicting_at", Text),
    Column("evicting_reason", Text),
    Column("evicted_at", Text),
    # Places in the order of work: they tell older from newer even when the clock lied.
    Column("ingest_order", BigInteger, nullable=False),
    Column("analyze_order", BigInteger),
    Column("failure", Text),
    Column("failures", Integer, nullable=False, default=0),
    Column("retry_at", Text),
    Column("is_pinned", Boolean, nullable=False, default=False),
    # Whether its digest was merged, for the log held only a part of what the digest counts.
    Column("is_partial", Boolean, nullable=False, default=False),
    # How many of the records that it counts are stored no longer, and how many without their texts.
    Column("evicted_records", BigInteger, nullable=False, default=0, server_default="0"),
    Column("light_records", BigInteger, nullable=False, default=0, server_default="0"),
    Index("sessions_by_partition", "flavor", "day"),
    # Every writer looks here first.
    Index("sessions_being_evicted", "evicting_at", sqlite_where=text("evicting_at IS NOT NULL")),
)

raw_files = Table(
    "raw_files",
    metadata,
    _id(),
    Column("session_id", ForeignKey("sessions.id"), nullable=False, index=True),
    Column("part", Integer, nullable=False),
    Column("name", Text, nullable=False, unique=True),
    Column("bytes", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("record_count", BigInteger, nullable=False),
    # How many bytes of the file are the texts of its records; unknown of files of older versions.
    Column("text_bytes", BigInteger),
)

# One live file per fact and partition; a new version takes the place of the old one in the same step as the digests.
fact_files = Table(
    "fact_files",
    metadata,
    _id(),
    Column("fact", Text, nullable=False),
    Column("flavor", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("name", Text, nullable=False, unique=True),
    Column("bytes", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    UniqueConstraint("fact", "flavor", "day"),
)

# The read contract of kaizen: session_uid and digest stay as they are, columns are only ever added.
digests = Table(
    "digests",
    metadata,
    Column("session_uid", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("flavor", Text, nullable=False),
    Column("repo", Text),
    Column("domain", Text),
    Column("outcome", Text, nullable=False),
    Column("started_at", Text),
    Column("ended_at", Text),
    Column("schema_version", Integer, nullable=False),
    Column("day", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("hash", Text, nullable=False),
    Column("written_at", Text, nullable=False),
)

# Which sessions tell a record (or use a message) that others may tell too: ids of agents that copy history.
ledger = Table(
    "ledger",
    metadata,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("session_id", _Key, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# New claims of the ledger, a row for each session and commit, until there are many: see `store.catalog.ledger`.
ledger_news = Table(
    "ledger_news",
    metadata,
    _id(),
    Column("session_id", _Key, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("told", JSON, nullable=False),
)

KEYS_SINCE = "keys_since"
"""In the order of work, what was derived later than this has its keys recorded; an upgraded store has it in `meta`."""

# The keys of all that a session counts, as 64-bit integers: see `store.catalog.session_keys`.
session_keys = Table(
    "session_keys",
    metadata,
    _id(),
    Column("session_id", ForeignKey("sessions.id"), nullable=False, index=True),
    Column("records", LargeBinary, nullable=False),
    Column("bad_lines", LargeBinary, nullable=False),
    # Pairs: a message, and the record whose usage counts for it.
    Column("messages", LargeBinary, nullable=False),
    # Whether they come from facts and claims, which is all that earlier versions kept: some may be missing.
    Column("is_gathered", Boolean, nullable=False, default=False),
)

# Who owns what is told by several sessions; `message_id` is set where the key is a message's.
shared_keys = Table(
    "shared_keys",
    metadata,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("owner_id", ForeignKey("sessions.id"), nullable=False, index=True),
    Column("message_id", Text),
)

problems = Table(
    "problems",
    metadata,
    _id(),
    Column("path_key", Text, nullable=False, index=True),
    Column("path", Text, nullable=False),
    Column("flavor", Text, nullable=False),
    Column("line", BigInteger),
    Column("offset", BigInteger),
    Column("reason", Text, nullable=False),
    Column("seen_at", Text, nullable=False),
    UniqueConstraint("path_key", "line", "reason"),
)

evictions = Table(
    "evictions",
    metadata,
    _id(),
    Column("at", Text, nullable=False),
    Column("session_uid", Text, nullable=False, index=True),
    Column("flavor", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("usage_after", BigInteger),
)

losses = Table(
    "losses",
    metadata,
    _id(),
    Column("at", Text, nullable=False),
    Column("session_uid", Text, nullable=False, index=True),
    Column("flavor", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("reason", Text, nullable=False),
)

# A mark per day of work: what the age of raw bytes is counted by (core.days).
day_marks = Table(
    "day_marks",
    metadata,
    _id(),
    Column("order", BigInteger, nullable=False),
    Column("days", Float, nullable=False),
    Column("at", Text, nullable=False),
)

sweeps = Table(
    "sweeps",
    metadata,
    _id(),
    Column("started_at", Text, nullable=False),
    Column("ended_at", Text),
    Column("seconds", Float),
    Column("counters", JSON, nullable=False),
    Column("raw_bytes", BigInteger),
    Column("soft_cap_bytes", BigInteger),
    Column("hard_cap_bytes", BigInteger),
)

# What a person has had forgotten: keyed hashes of session uids and of source paths, so that no sweep brings it back.
forgotten = Table(
    "forgotten",
    metadata,
    Column("mark", Text, primary_key=True),
    Column("at", Text, nullable=False),
    # The uid, as long as traces of it may lie outside the catalog: whoever holds the writer lock next removes them.
    Column("unfinished", Text),
)

# Sessions that could not be read, in whole or in what is new of them: set aside, with the reason, until `retry_at`.
retries = Table(
    "retries",
    metadata,
    Column("session_uid", Text, primary_key=True),
    Column("path_keys", JSON, nullable=False),
    Column("failure", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("retry_at", Text, nullable=False),
)


# When things happened by the agents' own hooks: times that their logs do not hold.
hook_events = Table(
    "hook_events",
    metadata,
    _id(),
    Column("session_uid", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("event", Text, nullable=False),
    # The agent's id of a tool call; empty for what is none, so that the same event is the same row.
    Column("call_id", Text, nullable=False),
    UniqueConstraint("session_uid", "at", "event", "call_id"),
)

# kaizen: the projects' files of executions, how far each was read, and their records (redacted).
execution_files = Table(
    "execution_files",
    metadata,
    _id(),
    Column("path_key", Text, nullable=False, unique=True),
    Column("project", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("dev", BigInteger, nullable=False),
    Column("inode", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("line", BigInteger, nullable=False),
    # Of all bytes before the offset: a file of which they changed is read from the start.
    Column("read_hash", Text, nullable=False),
    Column("unparsed", BigInteger, nullable=False),
)

executions = Table(
    "executions",
    metadata,
    _id(),
    Column("file_id", ForeignKey("execution_files.id"), nullable=False, index=True),
    Column("line", BigInteger, nullable=False),
    Column("session_uid", Text, index=True),
    Column("record", JSON, nullable=False),
)

# kaizen: which digest of a session was last put into the feed, and where.
feed = Table(
    "feed",
    metadata,
    Column("session_uid", Text, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
)


def _first(connection: Connection) -> None:
    later = (fact_files, forgotten, retries, hook_events, execution_files, executions, feed, ledger_news, session_keys)
    metadata.create_all(connection, tables=[table for table in metadata.sorted_tables if table not in later])


def _second(connection: Connection) -> None:
    """Facts. Sessions derived before have a digest of an older version, so the next sweep makes theirs."""
    fact_files.create(connection, checkfirst=True)


def _third(connection: Connection) -> None:
    forgotten.create(connection, checkfirst=True)


def _fourth(connection: Connection) -> None:
    retries.create(connection, checkfirst=True)


def _fifth(connection: Connection) -> None:
    for table in (hook_events, execution_files, executions, feed):
        table.create(connection, checkfirst=True)


def _sixth(connection: Connection) -> None:
    """Texts can go before light rows do. What is stored already goes whole."""
    _add_columns(connection, "raw_files", "text_bytes BIGINT")


def _seventh(connection: Connection) -> None:
    """What every look at the disk asks for is found without a walk over all sources."""
    for index in sources.indexes:
        index.create(connection, checkfirst=True)


def _eighth(connection: Connection) -> None:
    """Files that tell less than what is stored of them; those rewritten before are found out when they change again."""
    flags = (f"{name} BOOLEAN NOT NULL DEFAULT 0" for name in ("is_doubted", "is_outlived"))
    _add_columns(connection, "sources", *flags)


def _ninth(connection: Connection) -> None:
    ledger_news.create(connection, checkfirst=True)


def _tenth(connection: Connection) -> None:
    """Identity decides what counts. The next sweep reads again what places decided on: logs of evicted sessions."""
    session_keys.create(connection, checkfirst=True)
    counts = (f"{name} BIGINT NOT NULL DEFAULT 0" for name in ("evicted_records", "light_records"))
    _add_columns(connection, "sessions", *counts)
    _add_columns(connection, "sources", "read_hash TEXT")
    # How many they are is known once the log was read again; until then it matters that there are some. The places of a
    # log that was rewritten since went back to its start.
    without_texts = "SELECT session_id FROM raw_files WHERE row_count > 0 AND record_count = 0"
    for new, went in (
        ("evicted_records", "evicted_at IS NOT NULL OR is_partial"),
        ("light_records", f"id IN ({without_texts})"),
    ):
        connection.exec_driver_sql(f"UPDATE sessions SET {new} = max(row_count, 1) WHERE {went}")
    for old, new in (("evicted_offset", "evicted_records"), ("dropped_offset", "light_records")):
        if old in _columns(connection, "sources"):
            went = f"SELECT session_id FROM sources WHERE {old} > 0"
            connection.exec_driver_sql(f"UPDATE sessions SET {new} = max(row_count, 1) WHERE id IN ({went})")
    for gone in _columns(connection, "sources") & {"evicted_offset", "dropped_offset", "head_hash", "tail_hash"}:
        connection.exec_driver_sql(f"ALTER TABLE sources DROP COLUMN {gone}")
    connection.exec_driver_sql(
        f"INSERT OR REPLACE INTO meta (name, value) SELECT '{KEYS_SINCE}', value FROM meta WHERE name = 'order'"
    )
    judged = "SELECT id FROM sessions WHERE evicted_records > 0 OR light_records > 0 OR is_partial"
    connection.exec_driver_sql(f"UPDATE sources SET mtime_ns = -1 WHERE status = 'ok' AND session_id IN ({judged})")


def _columns(connection: Connection, table: str) -> set[str]:
    return {found["name"] for found in inspect(connection).get_columns(table)}


def _add_columns(connection: Connection, table: str, *columns: str) -> None:
    there = _columns(connection, table)
    for column in columns:
        if column.split()[0] not in there:
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column}")


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _first,
    _second,
    _third,
    _fourth,
    _fifth,
    _sixth,
    _seventh,
    _eighth,
    _ninth,
    _tenth,
)
CATALOG_VERSION = len(MIGRATIONS)
