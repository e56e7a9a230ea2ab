"""The tables that kaizen makes of digests and executions: Parquet in `kaizen/` of the data folder, rewritten each time.

Belongs here: the list of tables, how rows are made, writing and dropping tables. They can always be rebuilt, so
whatever erases or redacts just drops them. Not here: the join and the figures (`kaizen.executions`,
`kaizen.scorecard`).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from helix_assets.ask.closing_env import tokens_of
from helix_assets.ask.reading import sound_digests
from helix_assets.derive.overhead import infra_overhead_share
from helix_assets.kaizen.executions import Correlation, Link, SessionSpan, correlate
from helix_assets.kaizen.metrics import read_executions
from helix_assets.kaizen.scorecard import Score, scores
from helix_assets.model.digest import Digest
from helix_assets.model.time import iso, microseconds_of
from helix_assets.store.durable import replace_file
from helix_assets.store.store import Store

FOLDER = "kaizen"
CORRELATED, UNMATCHED, SCORECARD = "correlated_executions", "unmatched_sessions", "agent_scorecard"


@dataclass(frozen=True)
class CorrelatedRow:
    """An execution with its session. The session's columns are null if none was found."""

    project: str
    agent: str
    place: str
    repo: str
    started_at: str | None
    ended_at: str | None
    success: bool | None
    reported_tokens: int | None
    link: str | None
    session_uid: str | None
    flavor: str | None = None
    outcome: str | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    infra_overhead_share: float | None = None
    errors: int | None = None
    tool_errors: int | None = None


@dataclass(frozen=True)
class UnmatchedSession:
    """A session of a project's repository that no execution refers to."""

    session_uid: str
    flavor: str
    repo: str | None
    started_at: str | None
    outcome: str


def write_correlated(store: Store) -> Correlation:
    """Join executions and digests and write both tables. Needs the writer lock."""
    executions = list(read_executions(store))
    repos = {execution.repo for execution in executions}
    named = {execution.session_uid for execution in executions}
    # The other digests are not needed, and there may be many thousands.
    known = sound_digests(store) if executions else ()
    kept = {d.session_uid: d for d in known if d.repo in repos or d.session_uid in named}
    spans = [
        SessionSpan(uid, d.repo, microseconds_of(d.started_at), microseconds_of(d.ended_at)) for uid, d in kept.items()
    ]
    found = correlate(executions, spans)
    tools = store.settings.kaizen.infra_tools
    rows = [_correlated(link, kept.get(link.uid or ""), tools) for link in found.links]
    alone = [
        UnmatchedSession(**{field.name: getattr(kept[uid], field.name) for field in fields(UnmatchedSession)})
        for uid in found.unmatched_sessions
    ]
    _write(store, CORRELATED, CorrelatedRow, rows)
    _write(store, UNMATCHED, UnmatchedSession, alone)
    return found


def write_scorecard(store: Store) -> list[Score]:
    """Score agents by repository and week and write the table and a page of it. Needs the writer lock."""
    found = scores(sound_digests(store), store.settings.kaizen.infra_tools)
    _write(store, SCORECARD, Score, found)
    replace_file(folder_of(store.data_dir) / f"{SCORECARD}.md", as_markdown(found).encode())
    return found


def drop_tables(data_dir: Path) -> None:
    """Remove all tables. The next run of their assets rebuilds them."""
    shutil.rmtree(data_dir / FOLDER, ignore_errors=True)


def folder_of(data_dir: Path) -> Path:
    """The folder of the tables, created if it does not exist."""
    folder = data_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def as_markdown(found: Sequence[Score]) -> str:
    """The scorecard as a page, the newest week first."""
    lines = ["# Agents by repository and week", "", "Success: of the sessions whose outcome is known, with the 95 % "
             "interval; trend: against the four weeks before.", ""]  # fmt: skip
    for week in sorted({score.week for score in found}, reverse=True):
        lines += [
            f"## Week of {week}",
            "",
            "| agent | repository | sessions | success | interval | trend | $ per success | retries | interventions "
            "| tests passed | infra overhead |",
            "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            *(_markdown_row(score) for score in found if score.week == week),
            "",
        ]
    return "\n".join(lines)


def _markdown_row(score: Score) -> str:
    low, high = score.success_low, score.success_high
    interval = "" if low is None or high is None else f"{low:.0%} to {high:.0%}"
    trend = "" if score.trend is None else f"{100 * score.trend:+.0f} pp"
    dollars = "" if score.cost_per_success is None else f"{score.cost_per_success:.2f}"
    cells = [score.agent, _cell(score.repo), str(score.sessions), _percent(score.success_rate), interval, trend,
             dollars, str(score.retries), str(score.interventions), _percent(score.test_pass_rate),
             _percent(score.infra_overhead_share)]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _cell(name: str) -> str:
    """A repository's name as plain text of a cell, without links, pictures or markup."""
    plain = "".join(char for char in name if char.isprintable() and char not in "|`<>[]()!*_\\")
    return f"`{plain}`" if plain.strip() else ""


def _correlated(link: Link, digest: Digest | None, infra_tools: Sequence[str]) -> CorrelatedRow:
    execution = link.execution
    row = CorrelatedRow(
        project=execution.project,
        agent=execution.agent,
        place=execution.place,
        repo=execution.repo,
        started_at=iso(execution.start_us),
        ended_at=iso(execution.end_us),
        success=execution.success,
        reported_tokens=execution.tokens,
        link=link.by,
        session_uid=link.uid,
    )
    if digest is None:
        return row
    return replace(
        row,
        flavor=digest.flavor,
        outcome=digest.outcome,
        tokens=tokens_of(digest),
        cost_usd=digest.cost_usd,
        infra_overhead_share=infra_overhead_share(digest.tool_histogram, infra_tools),
        errors=digest.kind_counts.get("error", 0),
        tool_errors=digest.tool_errors,
    )


def _write(store: Store, name: str, kind: type[Any], rows: Sequence[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    columns = {}
    values = [asdict(row) for row in rows]
    for column, hint in get_type_hints(kind).items():
        plain = next(part for part in getattr(hint, "__args__", (hint,)) if part is not type(None))
        columns[column] = pa.array([row[column] for row in values], types[plain])
    memory = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), memory, compression="zstd")
    replace_file(folder_of(store.data_dir) / f"{name}.parquet", memory.getvalue().to_pybytes())
