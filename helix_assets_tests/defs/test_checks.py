"""Each check holds on a sound store and sees what it is there to see; run or logged, it says the same."""

import time
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from helix_assets.defs.checks import ASKED_EVERY_S, ASSET_CHECKS, CHECKS, Check, evaluations
from helix_assets.defs.resources import StoreResource
from helix_assets.model.errors import StoreError
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.prove.answer import Answer
from helix_assets.prove.promises import Promise, sampled_files
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import digests
from helix_assets.store.key import text_hash
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.defs.runs import run_job

COVERED = "every_evicted_session_has_a_covering_digest_or_a_loss_record"
BY_SENSOR = {"dagster/sensor_name": "tier0_sensor"}
BY_NAME = {check.name: check for check in CHECKS}
Break = Callable[[Store], None]
_LONG_AGO = "2026-02-01T00:00:00.000Z"


def change(store: Store, statement: str, *values: Any) -> None:
    with store.catalog.writing() as connection:
        connection.execute(statement, values)


def evict_uncovered(store: Store) -> None:
    change(store, "UPDATE sessions SET evicted_at = ?, derived_generation = NULL", _LONG_AGO)
    change(store, "DELETE FROM raw_files")


def hide_a_day(store: Store) -> None:
    change(store, "UPDATE sessions SET day = '2026-01-01'")


def change_digests(store: Store, *pairs: tuple[str, str]) -> None:
    """Replace texts in all digests, as a program that counts wrongly would have written them."""
    with store.catalog.writing() as connection:
        for row in list(digests.to_prove(connection)):
            text = row.digest
            for old, new in pairs:
                assert old in text
                text = text.replace(old, new)
            digests.change(connection, row.session_uid, digest=text, hash=text_hash(store.key, text.encode()))


_MAIN, _BOTH = '"tokens_main":{"input":', '"tokens":{"input":'


def miscount_subagents(store: Store) -> None:
    change_digests(store, (_MAIN, _MAIN + "9"))


def miscount_messages(store: Store) -> None:
    change_digests(store, (_MAIN, _MAIN + "9"), (_BOTH, _BOTH + "9"))


def change_a_digest_without_its_hash(store: Store) -> None:
    change(store, 'UPDATE digests SET digest = replace(digest, \'"outcome":"\', \'"outcome":"x\')')


def find_format_changed(store: Store) -> None:
    change(store, "UPDATE sessions SET unparsed_count = record_count")


def forget_derivation(store: Store) -> None:
    change(store, "UPDATE sessions SET derivation_version = ?", DIGEST_VERSION - 1)


def leave_files(store: Store) -> None:
    change(store, "UPDATE sessions SET evicted_at = ?", _LONG_AGO)


def spend_elsewhere(store: Store) -> None:
    change(store, "UPDATE fact_files SET day = replace(day, '2026', '2025') WHERE fact = 'token_usage'")


def forget_a_fact_file(store: Store) -> None:
    change(store, "DELETE FROM fact_files WHERE fact = 'token_usage'")


def change_a_cost(store: Store) -> None:
    change_digests(store, ('"cost_usd":', '"cost_usd":9'))


def forget_a_price(store: Store) -> None:
    change_digests(store, ('"unpriced_models":[]', '"unpriced_models":["homemade-9"]'))


def set_aside(store: Store) -> None:
    change(store, "UPDATE sessions SET failure = 'ValueError', failures = 1, retry_at = ?", _LONG_AGO)


def lose_a_file(store: Store) -> None:
    next(store.raw.root.glob("*/*/*.parquet")).write_bytes(b"damaged")


def delete_unread(store: Store) -> None:
    change(store, "UPDATE sources SET status = 'gone', ingested_at = NULL")


def meet_new_types(store: Store) -> None:
    none, some = '"unknown_types": {}', '"unknown_types": {"hologram": 999}'
    change(store, "UPDATE sessions SET facts = replace(facts, ?, ?)", none, some)


BROKEN: list[tuple[str, Break]] = [
    ("logs_read_before_they_are_deleted", delete_unread),
    ("few_lines_unparsed", meet_new_types),
    (COVERED, evict_uncovered),
    ("token_totals_add_up", hide_a_day),
    ("token_totals_add_up", miscount_subagents),
    ("token_totals_add_up", miscount_messages),
    ("token_totals_add_up", change_a_digest_without_its_hash),
    ("token_totals_add_up", lose_a_file),
    ("token_totals_add_up", spend_elsewhere),
    ("token_totals_add_up", forget_a_fact_file),
    ("token_totals_add_up", change_a_cost),
    ("prices_known", forget_a_price),
    ("every_session_is_derived", set_aside),
    ("few_lines_unparsed", find_format_changed),
    ("digests_at_current_version", forget_derivation),
    ("no_evicted_session_has_a_file_left", leave_files),
    ("no_secret_survives_in_raw_cache", lose_a_file),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.name))
def test_a_sound_store_passes(store: Store, check: Check) -> None:
    sweep(store)
    assert check.answer(store).holds


@pytest.mark.parametrize(("name", "broken"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_promise_is_seen(store: Store, name: str, broken: Break) -> None:
    sweep(store)
    broken(store)
    assert not BY_NAME[name].answer(store).holds


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (miscount_subagents, "tokens_add_up"),
        (miscount_messages, "tokens_of_messages"),
        (change_a_cost, "costs_add_up"),
        (hide_a_day, "names_agree"),
        (spend_elsewhere, "fact_file"),
        (forget_a_fact_file, "facts_of_digest"),
    ],
)
def test_totals_that_do_not_add_up_are_named_by_verify_too(store: Store, broken: Break, named: str) -> None:
    sweep(store)
    broken(store)
    assert named in {one.check for one in verify(store)}


def test_a_loss_record_stands_in_for_a_digest(store: Store) -> None:
    sweep(store)
    evict_uncovered(store)
    lost = "INSERT INTO losses (at, session_uid, flavor, day, bytes, records, generation, reason)"
    change(store, f"{lost} SELECT ?, session_uid, flavor, day, 1, 1, generation, 'overflow' FROM sessions", _LONG_AGO)
    assert BY_NAME[COVERED].answer(store).holds
    change(store, "DELETE FROM losses")
    assert not BY_NAME[COVERED].answer(store).holds


def test_a_secret_in_the_raw_cache_is_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(store)
    monkeypatch.setattr(type(store.redactor), "scan", lambda _self, data: data.count(b'"type":"user"'))
    answer = BY_NAME["no_secret_survives_in_raw_cache"].answer(store)
    assert not answer.holds
    assert answer.figures["secrets_found"] > 0


def test_a_canary_in_the_raw_cache_is_seen(store: Store) -> None:
    sweep(store)
    (store.data_dir / "canaries.txt").write_text('"type":"user"\n')
    assert not BY_NAME["no_secret_survives_in_raw_cache"].answer(store).holds


@pytest.mark.parametrize("name", ["raw_cache_within_budget", "memory_within_its_cap"])
def test_a_passed_cap_is_seen(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(store)
    for variable in ("HELIX_RAW_SOFT_CAP_BYTES", "HELIX_DISTILLED_CAP_BYTES"):
        monkeypatch.setenv(variable, "1KiB")
    with StoreResource().open() as tight:
        assert not BY_NAME[name].answer(tight).holds


def test_a_check_run_by_hand_says_what_a_sweep_logs(store: Store) -> None:
    sweep(store)
    context = dg.build_asset_check_context()
    by_hand: list[Any] = [definition(context, store=StoreResource()) for definition in ASSET_CHECKS]
    assert [(r.passed, r.severity) for r in by_hand] == [(e.passed, e.severity) for e in evaluations(store)]


def test_a_sweep_leaves_the_state_of_every_check(store: Store, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    keys = [check.key for check in CHECKS]
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    assert {key: record.status.value for key, record in found.items()} == dict.fromkeys(keys, "SUCCEEDED")


def test_stale_partitions_are_listed(store: Store) -> None:
    sweep(store)
    forget_derivation(store)
    listed = BY_NAME["digests_at_current_version"].answer(store).figures["first_of_them"]
    assert listed.startswith("2026-01-")
    assert "|claude" in listed


def test_a_check_that_cannot_be_asked_names_no_session(store: Store) -> None:
    def damaged(_: Store) -> Answer:
        raise StoreError("a file of claude:s1 is damaged")

    answer = Promise(damaged).settled(store)
    assert answer.figures == {"cannot_be_asked": "StoreError: `helix verify` says what is wrong"}
    assert not answer.holds


@pytest.mark.parametrize("error", [None, StoreError("a file is missing")], ids=["wrong", "error"])
def test_what_does_not_hold_while_a_sweep_goes_on_is_asked_again(store: Store, error: StoreError | None) -> None:
    looks: list[int] = []

    def between_two_looks(store: Store) -> Answer:
        looks.append(1)
        if len(looks) > 1:
            return Answer(True)
        change(store, "UPDATE sessions SET is_pinned = 1")
        sweep(store)
        if error is not None:
            raise error
        return Answer(False)

    assert Promise(between_two_looks).settled(store) == Answer(True)


def test_files_of_a_writer_at_work_are_none_that_were_left(store: Store) -> None:
    sweep(store)
    change(store, "DELETE FROM raw_files")
    leave_files(store)
    check = BY_NAME["no_evicted_session_has_a_file_left"]
    with writer_lock(store.data_dir, "test"):
        assert check.answer(store).holds
    assert not check.answer(store).holds


def test_a_session_on_its_way_out_is_not_sampled(store: Store) -> None:
    sweep(store)
    assert sampled_files(store)
    change(store, "UPDATE sessions SET evicting_at = ?", _LONG_AGO)
    assert sampled_files(store) == []


def asked(instance: dg.DagsterInstance, **options: Any) -> set[str]:
    """The checks that a sweep answered."""
    return {answer.check_name for answer in run_job(instance, "sweep", **options).get_asset_check_evaluations()}


def test_what_walks_over_a_large_memory_is_asked_by_the_sensors_sweeps_once_an_hour(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(asked(instance, tags=BY_SENSOR) == set(BY_NAME) for _ in range(2))
    monkeypatch.setattr("helix_assets.defs.checks.LARGE", 1)
    every, walking = set(BY_NAME), {check.name for check in CHECKS if check.how.walks}
    assert asked(instance, tags=BY_SENSOR) == every - walking
    assert asked(instance) == every
    now = time.time() + ASKED_EVERY_S + 1
    monkeypatch.setattr("helix_assets.defs.checks.time.time", lambda: now)
    assert asked(instance, tags=BY_SENSOR) == every


def test_what_did_not_hold_is_asked_again_at_once(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helix_assets.defs.checks.LARGE", 1)
    sweep(store)
    spend_elsewhere(store)
    for _ in range(2):
        assert "token_totals_add_up" in asked(instance, tags=BY_SENSOR)
