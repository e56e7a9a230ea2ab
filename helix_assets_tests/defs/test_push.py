"""A hook's note asks for a sweep of its session, at once and once. How soon its digest is there: `test_real`."""

import json
from pathlib import Path

import dagster as dg
import pytest

from helix_assets.ask.reading import proven_digest
from helix_assets.defs import sensors
from helix_assets.defs.resources import StoreResource
from helix_assets.hooks import hook
from helix_assets.hooks.inbox import inbox_of, waiting
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store
from helix_assets_tests.defs.runs import logged, run_job


@pytest.fixture(autouse=True)
def no_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "WATCH_S", 0.0)


def tick(cursor: str | None = None) -> tuple[dg.RunRequest | dg.SkipReason, str]:
    context = dg.build_sensor_context(cursor=cursor, resources={"store": StoreResource()})
    answer = sensors.push_inbox_sensor(context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer, context.cursor or ""


def push(store: Store, session: str, event: str = "Stop") -> None:
    told = json.dumps({"hook_event_name": event, "session_id": session})
    assert hook.main(["claude", str(inbox_of(store.data_dir)), told]) == 0


def a_session(logs: Path) -> str:
    return next(path.stem for path in (logs / "claude" / "projects").rglob("*.jsonl") if len(path.stem) == 36)


def test_a_note_asks_once(store: Store, logs: Path) -> None:
    assert tick()[0] == dg.SkipReason("no hook has named a session")
    push(store, a_session(logs))
    request, cursor = tick()
    assert isinstance(request, dg.RunRequest)
    assert isinstance(tick(cursor)[0], dg.SkipReason)
    push(store, a_session(logs))
    assert isinstance(tick(cursor)[0], dg.RunRequest)


def test_a_note_that_comes_while_it_watches_is_seen(store: Store, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "WATCH_S", 30.0)
    monkeypatch.setattr(sensors.time, "sleep", lambda _: push(store, a_session(logs)))
    assert isinstance(tick()[0], dg.RunRequest)


def test_the_middle_of_a_turn_asks_for_nothing(store: Store, logs: Path) -> None:
    push(store, a_session(logs), "PreToolUse")
    assert isinstance(tick()[0], dg.SkipReason)


def test_a_store_in_use_is_asked_about_later(store: Store, logs: Path) -> None:
    push(store, a_session(logs))
    with writer_lock(store.data_dir, "test"):
        skip, cursor = tick()
    assert isinstance(skip, dg.SkipReason)
    assert isinstance(tick(cursor)[0], dg.RunRequest)


def test_the_run_takes_in_that_session_and_reports_it_to_dagster(
    store: Store, logs: Path, instance: dg.DagsterInstance
) -> None:
    session = a_session(logs)
    push(store, session)
    result = run_job(instance, "push_sweep")
    assert result.success
    assert proven_digest(store, f"claude:{session}") is not None
    assert {tier for tier, _ in logged(result)} == {"source_files", "session_events", "session_digests"}
    assert waiting(store.data_dir) == []


def test_a_run_that_fails_leaves_the_note_to_the_next(
    store: Store, logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(store, a_session(logs))
    with monkeypatch.context() as broken:
        broken.setattr("helix_assets.sweep.sweep.scan", lambda *_: 1 / 0)
        assert not run_job(instance, "push_sweep").success
    assert len(waiting(store.data_dir)) == 1
    assert run_job(instance, "push_sweep").success
    assert waiting(store.data_dir) == []
