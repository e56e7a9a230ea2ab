"""The follower: when it looks, reports and updates, what Dagster shows afterwards, and how few runs it wants."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from helix_assets.ask.partitions import TIERS
from helix_assets.definitions import defs
from helix_assets.defs import follow as follow_module
from helix_assets.defs import kaizen, news
from helix_assets.defs.checks import ASKED_AT, ASKED_EVERY_S, CHECKS, FAILED_EVERY_S
from helix_assets.defs.follow import CLEAN_S, EVERY_S, KAIZEN_S, LOOK_S, SETTLE_S, TELL_S, Follower, current, follow
from helix_assets.defs.record import RECORDED, is_recorded
from helix_assets.demo import append
from helix_assets.kaizen.derived import SCORECARD, folder_of
from helix_assets.prove.answer import Answer
from helix_assets.serve.dagster_private import last_answers, note
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store
from helix_assets.sweep import in_thread
from helix_assets.sweep.sweep import sweep
from helix_assets.sweep.task import Limits
from helix_assets_tests.defs.runs import materialize, partitions, run_job, staleness
from helix_assets_tests.home import conversation
from helix_assets_tests.sweep.test_in_thread import plant, swallow

FRESH = ["FRESH", "FRESH", "FRESH"]
OF_TIERS = [check.key for check in CHECKS if check.how.asset in TIERS]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Day:
    """A follower with its clock, on a home that a run has taken in."""

    def __init__(self, logs: Path, instance: dg.DagsterInstance) -> None:
        self.clock, self.logs, self.instance = Clock(), logs, instance
        self.follower = Follower(lambda: instance, clock=self.clock)
        self.wants: list[dg.RunRequest] = []
        self.turns = 0

    def turn(self) -> None:
        """One more turn of a session, which wakes the follower."""
        path = self.logs / "claude" / "projects" / "-home-u-shop" / "4b1f7a52-5f0e-4a57-9a3c-0d6c6f0a9b11.jsonl"
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(b"".join(conversation(1, start=self.turns % 50, session=f"t{self.turns}-")))
        self.turns += 1
        self.follower.wake()

    def pass_(self, seconds: float) -> None:
        """Let time pass; the follower does what is due."""
        until = self.clock.now + seconds
        while True:
            pause = self.follower.pause_s()
            if self.clock.now + pause > until:
                self.clock.now = until
                return
            self.clock.now += pause
            self.follower.work()
            if (wanted := self.follower.wanted()) and wanted not in self.wants:
                self.wants.append(wanted)


@pytest.fixture
def day(logs: Path, instance: dg.DagsterInstance, store: Store) -> Iterator[Day]:
    assert run_job(instance, "sweep").success
    day = Day(logs, instance)
    day.pass_(0)
    assert not day.wants
    yield day
    day.follower.close()


def events(instance: dg.DagsterInstance, tier: str) -> int:
    return len(instance.fetch_materializations(dg.AssetKey(tier), limit=1000).records)


def missing_answers(instance: dg.DagsterInstance) -> set[str]:
    """The checks of the tiers for which the UI shows no answer, because the data looks newer than it."""

    async def ask() -> set[str]:
        context = LoadingContextForTest(instance)
        records = {key: await AssetCheckExecutionRecord.gen(context, key) for key in OF_TIERS}
        return {
            key.name
            for key, record in records.items()
            if record is None or not await record.targets_latest_materialization(context)
        }

    return asyncio.run(ask())


def count_calls(monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> list[float]:
    """The times at which a function is called from now on."""
    called: list[float] = []
    real: Callable[..., object] = getattr(place, name)

    def counted(*given: object, **named: object) -> object:
        called.append(time.monotonic())
        return real(*given, **named)

    monkeypatch.setattr(place, name, counted)
    return called


# -- when ------------------------------------------------------------------------------------------------------------


def test_a_turn_is_taken_in_a_moment_after_it_was_written(day: Day, store: Store) -> None:
    day.pass_(EVERY_S)
    before = partitions(store)
    day.turn()
    day.pass_(SETTLE_S)
    assert ("claude", "2026-06-05") in set(partitions(store)) - set(before)


def test_turn_after_turn_it_works_every_five_seconds(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    day.pass_(EVERY_S)
    sweeps = count_calls(monkeypatch, news, "sweep")
    for _ in range(30):
        day.turn()
        day.pass_(1)
    assert len(sweeps) == 30 / EVERY_S


def test_without_a_wake_it_looks_once_a_minute(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = count_calls(monkeypatch, news, "look")
    day.pass_(10 * LOOK_S)
    assert len(looks) == 10


def test_turns_are_reported_together_every_half_minute(day: Day, instance: dg.DagsterInstance) -> None:
    day.pass_(TELL_S)
    before = events(instance, "session_digests")
    for _ in range(12):
        day.turn()
        day.pass_(TELL_S / 6)
    assert events(instance, "session_digests") == before + 2


def test_a_working_hour_wants_no_run_and_causes_at_most_six(day: Day) -> None:
    """Reports and automation conditions, which start runs by themselves, have half an hour between them."""
    for _ in range(30):
        day.turn()
        day.pass_(120)
    assert (day.wants, day.instance.get_runs_count()) == ([], 1)
    automatic = [sensor for sensor in defs.sensors or () if isinstance(sensor, dg.AutomationConditionSensorDefinition)]
    runs = sum(3600 / (sensor.minimum_interval_seconds or 30) for sensor in automatic)
    hourly = [one for one in defs.schedules or () if str(getattr(one, "cron_schedule", "")).endswith("* * * *")]
    assert runs + len(hourly) <= 6


def test_for_large_news_it_wants_four_runs_an_hour(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_thread, "MOST_BYTES", 10)
    for _ in range(60):
        day.turn()
        day.pass_(60)
    assert len(day.wants) == 4
    assert len({want.run_key for want in day.wants}) == len(day.wants)
    assert all("bytes are news" in want.tags["helix/reason"] for want in day.wants)


# -- what Dagster shows ----------------------------------------------------------------------------------------------


def test_what_was_touched_is_fresh_and_every_check_is_current(day: Day, store: Store) -> None:
    append(day.logs, share=0.5)
    day.turn()
    day.pass_(TELL_S)
    assert all(staleness(day.instance, partition) == FRESH for partition in partitions(store))
    assert is_recorded(day.instance, store)
    answers = last_answers(day.instance, OF_TIERS, ASKED_AT)
    assert set(answers) == set(OF_TIERS)
    assert not [key for key, answer in answers.items() if answer.is_from_a_run]


def test_only_what_was_touched_is_compared(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = day.instance.event_log_storage.get_latest_storage_id_by_partition
    monkeypatch.setattr(
        day.instance.event_log_storage,
        "get_latest_storage_id_by_partition",
        lambda asset, kind, some=None: asked.append(some) or real(asset, kind, some),
    )
    day.turn()
    day.pass_(TELL_S)
    assert asked
    assert all(some == {"2026-06-05|claude"} for some in asked)


def test_a_note_that_does_not_fit_has_all_compared(day: Day, store: Store) -> None:
    """As after a kill between commit and report: another process starts with what it finds."""
    append(day.logs, share=0.5)
    day.turn()
    day.pass_(EVERY_S + SETTLE_S)
    other = Day(day.logs, day.instance)  # the first has not reported it
    other.pass_(TELL_S)
    assert all(staleness(day.instance, partition) == FRESH for partition in partitions(store))
    assert is_recorded(day.instance, store)
    note(day.instance, RECORDED, "something else")
    other.turn()
    other.pass_(2 * TELL_S)
    assert is_recorded(day.instance, store)
    other.follower.close()


@pytest.mark.parametrize("after", range(8))
def test_a_kill_while_it_reports_leaves_the_rest_to_the_next(
    day: Day, store: Store, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    append(day.logs, share=0.5)
    day.turn()
    day.pass_(TELL_S - EVERY_S)
    left = [after]

    def report(event: object) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(event)

    real = day.instance.report_runless_asset_event
    day.turn()
    with monkeypatch.context() as killed:
        killed.setattr(day.instance, "report_runless_asset_event", report)
        with pytest.raises(KeyboardInterrupt):
            day.pass_(2 * TELL_S)
    other = Day(day.logs, day.instance)
    other.pass_(TELL_S)
    assert all(staleness(day.instance, partition) == FRESH for partition in partitions(store))
    assert (is_recorded(day.instance, store), other.wants) == (True, [])
    other.follower.close()


def test_what_another_process_swept_is_reported_too(day: Day, store: Store) -> None:
    append(day.logs, share=0.5)
    sweep(store)
    day.pass_(LOOK_S + TELL_S)
    assert all(staleness(day.instance, partition) == FRESH for partition in partitions(store))
    assert is_recorded(day.instance, store)


def test_a_lot_that_dagster_does_not_know_of_is_left_to_a_run(
    day: Day, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helix_assets.defs.record.MOST_WITHOUT_A_RUN", 1)
    append(day.logs, share=1)
    sweep(store)
    day.pass_(LOOK_S + TELL_S)
    assert [want.tags["helix/reason"].partition(" ")[2] for want in day.wants] == [
        "partitions are to be reported to Dagster"
    ]
    assert run_job(day.instance, "sweep").success
    day.pass_(2 * LOOK_S)
    assert (is_recorded(day.instance, store), len(day.wants)) == (True, 1)


def test_a_deleted_run_is_reported_again(day: Day, store: Store) -> None:
    (run,) = day.instance.get_runs()
    day.instance.delete_run(run.run_id)
    day.turn()
    day.pass_(TELL_S + EVERY_S)
    assert all(staleness(day.instance, partition) == FRESH for partition in partitions(store))


def test_slow_checks_are_asked_once_an_hour_and_say_when(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [check for check in CHECKS if check.how.is_slow]
    assert {"token_totals_add_up", "few_lines_unparsed"} < {check.name for check in slow}
    asked = []
    for check in slow:
        monkeypatch.setattr(check, "answer", lambda s, a=check.answer, n=check.name: asked.append(n) or a(s))
    begin, now = time.time(), [time.time()]
    monkeypatch.setattr("helix_assets.defs.news.time.time", lambda: now[0])
    for _ in range(3):
        day.turn()
        day.pass_(TELL_S + EVERY_S)
    assert asked == []  # the run asked them
    answers = last_answers(day.instance, [check.key for check in slow], ASKED_AT)
    assert all(abs(answer.at - begin) < 60 and ASKED_AT in answer.metadata for answer in answers.values())
    now[0] += ASKED_EVERY_S
    for _ in range(3):
        day.turn()
        day.pass_(TELL_S + EVERY_S)
    assert sorted(asked) == sorted(check.name for check in slow)


def test_checks_are_current_again_a_minute_after_a_run_for_a_partition(day: Day, store: Store) -> None:
    day.turn()
    day.pass_(TELL_S + EVERY_S)
    assert missing_answers(day.instance) == set()
    assert materialize(day.instance, partitions(store)[:1], ["session_events", "session_digests"]).success
    assert len(missing_answers(day.instance)) > 1
    day.pass_(LOOK_S + TELL_S)
    assert missing_answers(day.instance) == set()
    assert is_recorded(day.instance, store)


def test_a_slow_check_that_did_not_hold_is_asked_again_after_five_minutes(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = next(check for check in CHECKS if check.how.is_slow)
    asked, now = [], [time.time() + ASKED_EVERY_S]
    monkeypatch.setattr(check, "answer", lambda _: asked.append(check.name) or Answer(holds=False, figures={}))
    monkeypatch.setattr("helix_assets.defs.news.time.time", lambda: now[0])
    for seconds in (0, 30, FAILED_EVERY_S, 30):
        now[0] += seconds
        day.turn()
        day.pass_(TELL_S + EVERY_S)
    assert len(asked) == 2


# -- kaizen ----------------------------------------------------------------------------------------------------------


def status_of(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    resolver = CachingStaleStatusResolver(instance, defs.resolve_asset_graph(), LoadingContextForTest(instance))
    return str(resolver.get_status(key).value)


def test_the_tables_of_kaizen_follow_once_a_minute(day: Day, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_module, "KAIZEN_SHARE", 1.0)
    before = {path.name: path.stat().st_mtime_ns for path in folder_of(store.data_dir).iterdir()}
    for _ in range(6):
        day.turn()
        day.pass_(KAIZEN_S / 3)
    key = dg.AssetKey(["kaizen", SCORECARD])
    assert len(day.instance.fetch_materializations(key, limit=10).records) == 2
    after = {path.name: path.stat().st_mtime_ns for path in folder_of(store.data_dir).iterdir()}
    assert {f"{SCORECARD}.parquet", f"{SCORECARD}.md"} <= after.keys() - before.keys()
    assert status_of(day.instance, key) == "FRESH"
    day.pass_(10 * KAIZEN_S)
    assert len(day.instance.fetch_materializations(key, limit=10).records) <= 3


@pytest.mark.parametrize("made_before", [True, False])
def test_the_assets_of_kaizen_are_fresh_after_an_update(day: Day, made_before: bool) -> None:
    if made_before:
        assert run_job(day.instance, "kaizen_job").success
    for _ in range(2):
        day.turn()
        day.pass_(2 * KAIZEN_S)
        keys = [kaizen.PROJECT_METRICS, kaizen.CORRELATED, kaizen.AGENT_SCORECARD]
        assert [status_of(day.instance, key) for key in keys] == FRESH


def test_its_automation_starts_no_run_for_what_followed(day: Day) -> None:
    def requested(cursor: object) -> tuple[int, object]:
        done = dg.evaluate_automation_conditions(defs=defs, instance=day.instance, cursor=cursor, asset_selection=keys)  # type: ignore[arg-type]
        return done.total_requested, done.cursor

    keys = dg.AssetSelection.groups("kaizen")
    day.turn()
    day.pass_(KAIZEN_S + TELL_S)
    _, cursor = requested(None)
    for _ in range(3):
        day.turn()
        day.pass_(2 * KAIZEN_S)
        count, cursor = requested(cursor)
        assert count == 0


# -- trouble ---------------------------------------------------------------------------------------------------------


def test_while_another_writes_it_waits(day: Day, store: Store) -> None:
    day.pass_(EVERY_S)
    with writer_lock(store.data_dir, "test"):
        day.turn()
        day.pass_(SETTLE_S)
        assert "in use" in day.follower.said
    day.pass_(EVERY_S)
    assert ("claude", "2026-06-05") in partitions(store)


def test_a_session_that_hangs_is_left_to_one_run_and_the_others_are_taken_in(
    day: Day, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_thread, "LIMITS", Limits(0.5, 1 << 40))
    day.pass_(EVERY_S)
    day.turn()
    path = day.logs / "claude" / "projects" / "-home-u-shop" / "5b1f7a52-5f0e-4a57-9a3c-0d6c6f0a9b11.jsonl"
    path.write_bytes(b"".join(conversation(1, session="bad")).replace(b"step", b"trouble"))
    with monkeypatch.context() as planted:
        plant(planted, swallow)
        day.pass_(LOOK_S)
    assert [want.tags["helix/reason"] for want in day.wants] == ["it took longer than 0 s"]
    assert ("claude", "2026-06-05") in partitions(store)


def test_an_error_is_logged_without_its_words_and_the_next_look_goes_well(
    day: Day, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(news, "sweep", lambda *_, **__: open("/quokka/secret"))  # noqa: SIM115
        day.turn()
        day.pass_(EVERY_S + SETTLE_S)
    assert "following the logs failed (FileNotFoundError)" in caplog.text
    assert "quokka" not in caplog.text
    day.pass_(LOOK_S)
    assert ("claude", "2026-06-05") in partitions(store)


def test_a_folder_that_was_moved_does_not_come_back(day: Day, store: Store, home: Path) -> None:
    store.data_dir.rename(home / "elsewhere")
    day.turn()
    day.pass_(LOOK_S)
    assert not store.data_dir.exists()


def test_new_settings_count_from_the_next_look_on(day: Day, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIX_UP_IN_PROCESS", "false")
    day.turn()
    day.pass_(LOOK_S)
    assert ("claude", "2026-06-05") not in partitions(store)
    assert len(day.wants) == 1


def test_old_events_go_every_hour(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned = count_calls(monkeypatch, follow_module, "evict_old_events")
    day.pass_(2 * CLEAN_S)
    assert len(cleaned) == 2


# -- the thread ------------------------------------------------------------------------------------------------------


def test_the_thread_takes_in_what_it_is_woken_for_and_ends_within_a_second(
    store: Store, logs: Path, tmp_path: Path
) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert run_job(instance, "sweep").success
        woken, stop = threading.Event(), threading.Event()
        thread = threading.Thread(target=follow, args=(instance, woken, stop))
        thread.start()
        day = Day(logs, instance)
        day.turn()
        woken.set()
        until = time.monotonic() + 30
        while ("claude", "2026-06-05") not in partitions(store) and time.monotonic() < until:
            time.sleep(0.1)
        assert ("claude", "2026-06-05") in partitions(store)
        assert current() is not None
        stop.set()
        thread.join(3)
        assert not thread.is_alive()
        assert current() is None
    with sqlite3.connect(store.catalog.path) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()
