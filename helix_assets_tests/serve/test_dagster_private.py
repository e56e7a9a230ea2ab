"""What we use of Dagster's private modules does what we use it for. Fails here first when a release changes it."""

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster_graphql.test.utils import execute_dagster_graphql

from helix_assets.serve import dagster_private, dagster_storage, webserver
from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.serve.dagster_private import (
    LOGGED_BY_US,
    DagsterSqliteStorage,
    Logged,
    SqliteEventLogStorage,
    TickStatus,
    code_server_of,
    code_version_tag,
    event_logs_folder,
    give_partition,
    has_run_of,
    input_tags,
    is_asked_by_sensor,
    last_answers,
    last_event,
    last_logged,
    last_of,
    made_by_run,
    note,
    noted,
    passed_since,
    runs_folder,
    schedules_folder,
    version_tags,
    words_to_execute,
    workspace,
)

ABOVE, BELOW = dg.AssetKey("above"), dg.AssetKey("below")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def new_run(instance: dg.DagsterInstance, **tags: str) -> dg.DagsterRun:
    """A run that an empty job has left, with these tags."""
    job = dg.JobDefinition(graph_def=dg.GraphDefinition("empty"))
    run_id = job.execute_in_process(instance=instance, tags=tags).run_id
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run


@pytest.mark.parametrize("name", dagster_private.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(dagster_private, name) is not None


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="DagsterWebsurfer"):
        dagster_private.DagsterWebsurfer  # noqa: B018


# What each class of ours replaces in Dagster's, and what it calls there.
NEEDED = [
    (dagster_storage.ScheduleStorage, {"update_tick", "get_ticks", "connect", "from_local", "dispose"}),
    (dagster_storage.RunStorage, {"connect", "from_local", "has_run_stats_index_cols", "dispose"}),
    (dagster_storage.EventLog, {"_connect", "has_table", "dispose", "path_for_shard", "conn_string_for_shard",
                                "_initdb", "index_connection"}),
    (dagster_storage.HelixStorage, {"config_type", "from_config_value", "from_local"}),
    (dagster_storage.HelixComputeLogs, {"config_type", "from_config_value", "delete_logs"}),
    (dagster_storage.HelixArtifacts, {"config_type", "from_config_value"}),
    (webserver.Webserver, {"graphql_http_endpoint", "graphql_ws_endpoint", "build_graphql_validation_rules",
                           "create_asgi_app"}),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "needed"), NEEDED, ids=lambda value: getattr(value, "__name__", ""))
def test_dagster_still_has_what_our_classes_replace(ours: type, needed: set[str]) -> None:
    theirs = next(base for base in ours.__mro__ if base.__module__.startswith("dagster"))
    assert {name for name in needed if not hasattr(theirs, name)} == set()
    own = {name for name in vars(ours) if not name.startswith("__") and callable(getattr(ours, name))}
    assert own - needed <= {"_drop_same_before", "_open"}  # of our own


def test_our_event_log_keeps_using_what_dagsters_has(tmp_path: Path) -> None:
    log = SqliteEventLogStorage(str(tmp_path))
    assert {"_db_lock", "_initialized_dbs"} <= vars(log).keys()


def test_folders_are_those_that_dagster_itself_uses(tmp_path: Path) -> None:
    storage = DagsterSqliteStorage.from_local(str(tmp_path))
    log = storage.event_log_storage
    assert isinstance(log, SqliteEventLogStorage)
    assert (Path(runs_folder(str(tmp_path))) / "runs.db").exists()
    assert Path(log.path_for_shard("index")).parent == Path(event_logs_folder(str(tmp_path)))
    assert Path(schedules_folder(str(tmp_path))).is_dir()


def test_ticks_have_the_states_that_we_compare() -> None:
    assert {"SKIPPED", "SUCCESS", "FAILURE"} <= {status.value for status in TickStatus}


def test_the_last_materialization_of_each_partition_is_found(instance: dg.DagsterInstance) -> None:
    for version in ("old", "new"):
        tags = version_tags("code 1", version)
        instance.report_runless_asset_event(dg.AssetMaterialization(ABOVE, partition="monday", tags=tags))
    logged = last_logged(instance, ABOVE)
    assert logged.keys() == {"monday"}
    assert logged["monday"].version == "new"
    assert logged["monday"].event > 1
    assert last_logged(instance, BELOW) == {}


@dg.asset(key=ABOVE, code_version="1")
def above() -> None: ...


@dg.asset(key=BELOW, code_version="1", deps=[ABOVE])
def below() -> None: ...


@pytest.mark.parametrize(("code", "used", "status"), [("1", "a", "FRESH"), ("0", "a", "STALE"), ("1", "b", "STALE")])
def test_tags_decide_what_dagster_calls_fresh(instance: dg.DagsterInstance, code: str, used: str, status: str) -> None:
    from dagster._core.definitions.data_version import CachingStaleStatusResolver
    from dagster._core.loader import LoadingContextForTest

    instance.report_runless_asset_event(dg.AssetMaterialization(ABOVE, tags=version_tags("1", "a")))
    record = instance.fetch_materializations(ABOVE, limit=1).records[0]
    tags = version_tags(code, "x") | input_tags(ABOVE, Logged(used, record.storage_id))
    instance.report_runless_asset_event(dg.AssetMaterialization(BELOW, tags=tags))
    graph = dg.Definitions(assets=[above, below]).resolve_asset_graph()
    assert (
        CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance)).get_status(BELOW).value == status
    )


def test_an_input_that_was_never_logged_is_named_as_such() -> None:
    assert input_tags(ABOVE, Logged("a", 0)) == {
        "dagster/input_data_version/above": "a",
        "dagster/input_event_pointer/above": "NULL",
    }


def test_the_tag_of_the_code_is_the_one_that_dagster_shows(instance: dg.DagsterInstance) -> None:
    dg.materialize([above], instance=instance)
    event = instance.get_latest_materialization_event(ABOVE)
    assert event is not None
    assert event.asset_materialization is not None
    assert code_version_tag("1").items() <= (event.asset_materialization.tags or {}).items()


@pytest.mark.parametrize("marked", [True, False])
def test_nothing_is_logged_for_a_marked_result(instance: dg.DagsterInstance, marked: bool) -> None:
    @dg.multi_asset(specs=[dg.AssetSpec(ABOVE)])
    def made() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata=dict(LOGGED_BY_US) if marked else {})

    assert dg.materialize([made], instance=instance).success
    assert (instance.get_latest_materialization_event(ABOVE) is None) == marked


def test_a_check_that_passed_is_known_for_a_while(instance: dg.DagsterInstance) -> None:
    @dg.asset_check(asset=ABOVE)
    def good() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    @dg.asset_check(asset=ABOVE)
    def bad() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=False)

    dg.materialize([above, good, bad], instance=instance)
    keys, now = [dg.AssetCheckKey(ABOVE, name) for name in ("good", "bad", "never")], time.time()
    assert passed_since(instance, keys, now - 60, now + 1) == {keys[0]}
    assert passed_since(instance, keys, now + 1, now + 60) == set()
    assert passed_since(instance, keys, now - 120, now - 60) == set()


def test_a_run_without_a_partition_is_given_one_but_keeps_its_own(instance: dg.DagsterInstance) -> None:
    without, other = new_run(instance), new_run(instance, **{"dagster/partition": "2026-01-01"})
    for run in (without, other):
        give_partition(instance, run, "2026-01-31")
    stored = [instance.get_run_by_id(run.run_id) for run in (without, other)]
    assert [run.tags["dagster/partition"] for run in stored if run] == ["2026-01-31", "2026-01-01"]
    assert without.tags["dagster/partition"] == "2026-01-31"


def test_a_run_says_whether_a_sensor_asked_for_it(instance: dg.DagsterInstance) -> None:
    assert is_asked_by_sensor(new_run(instance, **{"dagster/sensor_name": "tier0_sensor"}))
    assert not is_asked_by_sensor(new_run(instance, **{"dagster/schedule_name": "sweep_schedule"}))


def test_a_run_is_found_by_the_key_under_which_a_sensor_asked_for_it(instance: dg.DagsterInstance) -> None:
    assert not has_run_of(instance, "sweep of 1")
    new_run(instance, **{"dagster/run_key": "sweep of 1"})
    assert (has_run_of(instance, "sweep of 1"), has_run_of(instance, "sweep of 2")) == (True, False)


def test_what_is_noted_is_found_and_replaced(instance: dg.DagsterInstance) -> None:
    assert noted(instance, "helix/test") is None
    for text in ("one", "another"):
        note(instance, "helix/test", text)
        assert noted(instance, "helix/test") == text


def test_the_last_event_of_an_asset_is_its_newest_materialization(instance: dg.DagsterInstance) -> None:
    assert last_event(instance, ABOVE) == 0
    ids = []
    for _ in range(2):
        instance.report_runless_asset_event(dg.AssetMaterialization(ABOVE, partition="a"))
        ids.append(last_event(instance, ABOVE))
    assert 0 < ids[0] < ids[1]
    assert last_event(instance, BELOW) == 0


def test_the_last_of_an_asset_has_the_version_that_dagster_gives_it(instance: dg.DagsterInstance) -> None:
    assert last_of(instance, ABOVE) == Logged("NULL", 0)
    for tags, version in (({}, "INITIAL"), (version_tags("1", "a"), "a")):
        instance.report_runless_asset_event(dg.AssetMaterialization(ABOVE, tags=tags))
        assert last_of(instance, ABOVE) == Logged(version, last_event(instance, ABOVE))


def test_it_is_known_what_a_run_made_last(instance: dg.DagsterInstance) -> None:
    assert made_by_run(instance, ABOVE) is None
    run_id = dg.materialize([above], instance=instance).run_id
    made = made_by_run(instance, ABOVE)
    assert made is not None
    assert (made.storage_id, made.run_id) == (last_event(instance, ABOVE), run_id)
    instance.report_runless_asset_event(dg.AssetMaterialization(ABOVE))
    assert made_by_run(instance, ABOVE) is None


def test_the_last_answer_of_a_check_says_when_it_was_asked_and_by_whom(instance: dg.DagsterInstance) -> None:
    check = dg.AssetCheckKey(ABOVE, "holds")
    assert last_answers(instance, [check], "asked_at") == {}
    for metadata in ({}, {"asked_at": dg.MetadataValue.timestamp(12.5)}):
        answer = dg.AssetCheckEvaluation(asset_key=ABOVE, check_name="holds", passed=False, metadata=metadata)
        instance.report_runless_asset_event(answer)
        found = last_answers(instance, [check], "asked_at")[check]
        assert (found.passed, found.is_from_a_run) == (False, False)
        assert found.at == 12.5 if metadata else abs(found.at - time.time()) < 60


def test_the_code_server_of_a_run_is_read_from_its_tag(instance: dg.DagsterInstance) -> None:
    assert code_server_of(new_run(instance)) is None
    run = new_run(instance, **{".dagster/grpc_info": '{"host": "localhost", "socket": "/s"}'})
    assert code_server_of(run) == {"host": "localhost", "socket": "/s"}


_TOY = """
import dagster as dg

@dg.job
def empty(): ...

@dg.sensor(job=empty)
def toy_sensor(context: dg.SensorEvaluationContext, gift: dg.ResourceParam[str]):
    context.update_cursor(context.cursor + "+")
    return dg.SkipReason(f"{id(context.instance)} {gift}")

defs = dg.Definitions(jobs=[empty], sensors=[toy_sensor], resources={"gift": "gift", "other": "other"})
"""


@pytest.mark.parametrize("read_only", [True, False])
def test_a_workspace_is_loaded_for_the_webserver(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "toy_sensor.py").write_text(_TOY)
    home = prepare_dagster_home(tmp_path / "data")
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        workspace(instance, "toy_sensor", "toys", tmp_path, read_only=read_only) as context,
    ):
        assert (context.read_only, context.version) == (read_only, dg.__version__)
        assert context.has_code_location("toys")


def test_a_tick_uses_the_instance_and_the_resources_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "toy_sensor.py").write_text(_TOY)
    with (
        dg.DagsterInstance.from_config(str(prepare_dagster_home(tmp_path / "data"))) as instance,
        workspace(instance, "toy_sensor", "toys", tmp_path, read_only=False) as context,
    ):
        location = context.create_request_context().get_code_location("toys")
        (repository,) = location.get_repositories().values()
        log_key = ["a", "b", "c"]
        tick = location.get_sensor_execution_data(
            instance, repository.handle, "toy_sensor", None, None, "before", log_key, None
        )
        (reason, cursor) = (tick.skip_message, tick.cursor)
    assert (reason, cursor) == (f"{id(instance)} gift", "before+")


_PREVIEW = """mutation($s: SensorSelector!){sensorDryRun(selectorData:$s, cursor:"before"){
  ... on DryRunInstigationTick{evaluationResult{cursor skipReason error{message}}}}}"""


def test_a_tick_can_be_previewed(tmp_path: Path) -> None:
    (tmp_path / "toy_sensor.py").write_text(_TOY)
    selector = {"repositoryLocationName": "toys", "repositoryName": "__repository__", "sensorName": "toy_sensor"}
    with (
        dg.DagsterInstance.from_config(str(prepare_dagster_home(tmp_path / "data"))) as instance,
        workspace(instance, "toy_sensor", "toys", tmp_path, read_only=False) as context,
    ):
        answer = execute_dagster_graphql(context.create_request_context(), _PREVIEW, {"s": selector})
        assert answer.data["sensorDryRun"]["evaluationResult"] == {
            "cursor": "before+", "skipReason": f"{id(instance)} gift", "error": None}  # fmt: skip


def test_a_run_of_unknown_code_cannot_be_executed(instance: dg.DagsterInstance) -> None:
    run = new_run(instance)
    with pytest.raises(ValueError, match=run.run_id):
        words_to_execute(instance, run)
