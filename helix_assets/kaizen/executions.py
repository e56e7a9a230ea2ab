"""Executions that projects record about their own agents, and which session each of them belongs to.

Belongs here: reading a record whatever its fields are called, and the join. Pure. Not here: the files of records
(`kaizen.metrics`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from helix_assets.model.time import SECOND_US, microseconds

GRACE_US = 10 * 60 * SECOND_US
"""Metrics are recorded when a session closes: an execution still belongs to a session this long after its end."""
_STARTS = ("started_at", "start_time", "start", "began_at")
_ENDS = ("ended_at", "end_time", "finished_at", "completed_at", "end")
_MOMENTS = ("timestamp", "recorded_at", "ts", "time", "date")
_SECONDS = ("duration_s", "duration_seconds", "execution_time_s", "execution_time", "duration", "elapsed_s")
_VERDICTS = ("success", "succeeded", "outcome", "status", "result")
_WORDS = {"success": True, "succeeded": True, "ok": True, "pass": True, "passed": True, "completed": True, "done": True,
          "fail": False, "failed": False, "failure": False, "error": False, "aborted": False}  # fmt: skip


@dataclass(frozen=True)
class Execution:
    """One record of a project about one of its agents; what it does not contain is None."""

    project: str
    agent: str
    place: str
    session_uid: str | None
    repo: str
    start_us: int | None
    end_us: int | None
    success: bool | None
    tokens: int | None


@dataclass(frozen=True)
class SessionSpan:
    """What decides whether an execution belongs to a session."""

    uid: str
    repo: str | None
    start_us: int | None
    end_us: int | None


@dataclass(frozen=True)
class Link:
    """An execution with its session. `by` is "reference", or "inferred" by repository and time."""

    execution: Execution
    uid: str | None
    by: str | None


@dataclass(frozen=True)
class Correlation:
    """Every execution, linked or not, and the sessions of these projects that no execution refers to."""

    links: tuple[Link, ...]
    unmatched_sessions: tuple[str, ...]

    @property
    def rate(self) -> float | None:
        """The share of executions that have a session; None without executions."""
        return sum(link.uid is not None for link in self.links) / len(self.links) if self.links else None


def read_execution(record: Mapping[str, Any], project: str, agent: str, place: str) -> Execution:
    """Read an execution from a record whose fields may have several names. A malformed field counts as missing."""
    start, end = _moment(record, _STARTS), _moment(record, _ENDS)
    at, seconds = _moment(record, _MOMENTS), _seconds(record)
    end = end if end is not None else at if start is None or seconds is None else start + seconds
    start = start if start is not None else end - (seconds or 0) if end is not None else None
    uid, repo = record.get("helix_session_uid"), record.get("repo") or record.get("helix_repo")
    return Execution(
        project=project,
        agent=agent,
        place=place,
        session_uid=uid if isinstance(uid, str) and uid else None,
        repo=repo if isinstance(repo, str) else project,
        start_us=start,
        end_us=end,
        success=_verdict(record),
        tokens=_count(record.get("tokens")),
    )


def correlate(executions: Iterable[Execution], sessions: Sequence[SessionSpan]) -> Correlation:
    """Link by reference, else to the session of the same repository that shares the most time with it.

    A reference to an unknown session stays unmatched: it means none of the sessions here.
    """
    known = {session.uid for session in sessions}
    by_repo: dict[str | None, list[SessionSpan]] = defaultdict(list)
    for session in sessions:
        by_repo[session.repo].append(session)
    links, repos = [], set()
    for execution in executions:
        repos.add(execution.repo)
        if execution.session_uid is not None:
            uid = execution.session_uid if execution.session_uid in known else None
            links.append(Link(execution, uid, "reference" if uid else None))
        else:
            uid = _inferred(execution, by_repo[execution.repo])
            links.append(Link(execution, uid, "inferred" if uid else None))
    linked = {link.uid for link in links}
    alone = sorted(session.uid for repo in repos for session in by_repo[repo] if session.uid not in linked)
    return Correlation(tuple(links), tuple(alone))


def _inferred(execution: Execution, candidates: Sequence[SessionSpan]) -> str | None:
    start, end = execution.start_us, execution.end_us
    if start is None or end is None:
        return None
    shared = []
    for session in candidates:
        if session.start_us is None or session.end_us is None:
            continue
        if start <= session.end_us + GRACE_US and end >= session.start_us:
            overlap = min(end, session.end_us) - max(start, session.start_us)
            shared.append((overlap, session.start_us, session.uid))
    return max(shared)[2] if shared else None


def _moment(record: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            moment = _of_number(float(value))
        else:
            moment = _of_text(value) if isinstance(value, str) else None
        if moment is not None:
            return moment
    return None


def _of_text(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        return microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _of_number(value: float) -> int | None:
    """Seconds or milliseconds since 1970, whichever gives a plausible year."""
    seconds = value / 1000 if value > 1e11 else value
    return int(seconds * SECOND_US) if 1e9 <= seconds < 1e10 else None


def _seconds(record: Mapping[str, Any]) -> int | None:
    """How long it took, in microseconds."""
    for name, unit in (*((name, SECOND_US) for name in _SECONDS), ("duration_ms", 1000)):
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < timedelta.max.days:
            return int(value * unit)
    return None


def _verdict(record: Mapping[str, Any]) -> bool | None:
    for name in _VERDICTS:
        value = record.get(name)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _WORDS:
            return _WORDS[value.lower()]
    return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None
