"""All that this package uses of Dagster's private modules, which any release of Dagster may move or change.

Each import says why, and which public way is missing. Belongs here: these imports, and functions around them that give
plain answers. Not here: what is done with the answers. A test refuses private imports elsewhere in the package, and
tries each name of this module.
"""

import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dagster as dg

# What an answer of a check names as what it is about. Dagster adds it in runs only; without it the times are compared,
# and those of answers are whole seconds.
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

# Dagster compares these tags to call a partition fresh or stale. Its own events give all partitions of a run the same
# ones, and `DataVersion` can be given for an output only, not for an AssetMaterialization that is logged.
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    NULL_DATA_VERSION,
    NULL_EVENT_POINTER,
    extract_data_version_from_entry,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

# Marks a result for which Dagster logs nothing. A public multi_asset always logs a materialization of each result.
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION

# How a run is started and watched over, for our own launcher. Of all this only Dagster's own launchers are public.
from dagster._core.events import EngineEventData
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, RunLauncher, WorkerStatus

# The type of a sensor's tick, for our storage of schedules: no public name.
from dagster._core.scheduler.instigation import InstigatorTick, TickStatus

# How the last run of a check ended. Publicly only GraphQL answers that.
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

# Runs are removed by the hundred (`serve.old_runs`). `DagsterInstance.delete_run` takes a hundred times as long, and
# leaves the file, the tags and the check results.
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)

# Bases of our own storage (`serve.dagster_storage`): dagster.yaml names a class, but no public one may be extended.
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._core.storage.root import LocalArtifactStorage

# Tables and bases of the other two databases, for the same reasons: old runs, and our own storage, which also removes
# ticks that say nothing new. Publicly ticks go by age alone.
from dagster._core.storage.runs.schema import RunsTable, RunTagsTable
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.schema import AssetDaemonAssetEvaluationsTable, JobTickTable
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
    _runs_directory,
    _schedule_directory,
)

# Names of tags that Dagster gives to runs: which code server has the run, its partition, what its sensor called it.
from dagster._core.storage.tags import GRPC_INFO_TAG, PARTITION_NAME_TAG, RUN_KEY_TAG, SENSOR_NAME_TAG

# The code locations that the webserver serves. Public is the command `dagster-webserver`, which opens its own port
# without our guard.
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext

# What a class needs that dagster.yaml names, and the type of an argument of it: no public names.
from dagster._serdes import ConfigurableClass, ConfigurableClassData

if TYPE_CHECKING:
    # The webserver's ASGI app, for our guard and the read-only mode. Public is only the command, as above.
    from dagster_webserver.webserver import DagsterWebserver

__all__ = [
    "INDEX_SHARD_NAME",
    "AssetCheckExecutionsTable",
    "AssetDaemonAssetEvaluationsTable",
    "AssetEventTagsTable",
    "CheckRunHealthResult",
    "ConfigurableClass",
    "ConfigurableClassData",
    "DagsterSqliteStorage",
    "DagsterWebserver",
    "EngineEventData",
    "InstigatorTick",
    "JobTickTable",
    "LaunchRunContext",
    "LocalArtifactStorage",
    "LocalComputeLogManager",
    "RunLauncher",
    "RunTagsTable",
    "RunsTable",
    "SqlEventLogStorageTable",
    "SqliteEventLogStorage",
    "SqliteRunStorage",
    "SqliteScheduleStorage",
    "TickStatus",
    "WorkerStatus",
    "WorkspaceProcessContext",
    "WorkspaceRequestContext",
    "event_logs_folder",
    "runs_folder",
    "schedules_folder",
]

event_logs_folder, runs_folder, schedules_folder = _event_logs_directory, _runs_directory, _schedule_directory
LOGGED_BY_US: Mapping[str, Any] = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Metadata of a result whose materializations we log ourselves."""
_FEW = 500
RUNLESS = ""
"""The id of the run that an event without a run has."""
_MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION


def __getattr__(name: str) -> object:
    """DagsterWebserver, imported when it is asked for: every run imports this module, and needs no webserver."""
    if name == "DagsterWebserver":
        from dagster_webserver.webserver import DagsterWebserver

        return DagsterWebserver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Logged(NamedTuple):
    """The last materialization of a partition: the data version that it has, and its storage id."""

    version: str | None
    event: int


def last_logged(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Collection[str] | None = None
) -> dict[str, Logged]:
    """The last materialization of these partitions of an asset, perhaps of others too; None means all.

    The public way is one question per partition.
    """
    log = instance.event_log_storage
    some = list(partitions) if partitions is not None and len(partitions) <= _FEW else None
    tags = log.get_latest_tags_by_partition(asset, _MATERIALIZED, [DATA_VERSION_TAG], some)
    events = log.get_latest_storage_id_by_partition(asset, _MATERIALIZED, None if some is None else set(some))
    return {key: Logged(tags.get(key, {}).get(DATA_VERSION_TAG), event) for key, event in events.items()}


def last_event(instance: dg.DagsterInstance, asset: dg.AssetKey) -> int:
    """The storage id of the last materialization of an asset; 0 if there is none."""
    records = instance.fetch_materializations(asset, limit=1).records
    return records[0].storage_id if records else 0


def last_of(instance: dg.DagsterInstance, asset: dg.AssetKey) -> Logged:
    """The last materialization of an asset, with the version that Dagster calls it by if it was given none."""
    records = instance.fetch_materializations(asset, limit=1).records
    if not records:
        return Logged(NULL_DATA_VERSION.value, 0)
    version = extract_data_version_from_entry(records[0].event_log_entry) or DEFAULT_DATA_VERSION
    return Logged(version.value, records[0].storage_id)


def made_by_run(
    instance: dg.DagsterInstance, asset: dg.AssetKey
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """The last materialization of an asset, if a run logged it. The UI hides all answers that do not name it."""
    records = instance.fetch_materializations(asset, limit=1).records
    if not records or records[0].run_id == RUNLESS:
        return None
    (last,) = records
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=last.storage_id, run_id=last.run_id, timestamp=last.timestamp
    )


def noted(instance: dg.DagsterInstance, name: str) -> str | None:
    """What was noted in this instance under a name, outside of any run, as Dagster's daemons note their cursors."""
    return instance.run_storage.get_cursor_values({name}).get(name)


def note(instance: dg.DagsterInstance, name: str, text: str) -> None:
    """Note something under a name, in place of what was there."""
    instance.run_storage.set_cursor_values({name: text})


def code_version_tag(version: str) -> dict[str, str]:
    """The tag that says which code made what is materialized."""
    return {CODE_VERSION_TAG: version}


def version_tags(code: str, version: str) -> dict[str, str]:
    """The tags that say which code made a partition, and which version of its data there is."""
    return {**code_version_tag(code), DATA_VERSION_TAG: version, DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}


def input_tags(asset: dg.AssetKey, used: Logged) -> dict[str, str]:
    """The tags that say what a partition was made of. Without both of them all below it shows as stale for ever."""
    pointer = str(used.event) if used.event else NULL_EVENT_POINTER
    return {get_input_data_version_tag(asset): str(used.version), get_input_event_pointer_tag(asset): pointer}


def passed_since(
    instance: dg.DagsterInstance, checks: Iterable[dg.AssetCheckKey], since: float, until: float
) -> set[dg.AssetCheckKey]:
    """The checks whose last run passed, between two times."""
    last = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    passed = AssetCheckExecutionRecordStatus.SUCCEEDED
    return {key for key, run in last.items() if run.status is passed and since < run.create_timestamp <= until}


class LastAnswer(NamedTuple):
    """The last answer of a check; `at` is when it was asked, in seconds since 1970.

    `about` is the materialization that it names.
    """

    passed: bool
    metadata: Mapping[str, Any]
    at: float
    about: AssetCheckEvaluationTargetMaterializationData | None
    is_from_a_run: bool


def last_answers(
    instance: dg.DagsterInstance, checks: Iterable[dg.AssetCheckKey], asked_at: str
) -> dict[dg.AssetCheckKey, LastAnswer]:
    """The last answers of those checks that were answered last time. `asked_at` is the metadata that says when."""
    found = {}
    for key, run in instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks)).items():
        if run.status is not AssetCheckExecutionRecordStatus.PLANNED and (last := run.evaluation) is not None:
            said = last.metadata.get(asked_at)
            at = float(said.value) if isinstance(said, dg.TimestampMetadataValue) else run.create_timestamp
            found[key] = LastAnswer(last.passed, last.metadata, at, last.target_materialization_data, bool(run.run_id))
    return found


def give_partition(instance: dg.DagsterInstance, run: dg.DagsterRun, key: str) -> None:
    """Give a run that has begun without a partition this one. A job can have no default partition."""
    if not run.is_partitioned and isinstance(run.tags, dict):
        run.tags[PARTITION_NAME_TAG] = key
        instance.add_run_tags(run.run_id, {PARTITION_NAME_TAG: key})


def is_asked_by_sensor(run: dg.DagsterRun) -> bool:
    """Whether a sensor asked for a run, and not a schedule or a person."""
    return SENSOR_NAME_TAG in run.tags


def has_run_of(instance: dg.DagsterInstance, run_key: str) -> bool:
    """Whether a run was created for what a sensor asked for under this key."""
    return instance.get_runs_count(dg.RunsFilter(tags={RUN_KEY_TAG: run_key})) > 0


def code_server_of(run: dg.DagsterRun) -> dict[str, object] | None:
    """The address of the code server that executes a run: `socket`, or `host` and `port`."""
    address = run.tags.get(GRPC_INFO_TAG)
    return dict(json.loads(address)) if address else None


def words_to_execute(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """The arguments with which `python -m dagster` executes a run in this process."""
    # The format of the command's argument. Dagster's own launchers with a process per run use it.
    from dagster._grpc.types import ExecuteRunArgs

    if run.job_code_origin is None:
        raise ValueError(f"run {run.run_id} does not say which code it is of")
    arguments = ExecuteRunArgs(run.job_code_origin, run.run_id, instance.get_ref())
    words = list(arguments.get_command_args())
    return words[words.index("api") :]


def workspace(
    instance: dg.DagsterInstance, module: str, name: str, folder: Path, *, read_only: bool
) -> WorkspaceProcessContext:
    """The definitions of a module, loaded in this process for webserver and daemons, as the code location `name`.

    Runs import the module from `folder`, too. A module that cannot be loaded is a location with an error.
    """
    # A code location in the process itself. Publicly each has a server process of its own.
    from dagster._core.remote_origin import InProcessCodeLocationOrigin
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
    from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget

    code = LoadableTargetOrigin(executable_path=sys.executable, module_name=module, working_directory=str(folder))
    entry_point = [sys.executable, "-m", "dagster"]
    origin = InProcessCodeLocationOrigin(code, entry_point=entry_point, location_name=name)
    target = InProcessWorkspaceLoadTarget(origin)
    context = WorkspaceProcessContext(instance, target, version=dg.__version__, read_only=read_only)
    _keep_instance_at_ticks(context, name)
    return context


def _keep_instance_at_ticks(context: WorkspaceProcessContext, name: str) -> None:
    """Let a sensor's tick use the instance that there is. Dagster opens one for each tick, which takes 40 ms."""
    # The code location in this process, and what it makes a tick of. Nothing public comes between the two.
    from dagster._core.definitions.sensor_definition import SensorEvaluationContext
    from dagster._core.execution.resources_init import get_transitive_required_resource_keys
    from dagster._core.remote_representation.code_location import InProcessCodeLocation

    class Warm(InProcessCodeLocation):
        # The names are Dagster's own: a preview of a tick gives them all, the daemon none.
        def get_sensor_execution_data(  # noqa: PLR0913, PLR0917
            self,
            instance: dg.DagsterInstance,
            repository_handle: Any,
            name: str,
            last_tick_completion_time: float | None,
            last_run_key: str | None,
            cursor: str | None,
            log_key: Any,
            last_sensor_start_time: float | None,
        ) -> Any:
            code = self._get_repo_def(repository_handle.repository_name)
            sensor, resources = code.get_sensor_def(name), code.get_top_level_resources()
            needed = get_transitive_required_resource_keys(sensor.required_resource_keys, resources)
            with SensorEvaluationContext(
                instance.get_ref(),
                last_tick_completion_time=last_tick_completion_time,
                last_run_key=last_run_key,
                cursor=cursor,
                log_key=log_key,
                repository_name=code.name,
                repository_def=code,
                instance=instance,
                sensor_name=name,
                resources={key: resource for key, resource in resources.items() if key in needed},
                last_sensor_start_time=last_sensor_start_time,
                code_location_origin=self.origin,
            ) as evaluation:
                return sensor.evaluate_tick(evaluation)

    if not context.has_code_location(name):  # it could not be loaded
        return
    location = context.create_request_context().get_code_location(name)
    if isinstance(location, InProcessCodeLocation):
        location.__class__ = Warm


class Daemons(NamedTuple):
    """Dagster's daemons: `check` raises an error if one has died, `stop` lets them end what they do and do no more."""

    check: Callable[[], None]
    stop: Callable[[], None]


def start_daemons(context: WorkspaceProcessContext) -> Daemons:
    """Start Dagster's daemons as threads of this process."""
    # The daemons, and which of them an instance wants. Public is the command `dagster-daemon`, a process of its own.
    from dagster._daemon.controller import DagsterDaemonController, create_daemons_from_instance

    controller = DagsterDaemonController(context, create_daemons_from_instance(context.instance))
    # Its own way to stop also waits for them, for half a minute each.
    return Daemons(controller.check_daemon_threads, controller._daemon_shutdown_event.set)
