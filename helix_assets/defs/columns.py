"""The columns of the four assets as Dagster shows them. Their types come from model and store, the words are here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_type_hints

import dagster as dg
from sqlalchemy import Table

from helix_assets.model.event import Row

_TYPE_NAMES = {int: "int64", float: "double", bool: "bool", str: "string", bytes: "string"}
_SESSION = {"session_uid": "agent and native id of the session", "flavor": "the agent", "day": "partition day, UTC"}

EVENT_COLUMNS = _SESSION | {
    "seq": "place in the session, from 0; -1 for what has no place in the conversation",
    "parent_seq": "place of the event it follows",
    "ts_us": "microseconds since 1970",
    "kind": "one of thirteen kinds; none for a record that yields no event",
    "role": "who speaks: user, assistant, system or tool",
    "tool": "the tool called",
    "summary": "one redacted line",
    "status": "how it went, such as ok, error or denied",
    "tokens": "all tokens of the API message; counted once per message",
    "is_sidechain": "written by a subagent",
    "agent_id": "which subagent",
    "call_id": "ties a tool's result to its call",
    "message_id": "the API message it is part of",
    "model": "the model that answered",
    "input_tokens": "fresh input",
    "output_tokens": "output, reasoning included",
    "cache_read_tokens": "input read from the cache",
    "cache_write_5m_tokens": "input written to the five-minute cache",
    "cache_write_1h_tokens": "input written to the one-hour cache",
    "reasoning_tokens": "the part of the output that is reasoning, if recorded",
    "cost_usd": "price, if the agent records it",
    "exit_code": "of a command",
    "duration_ms": "from call to result",
    "file_path": "the file that was read or edited",
    "lines_added": "by an edit",
    "lines_removed": "by an edit",
    "input_hash": "distinguishes two calls of one tool",
    "detail": "a small JSON object for what has no column",
    "size": "characters of a message",
    "native_type": "the agent's own type of the record",
    "record_id": "the agent's own id of the record",
    "parent_id": "the agent's own id of the record before",
    "record_key": "identifies the record for good, whatever its place",
    "order_us": "time that orders the record in its session",
    "file": "which of the session's files",
    "line": "line in that file, from 1",
    "offset": "byte in that file",
    "raw": "the whole source line, redacted; on the first row of a record",
}
DIGEST_COLUMNS = _SESSION | {
    "digest": "the digest, a JSON object",
    "repo": "repository",
    "domain": "domain of the repository, from the settings",
    "outcome": "how the session ended",
    "started_at": "first dated record",
    "ended_at": "last dated record",
    "schema_version": "rules that built the digest",
    "generation": "state of the stored rows that it covers",
    "hash": "keyed hash of the digest",
    "written_at": "when it was built",
}
SOURCE_COLUMNS = {
    "path": "where the file is, redacted",
    "flavor": "the agent that wrote it",
    "role": "main log, subagent log or other",
    "size": "bytes",
    "mtime_ns": "last change, nanoseconds since 1970",
    "offset": "bytes read so far",
    "line": "lines read so far",
    "status": "ok, gone, unreadable, damaged, excluded, empty or superseded",
    "problem": "why it cannot be read",
    "discovered_at": "first seen",
    "ingested_at": "last read",
    "gone_at": "first missed",
}
EVICTION_COLUMNS = _SESSION | {
    "at": "when the raw bytes went",
    "bytes": "bytes that went",
    "generation": "state of the rows that went",
    "reason": "why they went",
    "usage_after": "bytes left in the raw cache",
}


def event_schema() -> dg.TableSchema:
    """The columns of a raw cache file."""
    columns = [dg.TableColumn("session_uid", "string", EVENT_COLUMNS["session_uid"])]
    for name, hint in get_type_hints(Row).items():
        kind = next(kind for kind in getattr(hint, "__args__", (hint,)) if kind is not type(None))
        columns.append(dg.TableColumn(name, _TYPE_NAMES[kind], EVENT_COLUMNS.get(name)))
    return dg.TableSchema(columns)


def table_schema(table: Table, described: Mapping[str, str]) -> dg.TableSchema:
    """Those columns of a catalog table that mean something outside of it."""
    columns = (column for column in table.columns if column.name in described)
    return dg.TableSchema([dg.TableColumn(c.name, str(c.type).lower(), described[c.name]) for c in columns])
