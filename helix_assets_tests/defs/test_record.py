"""What is reported to Dagster: once, with the tags that make staleness exact, however the store was changed."""

from pathlib import Path

import dagster as dg
import pytest

from helix_assets.ask import partitions as tiers
from helix_assets.defs.record import is_recorded
from helix_assets.demo import append
from helix_assets.model.errors import StoreError
from helix_assets.prove.drift import drift_of
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.defs.runs import latest, logged, materialize, partitions, run_job, staleness
from helix_assets_tests.home import answer, call, line, prompt, result

FRESH = ["FRESH", "FRESH", "FRESH"]
FIRST_REPORT = 1
"""The first run of all shows retention_report, too."""
WORD = "quokkaword1234"


def test_after_a_sweep_nothing_is_stale(store: Store, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    assert all(staleness(instance, partition) == FRESH for partition in partitions(store))


def test_after_a_range_run_nothing_is_stale(store: Store, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    first, last = partitions(store)[0], partitions(store)[-1]
    materialize(instance, [first, last])
    materialize(instance, [first], ["source_files"])
    assert all(staleness(instance, partition) == FRESH for partition in partitions(store))


def test_nothing_is_reported_twice(store: Store, instance: dg.DagsterInstance) -> None:
    assert len(logged(run_job(instance, "sweep"))) == 3 * len(partitions(store)) + FIRST_REPORT
    assert logged(run_job(instance, "sweep")) == []


def test_a_grown_source_makes_its_events_stale_until_a_sweep(
    store: Store, logs: Path, instance: dg.DagsterInstance
) -> None:
    run_job(instance, "sweep")
    append(logs, share=1.0)
    partition = partitions(store)[0]
    materialize(instance, [partition], ["source_files"])
    assert staleness(instance, partition) == ["FRESH", "STALE", "FRESH"]
    run_job(instance, "sweep")
    assert staleness(instance, partition) == FRESH


def test_partitions_of_an_older_parser_are_stale_until_they_are_rebuilt(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(tiers, "CODE_VERSIONS", {**tiers.CODE_VERSIONS, "session_events": "schema1.claude0"})
        older.setattr("helix_assets.defs.record.CODE_VERSIONS", tiers.CODE_VERSIONS)
        run_job(instance, "sweep")
        told = latest(instance, "session_events", "|".join(partitions(store)[0][::-1]))
    assert (told.tags or {})["dagster/code_version"] == "schema1.claude0"
    first, *others = partitions(store)
    assert staleness(instance, first) == ["FRESH", "STALE", "FRESH"]
    materialize(instance, [first])
    assert staleness(instance, first) == FRESH
    assert all(staleness(instance, other)[1] == "STALE" for other in others)
    run_job(instance, "sweep")
    assert all(staleness(instance, other) == FRESH for other in others)


def test_a_sweep_from_the_command_line_is_reported_by_the_next_run(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    assert not is_recorded(instance, store)
    assert len(logged(run_job(instance, "sweep"))) == 3 * len(partitions(store)) + FIRST_REPORT
    assert is_recorded(instance, store)


def test_a_deleted_run_is_reported_again(store: Store, instance: dg.DagsterInstance) -> None:
    instance.delete_run(run_job(instance, "sweep").run_id)
    assert not is_recorded(instance, store)
    run_job(instance, "sweep")
    assert all(staleness(instance, partition) == FRESH for partition in partitions(store))


def told_of_all_runs(instance: dg.DagsterInstance) -> str:
    return repr([event for run in instance.get_runs() for event in instance.all_logs(run.run_id)])


def test_no_word_of_a_log_is_logged(store: Store, logs: Path, instance: dg.DagsterInstance) -> None:
    """No model, record type, version, tool, path, branch, program or id, whatever names them."""
    odd = {"version": f"2.{WORD}", "cwd": f"/home/u/{WORD}", "gitBranch": WORD}
    failed = result("r1", "10:00:02", f"toolu_{WORD}", f"Error: no {WORD}", failed=True)
    said = answer("a1", "10:00:03", WORD, message=f"m-{WORD}", **odd).replace(b"claude-opus-4-5", WORD.encode())
    called = call("c1", "10:00:01", WORD, f"toolu_{WORD}", command=f"{WORD} --now", file_path=f"/a/{WORD}.{WORD}")
    lines = [prompt("p1", "10:00:00", WORD, **odd), called, failed, said, line(WORD, "n1", "10:00:04", **odd)]
    project = logs / "claude" / "projects" / f"-home-u-{WORD}"
    project.mkdir()
    (project / f"{WORD}.jsonl").write_bytes(b"".join([*lines, WORD.encode() + b"\n"]))
    for name in ("sweep", "reports_job", "kaizen_job"):
        assert run_job(instance, name).success
    assert WORD in repr(drift_of(store))
    told = told_of_all_runs(instance)
    assert "claude_unknown_of_the_commonest_type" in told
    assert "sessions_without_a_cost" in told
    assert WORD not in told


def test_a_run_fails_without_the_words_of_its_error(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise StoreError(f"a file of claude:{WORD} is damaged")

    monkeypatch.setattr("helix_assets.defs.jobs.sweep", damaged)
    assert not run_job(instance, "sweep").success
    told = told_of_all_runs(instance)
    assert "StoreError: `helix status` and `helix verify` say more" in told
    assert WORD not in told
