"""`helix evict`: shows what would go from the raw cache and why, or evicts it. `keep.evict` does the work."""

from collections.abc import Iterable
from contextlib import closing

import click

from helix_assets.ask.reading import has_store
from helix_assets.cli.output import Column, Table, emit, human_count, human_size, say, to_json
from helix_assets.keep.evict import apply, plan
from helix_assets.keep.retention import Decision, EvictionPlan, by_reason
from helix_assets.settings import load_settings
from helix_assets.store.reserve import give_up_reserve
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep, utc_now

EXIT_NOT_DONE = 1


@click.command()
@click.option("--dry-run", "shows", is_flag=True, help="Show what would go (this is what happens anyway).")
@click.option("--apply", "applies", is_flag=True, help="Evict it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def evict(shows: bool, applies: bool, as_json: bool) -> int:
    """Show which raw bytes would go and why, or evict them with --apply. Digests always stay.

    Exit code 1 means that the raw cache is still above its hard cap, or that files could not be deleted; 75 that
    another process is writing.
    """
    if shows and applies:
        raise click.UsageError("--dry-run and --apply exclude each other")
    settings = load_settings()
    if not applies and not has_store(settings):
        nothing = f"There is no memory in {settings.data_dir} yet, so nothing would go."
        say(to_json({"goes": [], "stays": []}) if as_json else nothing)
        return 0
    if applies:
        give_up_reserve(settings.data_dir)  # on a full disk the catalog could not even be opened
    with closing(open_store(settings)) as store:
        return _apply(store, as_json) if applies else _show(store, as_json)


def _show(store: Store, as_json: bool) -> int:
    made = plan(store, now=utc_now())
    at_risk = plan(store, now=utc_now(), allow_loss=True).losses if made.must_analyze else ()
    tables = [
        _sessions(store, "would go", made.goes),
        _sessions(store, "would be lost if analysis, which --apply tries first, fails for them", at_risk),
        _staying(made),
        _figures(made, made.usage_after),
    ]
    emit(store.shown(made.to_dict() | {"at_risk": at_risk}), as_json, [table for table in tables if table.rows])
    return 0


def _apply(store: Store, as_json: bool) -> int:
    done = apply(store, clock=utc_now, analyze=lambda: sweep(store))
    tables = [_sessions(store, "gone", done.gone), _staying(done.plan), _figures(done.plan, done.usage_after)]
    emit(store.shown(done.to_dict()), as_json, [table for table in tables if table.rows])
    return EXIT_NOT_DONE if done.stuck or done.usage_after > done.plan.hard_cap else 0


def _sessions(store: Store, title: str, decisions: Iterable[Decision]) -> Table:
    columns = [Column("session"), Column("day"), Column("size", "right"), Column("days old", "right"), Column("why")]
    rows = [
        [
            store.shown(d.session_uid),
            d.day,
            human_size(d.bytes),
            f"{d.age_days:.1f}",
            _words(d.reason) + ", LOSS" * d.is_loss,
        ]
        for d in decisions
    ]
    return Table(columns, rows, title)


def _staying(made: EvictionPlan) -> Table:
    columns = [Column("stays because"), Column("sessions", "right"), Column("size", "right")]
    rows = [
        [_words(reason), human_count(total["sessions"]), human_size(total["bytes"])]
        for reason, total in by_reason(made.stays).items()
    ]
    return Table(columns, rows)


def _figures(made: EvictionPlan, usage_after: int) -> Table:
    rows = [
        ["raw cache", f"{human_size(made.usage_before)} before, {human_size(usage_after)} after"],
        [
            "search index",
            human_size(made.index_bytes) + ", alone over the soft cap: raise that" * made.index_over_soft_cap,
        ],
        ["caps", f"soft {human_size(made.soft_cap)}, hard {human_size(made.hard_cap)}"],
        ["digests and facts", human_size(made.memory_bytes) + ", over their cap" * made.memory_over_cap],
    ]
    if made.must_analyze:
        rows.append(["to be analyzed first", human_count(len(made.must_analyze))])
    if made.age_pass_off_because:
        rows.append(["age evicts nothing", made.age_pass_off_because])
    return Table([Column("retention"), Column("")], rows)


def _words(reason: str) -> str:
    return reason.replace("_", " ")
