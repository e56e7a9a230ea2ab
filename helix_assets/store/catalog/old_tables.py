"""The tables for statements that are not plain SQL yet; this module goes with the last of them."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    text,
)
from sqlalchemy.pool import StaticPool

from helix_assets.store.catalog.schema import (
    CATALOG_VERSION,  # noqa: F401
    KEYS_SINCE,  # noqa: F401
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
    # The path as it is on disk, or a keyed hash of it if the path itself contains a secret.
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
    # The hash of all bytes before the offset: reading goes on from there only if it still fits.
    Column("read_hash", Text),
    Column("offset", BigInteger, nullable=False, default=0),
    Column("line", BigInteger, nullable=False, default=1),
    # Whether the next sweep reads it from the start and compares it with what is stored of it.
    Column("is_doubted", Boolean, nullable=False, default=False, server_default="0"),
    # Whether records are stored that it no longer contains: it was rewritten, and is not all there was.
    Column("is_outlived", Boolean, nullable=False, default=False, server_default="0"),
    Column("order_us", BigInteger),
    Column("parser_state", JSON),
    Column("status", Text, nullable=False),
    Column("problem", Text),
    Column("discovered_at", Text, nullable=False),
    Column("ingested_at", Text),
    Column("gone_at", Text),
    # Every scan of the disk reads these.
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
    # Set while raw bytes are being evicted: the next writer finishes it, for the reason kept here.
    Column("evicting_at", Text),
    Column("evicting_reason", Text),
    Column("evicted_at", Text),
    # Places in the order of work: they distinguish older from newer even if the clock was wrong.
    Column("ingest_order", BigInteger, nullable=False),
    Column("analyze_order", BigInteger),
    Column("failure", Text),
    Column("failures", Integer, nullable=False, default=0),
    Column("retry_at", Text),
    Column("is_pinned", Boolean, nullable=False, default=False),
    # Whether its digest was merged, because the log contained only a part of what the digest counts.
    Column("is_partial", Boolean, nullable=False, default=False),
    # How many of the records that it counts are no longer stored, and how many without their texts.
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
    # How many bytes of the file are the texts of its records; null for files of older versions.
    Column("text_bytes", BigInteger),
)

# One live file per fact and partition. A new version replaces the old one in the same transaction as the digests.
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
    Column("position", BigInteger),
    Column("first_position", BigInteger),
)

# Which sessions contain a record or message that others may contain too: ids of agents that copy history.
ledger = Table(
    "ledger",
    metadata,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("session_id", _Key, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# New claims of the ledger, one row for each session and commit, until there are many: see `store.catalog.ledger`.
ledger_news = Table(
    "ledger_news",
    metadata,
    _id(),
    Column("session_id", _Key, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("told", JSON, nullable=False),
)

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

# Who owns a key that several sessions contain; `message_id` is set if the key is a message's.
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

# A mark per day of work, by which the age of raw bytes is counted (`model.days`).
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
    # The uid, as long as traces of it may be left outside the catalog: the next writer removes them.
    Column("unfinished", Text),
)

# Sessions that could not be read, or whose new lines could not: the reason, and the pause until `retry_at`.
retries = Table(
    "retries",
    metadata,
    Column("session_uid", Text, primary_key=True),
    Column("path_keys", JSON, nullable=False),
    Column("failure", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("retry_at", Text, nullable=False),
)


# When things happened according to the agents' own hooks: times that their logs do not contain.
hook_events = Table(
    "hook_events",
    metadata,
    _id(),
    Column("session_uid", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("event", Text, nullable=False),
    # The agent's id of a tool call; empty for other events, so that the same event is the same row.
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
    # The hash of all bytes before the offset: if they changed, the file is read from the start.
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


def run(connection: Any, statement: Any, parameters: Any) -> Any:
    """Run a statement of SQLAlchemy on a plain connection."""
    if (engine := getattr(connection, "old", None)) is None:
        engine = create_engine(
            "sqlite://",
            creator=lambda: connection,
            poolclass=StaticPool,
            json_deserializer=lambda value: json.loads(value) if isinstance(value, str) else value,
            isolation_level="AUTOCOMMIT",
        ).connect()
        connection.old = engine
    if isinstance(statement, str):
        return engine.exec_driver_sql(statement, parameters)
    return engine.execute(statement, parameters) if parameters else engine.execute(statement)
