"""The reports as assets: made after digests change, checked, and logging no text of a session to Dagster."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dagster as dg
import duckdb
import pytest
from dagster_duckdb import DuckDBResource

from helix_assets.ask.reports.all_reports import REPORTS
from helix_assets.ask.views import Views, with_views
from helix_assets.definitions import defs
from helix_assets.defs.build import build_defs
from helix_assets.defs.reports import GROUP, RETRO, reports_schedule
from helix_assets.demo import append
from helix_assets.model.errors import SettingsError
from helix_assets.store.catalog import live_files, meta
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import MEMORY_REDACTED, RULES_STAMP, Store
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


def test_a_run_between_new_redaction_rules_and_their_sweep_ends_well_and_makes_nothing(
    store: Store, instance: dg.DagsterInstance
) -> None:
    sweep(store)
    with store.catalog.writing() as connection:
        meta.put(connection, MEMORY_REDACTED, "older")
        meta.put(connection, RULES_STAMP, "of older rules")
    result = run_job(instance, "reports_job")
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert (result.success, run.tags["helix/outcome"], metadata(result)) == (True, "withheld", {})


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


OPENED = list[duckdb.DuckDBPyConnection]()


class Watched(DuckDBResource):
    """DuckDB as another project may configure it; notes its connections."""

    @contextmanager
    def get_connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with super().get_connection() as connection:
            OPENED.append(connection)
            yield connection


def is_closed(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        connection.execute("select 1")
    except duckdb.ConnectionException:
        return True
    return False


def test_reports_reach_duckdb_by_its_resource(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    OPENED.clear()
    job = build_defs(duckdb=Watched(database=":memory:")).resolve_job_def("reports_job")
    assert job.execute_in_process(instance=instance).success
    with_totals = [name for name, kind in REPORTS.items() if kind.totals]
    assert len(OPENED) == len(REPORTS) + len(with_totals)
    assert all(map(is_closed, OPENED))


def test_a_connection_of_the_resource_can_read_the_live_files_alone(store: Store, tmp_path: Path) -> None:
    sweep(store)
    other = tmp_path / "other.csv"
    other.write_text("a")
    wide = {"temp_directory": str(tmp_path), "memory_limit": "100GB", "autoload_known_extensions": True}
    resource = Watched(database=":memory:", connection_config=wide)

    def look(views: Views) -> list[str]:
        ask = views.connection.execute
        assert (ask("select count(*) from tool_calls").fetchone() or (0,))[0] > 0
        for query in (f"from read_csv('{other}')", f"copy (select 1) to '{tmp_path}/out.csv'", "install httpfs",
                      f"attach '{tmp_path}/other.db'", "set memory_limit = '100GB'"):  # fmt: skip
            with pytest.raises((duckdb.PermissionException, duckdb.InvalidInputException)):
                ask(query)
        wanted = "('memory_limit', 'temp_directory', 'enable_external_access')"
        limits = ask(f"select value from duckdb_settings() where name in {wanted} order by name")
        return [value for (value,) in limits.fetchall()]

    assert with_views(store, ["tool_calls"], look, connect=resource.get_connection) == ["false", "1.0 GiB", ""]


def test_reports_are_not_computed_in_a_file(store: Store, tmp_path: Path) -> None:
    sweep(store)
    OPENED.clear()
    resource = Watched(database=str(tmp_path / "reports.duckdb"))
    with pytest.raises(SettingsError, match=":memory:"):
        with_views(store, ["tool_calls"], lambda _: None, connect=resource.get_connection)
    assert [is_closed(connection) for connection in OPENED] == [True]
