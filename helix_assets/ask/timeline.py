"""What a session that is open shows: its head, its events in order, and the source line behind any of them.

Belongs here: choosing and naming what is shown. Not here: opening the session (`ask.reading`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from helix_assets.ask.reading import OpenSession
from helix_assets.model.errors import NotFoundError
from helix_assets.model.event import Row
from helix_assets.model.time import iso

_NUMBER = re.compile(r"-?\d{1,19}")


@dataclass(frozen=True)
class SessionHead:
    """What identifies a session to a person, and whether its events are still there."""

    session_uid: str
    title: str | None
    repo: str | None
    cwd: str | None
    git_branch: str | None
    model: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    parent_uid: str | None
    evicted_at: str | None
    is_pinned: bool


class SourceLine(NamedTuple):
    """A record's source line, redacted, and where it is from."""

    seq: int
    record_id: str | None
    line: int
    raw: str


def head_of(session: OpenSession) -> SessionHead:
    """The head of a session."""
    row = session.row
    return SessionHead(
        session_uid=row.session_uid,
        title=row.title,
        repo=row.repo,
        cwd=row.cwd,
        git_branch=row.git_branch,
        model=row.model,
        started_at=iso(row.started_us),
        ended_at=iso(row.ended_us),
        outcome=row.outcome,
        parent_uid=row.parent_uid,
        evicted_at=session.evicted_at,
        is_pinned=row.is_pinned,
    )


def events_of(
    session: OpenSession, numbers: Container[int] | None = None, kinds: Collection[str] = ()
) -> Iterator[Row]:
    """The events in order: all, or those with these numbers and of these kinds."""
    for row in session.rows(raw=False):
        if row.kind is not None and (numbers is None or row.seq in numbers) and (not kinds or row.kind in kinds):
            yield row


def payload_ref(session: OpenSession, row: Row) -> str:
    """The name of the record behind an event, for `source_line`."""
    return f"{_payloads(session)}{row.record_key}"


def source_line(session: OpenSession, wanted: str) -> SourceLine:
    """The line behind an event: by its number, its record's id or a `payload_ref`. NotFoundError says why not."""
    name = wanted.removeprefix(_payloads(session))
    is_number = _NUMBER.fullmatch(name) and abs(int(name)) < 1 << 63
    row = session.record(int(name) if is_number else name)
    if row is not None and row.raw is not None:
        return SourceLine(row.seq, row.record_id, row.line, row.raw.decode("utf-8", "replace"))
    where = "evicted" if session.evicted_at else "not in this session"
    if row is not None:
        where = "kept without its text, which was evicted"
    raise NotFoundError(f"record {wanted!r} is {where}; `helix show {session.row.session_uid}` lists the events")


def _payloads(session: OpenSession) -> str:
    return f"blob://{session.row.session_uid}/"
