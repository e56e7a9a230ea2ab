"""The columns of the four assets as Dagster shows them. Those of events come from the fields of a row."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from helix_assets.model.event import ROW_FIELDS
from helix_assets.model.fields import SESSION_UID
from helix_assets.store.catalog.schema import columns_of

_TYPE_NAMES = {int: "int64", float: "double", bool: "bool", str: "string", bytes: "string"}
_SESSION = {"session_uid": "agent and native id of the session", "flavor": "the agent", "day": "partition day, UTC"}

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
    "position": "position in the feed, newer with each change",
    "first_position": "the session's first position in the feed",
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
    fields = (SESSION_UID, *ROW_FIELDS)
    return dg.TableSchema([dg.TableColumn(field.name, _TYPE_NAMES[field.type], field.meaning) for field in fields])


def table_schema(table: str, described: Mapping[str, str]) -> dg.TableSchema:
    """Those columns of a catalog table that mean something outside of it."""
    types = columns_of(table).items()
    columns = [dg.TableColumn(name, kind.lower(), described[name]) for name, kind in types if name in described]
    return dg.TableSchema(columns)
