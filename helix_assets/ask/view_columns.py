"""The columns of the views over files, made of the fields of a stored row or fact.

Belongs here: how a view shows a field, and which columns it adds; docs/sql.md is generated from it. Not here: which
rows a view has, or the views over the catalog (`ask.views`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from helix_assets.model.event import ROW_FIELDS
from helix_assets.model.facts import FACTS, fields_of_fact
from helix_assets.model.fields import JSON, SESSION_UID, Field

_DAY = r"TRY_CAST(regexp_extract(filename, 'day=([0-9-]+)[^/\\]*', 1) AS DATE)"


class Column(NamedTuple):
    """A column of a view over files: its name, its SQL, its meaning."""

    name: str
    sql: str
    meaning: str


_OF_SESSION = (
    Column("session_uid", "r.session_uid", SESSION_UID.meaning),
    Column("flavor", "split_part(r.session_uid, ':', 1)", "the agent"),
    Column("day", _DAY, "the day of its partition"),
)
_PAYLOAD = Column(
    "payload_ref",
    "'blob://' || r.session_uid || '/' || record_key",
    "`blob://<session>/<record_key>`: the line is in `records`, and what `helix show SESSION --payload` takes",
)
_ACCEPTED = Column(
    "accepted",
    "CASE status WHEN 'ok' THEN true WHEN 'denied' THEN false END",
    "true: it was done; false: a person denied it; null: it failed, was cancelled or has no result",
)
# Fields that a view shows under another name or in another form.
_SHOWN_AS = {
    "ts_us": ("ts", "TRY(make_timestamp(ts_us))"),
    "ts": ("ts", "ts::TIMESTAMP"),
    "file": ("source_file", "s.path"),
    "offset": ("byte_offset", 'r."offset"'),
}
# Fields that come first; the others follow in the order of the row.
_FIRST: dict[str, tuple[str, ...]] = {
    "records": ("record_key", "record_id", "parent_id", "native_type"),
    **dict.fromkeys(FACTS, ("ts",)),
}
_MORE = {"events": [_PAYLOAD], "file_operations": [_ACCEPTED]}


def columns_of(view: str) -> Sequence[Column]:
    """The columns of a view over stored rows or facts."""
    fields = fields_of_fact(view)[1:] if view in FACTS else [field for field in ROW_FIELDS if view in field.views]
    first = _FIRST.get(view, ())
    placed = sorted(fields, key=lambda field: first.index(field.name) if field.name in first else len(first))
    return [*_OF_SESSION, *map(_shown_as, placed), *_MORE.get(view, ())]


def _shown_as(field: Field) -> Column:
    plain = f"TRY_CAST({field.name} AS JSON)" if field.text == JSON else field.name
    name, sql = _SHOWN_AS.get(field.name, (field.name, plain))
    return Column(name, sql, field.meaning)


def selected(view: str) -> str:
    """The columns of a view for a SELECT; `r` is the row, `s` the source file of a record."""
    return ", ".join(f"{column.sql} AS {column.name}" for column in columns_of(view))
