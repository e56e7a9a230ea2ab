"""One session's part of a sweep: read its files, redact, order, derive, write one part file, digest.

Runs in a worker process and touches only the sources (read-only) and the staging folder; `sweep.sweep` publishes the
result. Belongs here: the runs that a task takes until one fits, and their result. Not here: which files changed.
"""

from __future__ import annotations

from dataclasses import replace

from helix_assets.agents.repositories import repository_root
from helix_assets.agents.roles import ONE_RECORD, TEXT
from helix_assets.agents.spec import JsonObject, SessionFacts
from helix_assets.derive.digest_builder import SessionHead
from helix_assets.derive.places import PlaceRules, place_of
from helix_assets.model.digest import Digest
from helix_assets.model.errors import RetryLater
from helix_assets.model.facts import SessionFactRows
from helix_assets.model.identity import utf8_name
from helix_assets.redaction.again import value_again
from helix_assets.store.catalog.session_keys import SessionKeys
from helix_assets.sweep.session_run import Incomplete, OutOfOrder, SessionRun
from helix_assets.sweep.source import Rewritten, Source
from helix_assets.sweep.task import BEFORE_TIME, Ingested, IngestTask, Workshop

_READ_TRIES = 3


def ingest(task: IngestTask, shop: Workshop) -> Ingested:
    """Bring one session up to date. An append that does not fit becomes a rewrite."""
    if task.is_bare:
        task = replace(_as_rewrite(task), facts=task.facts)
    for _ in range(_READ_TRIES):
        try:
            return _ingest(task, shop)
        except Rewritten:
            files = (replace(f, offset=0, line=1, order_us=BEFORE_TIME, state=None, read_hash=None) for f in task.files)
            task = replace(_as_rewrite(task), files=tuple(files), facts=SessionFacts(), started_us=None, ended_us=None)
    raise RetryLater("a file was rewritten each time it was read; the next sweep tries again")


def _ingest(task: IngestTask, shop: Workshop) -> Ingested:
    try:
        run = _last_versions(task, shop)
    except OutOfOrder:
        run = _last_versions(_as_rewrite(task), shop)
    except Incomplete:
        run = _last_versions(_as_merge(task), shop)
    try:
        return _result(run, shop)
    except BaseException:
        run.discard()
        raise


def _last_versions(task: IngestTask, shop: Workshop) -> SessionRun:
    """A run in which the last of several versions of a record counts."""
    run = _run(task, shop, {})
    if run.changed:
        run.discard()
        run = _run(_as_rewrite(task), shop, run.sightings_of_changed())
    return run


def _as_merge(task: IngestTask) -> IngestTask:
    """The task as one that only adds what was not counted before to what is stored and kept."""
    earlier = task.earlier
    if earlier is None:
        raise ValueError("nothing was evicted of this session")
    return replace(
        task,
        merges=True,
        append=True,
        files=tuple(replace(file, state=earlier.state or file.state) for file in task.files),
        last_row=earlier.last_row,
        facts=earlier.facts,
        started_us=earlier.started_us,
        ended_us=earlier.ended_us,
        unparsed=earlier.unparsed,
    )


def _as_rewrite(task: IngestTask) -> IngestTask:
    """The task as one that replaces what is stored, unless it is a merge."""
    if task.merges:
        return task
    task = replace(task, append=False, facts=task.facts.of_first_lines(), unparsed=0)
    if task.not_ours and (not task.files or any(file.offset for file in task.files)):
        return task  # copied history before those offsets is not read again, but sets the session's start and folder
    return replace(task, facts=SessionFacts(), started_us=None, ended_us=None)


def _run(task: IngestTask, shop: Workshop, last_sighting: dict[int, int]) -> SessionRun:
    run = SessionRun(task, shop, last_sighting)
    try:
        run.run()
    except BaseException:
        run.discard()
        raise
    return run


def _result(run: SessionRun, shop: Workshop) -> Ingested:
    sources = run.sources
    if run.task.merges and run.task.earlier is not None and not run.has_counted:
        run.facts = run.task.earlier.facts  # nothing new was read about the session
    run.settle_start()
    if not run.task.is_bare:
        run.facts.cwd = run.facts.cwd or _cwd_of_path(run, shop)
        run.facts.repo_root = _repository(run, shop)
        _settle_times(run)
    unparsed = sum(s.unparsed for s in sources) + run.unparsed_before
    part, folded = run.finish_part(), run.fold()
    digest, fact_rows, keys, failure = digest_of(run, shop.places, unparsed)
    cursors = [c for s in sources if (c := s.cursor(_next_state(run, s, shop)))]
    return Ingested(
        task=run.task,
        part=part,
        cursors=cursors,
        facts=run.facts,
        started_us=run.started_us,
        ended_us=run.ended_us,
        last_row=run.last_row,
        digest=digest,
        failure=failure,
        problems=[p for s in sources for p in s.all_problems()],
        bad_lines=sum(s.unparsed for s in sources),
        unparsed=unparsed,
        lines=sum(s.lines for s in sources),
        objects=sum(s.objects for s in sources),
        bytes_read=sum(s.bytes_read for s in sources),
        redactions=sum(s.redactions for s in sources),
        withheld=sum(s.withheld for s in sources) + run.withheld,
        shareable=sorted(run.shareable),
        message_ids=run.message_ids,
        fact_rows=fact_rows,
        outlived=frozenset(file.rank for file in run.task.files) if run.task.merges else frozenset(run.outlived),
        keys=keys,
        evicted=len(run.evicted),
        light=len(run.light),
        folded=folded,
        derived=run.derived() if digest is not None else None,
    )


def _next_state(run: SessionRun, source: Source, shop: Workshop) -> JsonObject | None:
    """The state for the next append. A bad document has none, so that it is counted again when it changes."""
    is_bad = source.task.role in ONE_RECORD and source.unparsed
    state = None if is_bad else run.parser_state(source.task.rank)
    if source.task.role != TEXT or state is None:
        return state
    return {"parser": state, "splitter": value_again(shop.redactor, source.split)}


def _settle_times(run: SessionRun) -> None:
    """Set start and end: copied history does not count, and lines without times leave those the log itself states."""
    facts = run.facts
    for seen_us in (source.seen_us for source in run.sources if source.seen_us is not None):
        run.started_us = seen_us if run.started_us is None else min(run.started_us, seen_us)
        run.ended_us = max(run.ended_us or seen_us, seen_us)
    if run.started_us is None:
        run.started_us, run.ended_us = facts.said_start_us, facts.said_end_us
    elif facts.own_since_us is not None:
        run.started_us = max(run.started_us, facts.own_since_us)
        run.ended_us = max(run.ended_us or run.started_us, run.started_us)


def _cwd_of_path(run: SessionRun, shop: Workshop) -> str | None:
    """The working folder from the path, if no record names it."""
    for source in run.sources:
        if cwd := run.adapter.cwd_from_head(source.task.path, b""):
            return shop.redactor.text(utf8_name(cwd)).text
    return None


def _repository(run: SessionRun, shop: Workshop) -> str | None:
    """The root of the working folder's repository, as it was when the session was first read."""
    cwd, known = run.facts.cwd, run.task.known_root
    if known is not None and known[0] == cwd:
        return known[1]
    root = repository_root(cwd) if cwd else None
    return shop.redactor.text(utf8_name(root)).text if root else None


def digest_of(
    run: SessionRun, places: PlaceRules, unparsed: int
) -> tuple[Digest | None, SessionFactRows, SessionKeys, str | None]:
    """Digest, facts and the keys that they count, or the reason why there are none."""
    if run.failure is not None:
        return None, {}, SessionKeys(), run.failure
    try:
        head = session_head(run.task.session_uid, run.task.flavor, run.facts, places, run.digests.first_prompt)
        head = replace(
            head,
            started_us=run.started_us,
            ended_us=run.ended_us,
            generation=run.task.generation,
            unparsed_lines=unparsed,
        )
        rows = run.fact_builder.finish(run.digests.counted_usage(), run.digests.signal_rows())
        head = replace(head, facts={fact: len(made) for fact, made in rows.items()})
        return run.digests.finish(head), rows, run.keys(), None
    except Exception as exc:  # noqa: BLE001 - as above
        return None, {}, SessionKeys(), f"{type(exc).__name__} while the digest was built"


def session_head(
    session_uid: str, flavor: str, facts: SessionFacts, places: PlaceRules, first_prompt: str | None
) -> SessionHead:
    """The session as its own lines describe it, with repository and domain by the user's map."""
    place = place_of(places, facts.cwd, facts.repo_root, facts.git_branch, facts.title, first_prompt)
    return SessionHead(
        session_uid=session_uid,
        flavor=flavor,
        repo=place.repo,
        domain=place.domain,
        title=facts.title,
        cwd=facts.cwd,
        git_branch=facts.git_branch,
        task_ref=place.task_ref,
        parent_uid=f"{flavor}:{facts.parent_native_id}" if facts.parent_native_id else None,
        started_us=None,
        ended_us=None,
        generation=0,
        unparsed_lines=0,
    )
