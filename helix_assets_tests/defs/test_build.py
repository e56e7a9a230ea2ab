"""What Dagster finds when it loads the definitions."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from helix_assets.ask.reports.all_reports import REPORTS
from helix_assets.definitions import defs
from helix_assets.defs.build import build_defs
from helix_assets.defs.resources import StoreResource
from helix_assets_tests.conftest import CHECKOUT

_LOAD = """
import sys
opened = []
def hook(event, args):
    # The import system itself lists the folders of sys.path.
    if event in ("open", "os.mkdir", "sqlite3.connect", "socket.connect"):
        opened.append(str(args[0]))
sys.addaudithook(hook)
from helix_assets.definitions import defs
defs.get_repository_def()
code = (sys.prefix, sys.base_prefix, sys.argv[1], "/usr", "/proc", "/sys", "/etc", "/lib", "/dev/null", "/dev/urandom")
print([path for path in opened if not path.startswith(code) and not path.isdigit() and "/" in path])
print(sorted({"pyarrow", "matplotlib", "pandas"} & sys.modules.keys()))
"""


def test_the_assets_are_the_designs() -> None:
    nodes = defs.resolve_asset_graph().asset_nodes
    groups = {node.key.to_user_string(): node.group_name for node in nodes}
    assert groups == {
        "source_files": "tier0_source",
        "session_events": "tier1_raw_cache",
        "session_digests": "tier2_memory",
        "retention_report": "tier2_memory",
        "kaizen/project_metrics": "kaizen",
        "kaizen/correlated_executions": "kaizen",
        "kaizen/agent_scorecard": "kaizen",
        **dict.fromkeys(REPORTS, "reports"),
    }
    assert all(node.owners and node.kinds and node.description and node.code_version for node in nodes)


def test_everything_in_the_ui_has_a_description() -> None:
    repository, graph = defs.get_repository_def(), defs.resolve_asset_graph()
    named = [*repository.sensor_defs, *repository.schedule_defs, *repository.get_all_jobs()]
    told = {one.name: one.description for one in named if one.name != "__ASSET_JOB"}
    told |= {str(node.key): node.description for node in graph.asset_nodes}
    told |= {str(key): graph.get_check_spec(key).description for key in graph.asset_check_keys}
    assert {name for name, words in told.items() if not (words or "").strip()} == set()


def test_kinds_say_what_an_asset_reads_writes_and_draws_with() -> None:
    kinds = {node.key.to_user_string(): set(node.kinds) for node in defs.resolve_asset_graph().asset_nodes}
    assert kinds == {
        "source_files": {"file", "json"},
        "session_events": {"parquet"},
        "session_digests": {"sqlite", "parquet"},
        "retention_report": {"sqlite", "matplotlib"},
        "kaizen/project_metrics": {"json", "sqlite"},
        "kaizen/correlated_executions": {"parquet"},
        "kaizen/agent_scorecard": {"parquet", "matplotlib"},
        **{name: {"duckdb", "parquet", "matplotlib"} for name in REPORTS},
    }


def test_data_flows_from_source_to_report() -> None:
    graph = defs.resolve_asset_graph()
    parents = {
        key.to_user_string(): {parent.to_user_string() for parent in graph.get(key).parent_keys}
        for key in graph.get_all_asset_keys()
    }
    assert parents == {
        "source_files": set(),
        "session_events": {"source_files"},
        "session_digests": {"session_events"},
        "retention_report": {"session_digests"},
        "kaizen/project_metrics": {"session_digests"},
        "kaizen/correlated_executions": {"kaizen/project_metrics", "session_digests"},
        "kaizen/agent_scorecard": {"session_digests"},
        **{name: {"session_digests"} for name in REPORTS},
    }


def test_the_checks_state_facts() -> None:
    checks = {(key.asset_key.to_user_string(), key.name) for key in defs.resolve_asset_graph().asset_check_keys}
    assert checks == {
        ("source_files", "logs_read_before_they_are_deleted"),
        ("session_events", "raw_cache_within_budget"),
        ("session_events", "no_secret_survives_in_raw_cache"),
        ("session_events", "few_lines_unparsed"),
        ("session_digests", "every_evicted_session_has_a_covering_digest_or_a_loss_record"),
        ("session_digests", "token_totals_add_up"),
        ("session_digests", "prices_known"),
        ("session_digests", "every_session_is_derived"),
        ("session_digests", "digests_at_current_version"),
        ("session_digests", "memory_within_its_cap"),
        ("retention_report", "no_evicted_session_has_a_file_left"),
        ("kaizen/correlated_executions", "executions_find_their_sessions"),
        *((name, "nothing_is_left_out") for name in REPORTS),
        *((name, "totals_equal_the_digests") for name in ("test_report", "tool_report", "usage_report")),
    }


def test_jobs_sensor_and_schedules_have_their_names_and_run_by_default() -> None:
    repository = defs.get_repository_def()
    jobs = {job.name for job in repository.get_all_jobs()} - {"__ASSET_JOB"}
    assert jobs == {"sweep", "eviction_job", "rederive_job", "old_runs_job", "kaizen_job", "reports_job"}
    assert {s.name: s.default_status for s in repository.sensor_defs} == {
        "tier0_sensor": dg.DefaultSensorStatus.RUNNING,
        "budget_sensor": dg.DefaultSensorStatus.RUNNING,
        "kaizen_automation": dg.DefaultSensorStatus.RUNNING,
        "reports_sensor": dg.DefaultSensorStatus.RUNNING,
    }
    assert {s.name: s.default_status for s in repository.schedule_defs} == {
        "sweep_schedule": dg.DefaultScheduleStatus.RUNNING,
        "eviction_schedule": dg.DefaultScheduleStatus.RUNNING,
        "old_runs_schedule": dg.DefaultScheduleStatus.RUNNING,
        "kaizen_schedule": dg.DefaultScheduleStatus.RUNNING,
        "reports_schedule": dg.DefaultScheduleStatus.RUNNING,
    }


@pytest.mark.parametrize(("is_expected", "seconds"), [(False, 30), (True, 60)])
def test_where_a_thread_follows_the_logs_sensors_look_half_as_often(is_expected: bool, seconds: int) -> None:
    code = f"""
from helix_assets.defs import follow
follow.is_expected = {is_expected}
from helix_assets.definitions import defs
wanted = ("tier0_sensor", "budget_sensor")
print({{sensor.minimum_interval_seconds for sensor in defs.sensors if sensor.name in wanted}})
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert result.stdout == f"{{{seconds}}}\n"


def test_the_three_tiers_are_partitioned_by_agent_and_day_up_to_today() -> None:
    partitions = defs.resolve_asset_graph().get(dg.AssetKey("session_digests")).partitions_def
    assert isinstance(partitions, dg.MultiPartitionsDefinition)
    assert {d.name for d in partitions.partitions_defs} == {"flavor", "day"}
    assert partitions.get_first_partition_key() == "2024-01-01|claude"


def test_loading_touches_no_file_and_loads_no_heavy_library(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "none"), "HELIX_CONFIG": str(tmp_path / "none.toml"),
               "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    command = [sys.executable, "-c", _LOAD, str(CHECKOUT / "helix_assets")]
    result = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["[]", "[]"]


def test_resources_can_be_replaced(tmp_path: Path) -> None:
    replaced = build_defs(store=StoreResource(data_dir=str(tmp_path / "elsewhere"))).resources
    assert replaced is not None
    assert replaced["store"].settings().data_dir == tmp_path / "elsewhere"
