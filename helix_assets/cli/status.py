"""`helix status`: what the memory contains and what went wrong. `ask.status` does the counting."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict

import click

from helix_assets.ask.reading import has_store, open_existing
from helix_assets.ask.status import (
    TOKEN_KINDS,
    AgentFigures,
    BadPlace,
    Held,
    LastSweep,
    Status,
    figures_by_agent,
    read_status,
)
from helix_assets.ask.withheld import Withheld
from helix_assets.cli.output import Column, Table, emit, human_count, human_size, say
from helix_assets.keep.backup import Copy, copies
from helix_assets.prove.drift import Tally, drift_of
from helix_assets.prove.vanishing import Vanishing, vanishing
from helix_assets.settings import Settings, load_settings
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def status(as_json: bool) -> None:
    """Show what the memory contains, its caps, and what went wrong."""
    settings = load_settings()
    if not has_store(settings):
        _print_empty(settings, as_json)
        return
    with closing(open_existing(settings)) as store:
        found = read_status(store)
        soon = vanishing(store, utc_now())
        drifts = {flavor: drift for flavor, drift in drift_of(store).items() if drift.types}
        if found.withheld.digests:
            drifts = {}  # their types are named by the logs
    unknown = {flavor: dict(drift.types) for flavor, drift in drifts.items()}
    versions = {flavor: drift.versions_with_unknown() for flavor, drift in drifts.items()}
    copy = next(reversed(copies(settings)), None)
    tables = [_store(found), _last_copy(copy), agents_table(found.agents), *_attention(found), *_deadline(soon)]
    tables += [*_unknown_types(unknown), *_odd_versions(versions)]
    drift = {"unknown_types": unknown, "unknown_by_version": versions}
    emit({**asdict(found), "vanishing": asdict(soon), "backup": copy, **drift}, as_json, tables)


def _print_empty(settings: Settings, as_json: bool) -> None:
    if as_json:
        emit({"data_dir": settings.data_dir, "agents": []}, as_json=True)
    else:
        say(f"There is no memory in {settings.data_dir} yet: `helix sweep` reads the agents' logs into it.")


def _store(found: Status) -> Table:
    usage, versions = found.usage, found.versions
    caps = f"soft cap {human_size(usage.raw_soft_cap_bytes)}, hard cap {human_size(usage.raw_hard_cap_bytes)}"
    rows = [
        ["store", found.data_dir],
        ["raw cache", f"{human_size(usage.raw_bytes)} ({caps})"],
        ["digests and facts", f"{human_size(usage.distilled_bytes)} (cap {human_size(usage.distilled_cap_bytes)})"],
        ["source files", ", ".join(f"{human_count(n)} {name}" for name, n in sorted(found.sources.items())) or "none"],
        ["last sweep with news", _last_sweep(found.last_sweep)],
        ["writer now", found.writer or "none"],
        ["catalog version", str(versions.catalog)],
        *([f"parser of {flavor}", _held(held)] for flavor, held in versions.parsers.items()),
        ["digest rules", _held(versions.derivation)],
        ["redaction rules", _held(versions.redaction)],
        *_withheld(found.withheld),
    ]
    return Table([Column("memory"), Column("")], rows)


def _unknown_types(unknown: dict[str, dict[str, int]]) -> list[Table]:
    """Record types that the parsers do not know yet. They are kept whole, and mean that a format has changed."""
    rows = [
        [flavor, name, human_count(count)]
        for flavor, types in unknown.items()
        for name, count in sorted(types.items(), key=lambda item: -item[1])
    ]
    columns = [Column("agent"), Column("record type not known yet"), Column("records, kept", "right")]
    return [Table(columns, rows)] if rows else []


def _odd_versions(versions: Mapping[str, Mapping[str, Tally]]) -> list[Table]:
    """Which versions of the agents write such types."""
    rows = [
        [flavor, version, human_count(tally.unknown), human_count(tally.records)]
        for flavor, tallies in versions.items()
        for version, tally in tallies.items()
    ]
    columns = [Column("agent"), Column("of version"), Column("of a type not known yet", "right")]
    return [Table([*columns, Column("of all records", "right")], rows)] if rows else []


def _last_copy(copy: Copy | None) -> Table:
    """How old the newest proven copy is."""
    if copy is None:
        return Table([Column("last copy"), Column("")], [["none", "`helix backup` makes one"]])
    hours = copy.age(utc_now()).total_seconds() / 3600
    return Table([Column("last copy"), Column("")], [[copy.made_at, f"{hours:.0f} h old, {human_size(copy.bytes)}"]])


def _withheld(found: Withheld) -> list[list[str]]:
    """How many sessions readers withhold because of new redaction rules; nothing once sweeps are through."""
    if not found.texts:
        return []
    what = "sessions" if found.digests else "sessions' texts"
    count = f"{human_count(found.texts)} of {human_count(found.sessions)}"
    return [["withheld", f"{count} {what} withheld until the next sweep (new redaction rules): run `helix sweep`"]]


def tables_by_agent(store: Store) -> list[Table]:
    """The table of a memory that has any sessions."""
    agents = figures_by_agent(store.catalog, store.key)
    return [agents_table(agents)] if agents else []


def agents_table(agents: Sequence[AgentFigures]) -> Table:
    """Sessions, events, bytes and tokens by agent."""
    names = ["sessions", "evicted", "events", "stored", "logs", *(kind.replace("_", " ") for kind in TOKEN_KINDS)]
    columns = [Column("agent"), *(Column(name, "right") for name in names)]
    return Table(columns, [_agent_row(agent) for agent in agents])


def _agent_row(agent: AgentFigures) -> list[str]:
    counts = [human_count(number) for number in (agent.sessions, agent.evicted, agent.events)]
    sizes = [human_size(agent.raw_bytes), human_size(agent.source_bytes)]
    return [agent.flavor, *counts, *sizes, *(human_count(agent.tokens[kind]) for kind in TOKEN_KINDS)]


def _last_sweep(sweep: LastSweep | None) -> str:
    if sweep is None:
        return "none"
    sessions = human_count(int(sweep.counters.get("sessions_touched", 0)))
    return f"{sweep.ended_at}, {sessions} sessions in {sweep.seconds or 0:.1f} s"


def _held(version: Held) -> str:
    current = version.current
    held = ", ".join(f"{human_count(count)} at {name}" for name, count in sorted(version.sessions.items())) or "none"
    return f"{current} (sessions: {held})" if current is not None else f"sessions: {held}"


def _attention(found: Status) -> list[Table]:
    """What a person may want to act on; nothing if all is well."""
    trouble, usage = found.trouble, found.usage
    counts = [
        ("sessions without an up-to-date digest; the next sweep tries again", trouble.uncovered),
        ("sessions that failed to be read or digested", trouble.failed_count),
        ("digests that are damaged: `helix verify` names them", sum(agent.damaged for agent in found.agents)),
        ("sessions lost before they were digested", trouble.lost_sessions),
        ("source files that vanished before they were read", trouble.never_read),
        ("places in the logs that could not be read", trouble.problem_count),
        ("records withheld because they could not be redacted", trouble.records_withheld),
    ]
    rows = [[human_count(count), what] for what, count in counts if count]
    if usage.raw_bytes > usage.raw_soft_cap_bytes:
        rows.append(["!", "the raw cache is over its soft cap: `helix evict --dry-run` shows what would go"])
    if usage.distilled_bytes > usage.distilled_cap_bytes:
        rows.append(["!", "digests and facts are over their cap; they are never dropped: raise distilled_cap_bytes"])
    tables = [Table([Column("", "right"), Column("look at")], rows)] if rows else []
    failed = [
        [item.session_uid, item.failure, human_count(item.failures), item.retry_at or ""] for item in trouble.failed
    ]
    if failed:
        columns = [Column("failed session"), Column("reason"), Column("tries", "right"), Column("tried again")]
        tables.append(Table(columns, failed))
    places = [[_place(item), item.reason] for item in trouble.problems]
    if places:
        tables.append(Table([Column("newest problems"), Column("reason")], places))
    return tables


def _deadline(soon: Vanishing) -> list[Table]:
    """Logs that their agent will soon delete; nothing if all of them have been read."""
    if not soon.due:
        return []
    what = f"logs ({human_size(soon.due_bytes)}) not read yet; their agent deletes them from {soon.first_due} on"
    return [Table([Column("", "right"), Column("soon lost")], [[human_count(soon.due), f"{what}: run `helix sweep`"]])]


def _place(problem: BadPlace) -> str:
    return f"{problem.path}:{problem.line}" if problem.line else problem.path
