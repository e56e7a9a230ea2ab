"""The reports as assets: made after digests change, checked, and logging no text of a session to Dagster."""

from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from helix_assets.ask.reports.all_reports import REPORTS
from helix_assets.definitions import defs
from helix_assets.defs.reports import GROUP, RETRO, reports_schedule
from helix_assets.demo import append
from helix_assets.store.catalog import live_files
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.defs.runs import Result, run_job
from helix_assets_tests.home import ask

GROUPED = dg.AssetSelection.groups(GROUP)


def metadata(result: Result) -> dict[str, dict[str, object]]:
    """What each asset logged, by name."""
    events = [event for event in result.all_events if event.is_step_materialization and event.asset_key]
    return {
        str(event.asset_key and event.asset_key.to_user_string()): {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in events
    }


@pytest.fixture
def ran(store: Store, instance: dg.DagsterInstance) -> Result:
    sweep(store)
    return run_job(instance, "reports_job")


def test_a_run_makes_every_report_and_its_files(ran: Result, store: Store) -> None:
    assert ran.success
    assert set(metadata(ran)) == set(REPORTS)
    assert {path.name for path in (store.data_dir / "reports").iterdir()} == set(REPORTS)


def test_every_check_of_the_reports_passes(ran: Result) -> None:
    checks = ran.get_asset_check_evaluations()
    assert {check.check_name for check in checks} == {"nothing_is_left_out", "totals_equal_the_digests"}
    assert all(check.passed for check in checks)


def test_a_check_fails_when_facts_are_damaged(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    file = next(file for file in ask(store, live_files.fact_files) if file.fact == "token_usage")
    store.facts.path(file.name).write_bytes(b"torn")
    checks = run_job(instance, "reports_job").get_asset_check_evaluations()
    failed = {(check.asset_key.to_user_string(), check.check_name) for check in checks if not check.passed}
    assert failed == {("usage_report", "nothing_is_left_out"), ("usage_report", "totals_equal_the_digests")}


def test_pictures_and_tables_are_shown(ran: Result) -> None:
    told = metadata(ran)
    assert str(told["tool_report"]["picture/calls_by_tool"]).startswith("![How calls ended, by tool](data:image/png")
    assert {"table/by_day", "table/by_agent"} <= set(told["usage_report"])
    assert not {"table/by_repo", "table/by_model"} & set(told["usage_report"])


def test_nothing_that_names_a_session_is_logged(ran: Result, store: Store) -> None:
    """No path, repository, id, title or model of the sample home."""
    with store.catalog.reading() as connection:
        rows = connection.tuples("select native_session_id, repo, cwd, title, model from sessions")
    words = {word for row in rows for word in row if word}
    told = repr(metadata(ran))
    assert words
    assert not [word for word in words if word in told]
    assert "/home/" not in told


def test_reports_are_asked_for_once_after_digests_changed(
    store: Store, logs: Path, instance: dg.DagsterInstance
) -> None:
    ask = partial(dg.evaluate_automation_conditions, defs, instance=instance, asset_selection=GROUPED)
    run_job(instance, "sweep")
    first = ask()
    run_job(instance, "reports_job")
    append(logs, share=1.0)
    quiet = ask(cursor=first.cursor)
    run_job(instance, "sweep")
    grown = ask(cursor=quiet.cursor)
    assert (first.total_requested, quiet.total_requested, grown.total_requested) == (len(REPORTS), 0, len(REPORTS))
    assert ask(cursor=grown.cursor).total_requested == 0


def test_a_run_that_finds_the_store_in_use_ends_well(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(store)
    patient = partial(writer_lock, wait_s=0.1)
    monkeypatch.setattr("helix_assets.keep.writing.writer_lock", lambda folder, what, wait_s: patient(folder, what))
    with writer_lock(store.data_dir, "test"):
        result = run_job(instance, "reports_job")
    assert result.success
    assert metadata(result) == {}


def test_the_schedule_finishes_the_week_of_yesterday() -> None:
    from datetime import UTC, datetime

    request = reports_schedule(dg.build_schedule_context(scheduled_execution_time=datetime(2026, 6, 8, 4, tzinfo=UTC)))
    assert isinstance(request, dg.RunRequest)
    assert request.run_config["ops"][RETRO]["config"]["until"] == "2026-06-07"


@pytest.mark.parametrize(("since", "until"), [("2026-06-05", "2026-06-01"), ("soon", None)])
def test_days_that_make_no_sense_fail_the_run(
    store: Store, instance: dg.DagsterInstance, since: str, until: str | None
) -> None:
    sweep(store)
    days = {"since": since} | ({"until": until} if until else {})
    result = run_job(instance, "reports_job", run_config={"ops": {"usage_report": {"config": days}}})
    assert not result.success
