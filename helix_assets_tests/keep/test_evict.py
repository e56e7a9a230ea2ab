"""Evicting from a real store: what goes, what stays, and that a kill at any step is only a pause."""

import json
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from helix_assets.cli.main import run
from helix_assets.demo import make_home
from helix_assets.demo.growth import append
from helix_assets.derive.digest_builder import DigestBuilder, SessionHead
from helix_assets.keep import carry_out, evict
from helix_assets.keep.evict import Evicted, make_room, policy_of
from helix_assets.keep.retention import Decision, EvictionPlan, Reason, RetentionPolicy
from helix_assets.keep.writing import writing
from helix_assets.model.digest import Digest
from helix_assets.prove.verify import verify
from helix_assets.settings import load_settings
from helix_assets.store.catalog import live_files, losses, meta, pages, sessions
from helix_assets.store.catalog.catalog import index_bytes
from helix_assets.store.catalog.day_marks import count_day
from helix_assets.store.lock import writer_lock
from helix_assets.store.raw import RawFiles
from helix_assets.store.reserve import RESERVE
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.home import Memory, answer, ask, call, conversation, prompt, result, rows_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def environ(folder: Path, home: Path) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "HELIX_DATA_DIR": str(folder / "data"),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CODEX_HOME": str(home / "codex"),
        "GROK_HOME": str(home / "grok"),
    }


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sample home in `out` and a store in `data` that has taken it in; only ever copied."""
    folder = tmp_path_factory.mktemp("swept")
    make_home(folder / "out", sessions=8, seed=1, dirty=False)
    store = open_store(load_settings(environ(folder, folder / "out")))
    sweep(store, clock=lambda: NOW)
    store.close()
    return folder


@pytest.fixture
def store(swept: Path, tmp_path: Path) -> Iterator[Store]:
    """A store of eight sessions, all covered."""
    shutil.copytree(swept / "data", tmp_path / "data")
    opened = open_store(load_settings(environ(tmp_path, swept / "out")))
    yield opened
    opened.close()


def half(store: Store) -> RetentionPolicy:
    """Caps that make about half of the store go."""
    usage = ask(store, live_files.raw_usage)
    return replace(policy_of(store.settings.retention), soft_cap_bytes=usage // 2, hard_cap_bytes=usage)


def at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def plan(store: Store, policy: RetentionPolicy, now: datetime = NOW) -> EvictionPlan:
    return evict.plan(store, now=now, policy=policy)


def apply(store: Store, policy: RetentionPolicy, **options: Any) -> Evicted:
    return evict.apply(store, clock=at(NOW), policy=policy, **options)


def change(store: Store, uid: str, **values: Any) -> None:
    with store.catalog.writing() as connection:
        connection.update("sessions", values, "session_uid = ?", uid)
        meta.put(connection, "settled", "no sweep knows of this change")


def uids(store: Store) -> list[str]:
    return sorted(row.session_uid for row in rows_of(store, "sessions"))


def disk_bytes(store: Store) -> int:
    return sum(store.raw.path(name).stat().st_size for name in store.raw.names())


# -- what goes -------------------------------------------------------------------------------------------------------


def test_dry_run_lists_exactly_what_goes(store: Store) -> None:
    policy = half(store)
    listed = plan(store, policy)
    done = apply(store, policy)
    assert [same(one) for one in done.gone] == [same(one) for one in listed.goes] != []
    assert done.usage_after <= listed.usage_after <= policy.soft_cap_bytes


def same(decision: Decision) -> Decision:
    """A decision without the bytes that texts will free: a plan knows these but for a few hundred."""
    return replace(decision, bytes=0) if decision.keeps_rows else decision


def test_usage_is_bytes_on_disk_before_and_after(store: Store) -> None:
    policy = half(store)
    assert plan(store, policy).usage_before == disk_bytes(store)
    assert apply(store, policy).usage_after == disk_bytes(store)


def test_planning_deletes_nothing(store: Store) -> None:
    before = sorted(store.raw.names())
    plan(store, half(store))
    assert sorted(store.raw.names()) == before


def test_second_eviction_finds_nothing_to_do(store: Store) -> None:
    policy = half(store)
    apply(store, policy)
    assert apply(store, policy).gone == ()


def test_digests_are_left_as_they_were(store: Store) -> None:
    before = rows_of(store, "digests")
    apply(store, half(store))
    assert rows_of(store, "digests") == before


def test_store_is_sound_after_eviction(store: Store) -> None:
    assert apply(store, half(store)).gone
    assert verify(store) == []


def test_tombstone_keeps_cursors_and_no_text(store: Store) -> None:
    before = {row.path_key: row.offset for row in rows_of(store, "sources")}
    gone = next(one for one in apply(store, half(store)).gone if not one.keeps_rows)
    row = ask(store, sessions.one, gone.session_uid)
    assert (row.evicted_at, row.evicting_at, row.raw_bytes) == ("2026-03-01T12:00:00.000Z", None, 0)
    left = [source for source in rows_of(store, "sources") if source.session_id == row.id]
    assert [(source.offset, source.parser_state) for source in left] == [(before[s.path_key], None) for s in left]


def test_log_of_evictions_says_why_how_much_and_what_is_left(store: Store) -> None:
    done = apply(store, half(store))
    logged = rows_of(store, "evictions")
    assert {(row.session_uid, row.bytes) for row in logged} == {(d.session_uid, d.bytes) for d in done.gone}
    assert {row.reason for row in logged} == {"raw_over_soft_cap", "over_soft_cap"}
    assert min(row.usage_after for row in logged) == done.usage_after


def test_pinned_session_stays(store: Store) -> None:
    policy = replace(half(store), soft_cap_bytes=1)
    change(store, uids(store)[0], is_pinned=True)
    apply(store, policy)
    assert [row.session_uid for row in rows_of(store, "sessions") if row.evicted_at is None] == uids(store)[:1]


@pytest.mark.parametrize(
    "outdated",
    [{"derived_generation": 0}, {"derived_generation": None}, {"derivation_version": 0}, {"parser_version": -1}],
)
def test_session_with_an_outdated_digest_stays(store: Store, outdated: dict[str, Any]) -> None:
    policy = replace(half(store), soft_cap_bytes=1)
    change(store, uids(store)[0], **outdated)
    assert [d.session_uid for d in plan(store, policy).stays] == uids(store)[:1]


def test_session_without_its_digest_row_stays(store: Store) -> None:
    """Whatever the watermarks say: no digest in the catalog, no eviction."""
    policy = replace(half(store), soft_cap_bytes=1)
    with store.catalog.writing() as connection:
        connection.execute("DELETE FROM digests WHERE session_uid = ?", (uids(store)[0],))
    assert [(d.session_uid, d.reason) for d in plan(store, policy).stays] == [(uids(store)[0], Reason.NOT_COVERED)]


def test_nothing_evicted_lingers_in_the_write_ahead_log(store: Store) -> None:
    apply(store, half(store))
    assert store.catalog.path.with_name("helix.db-wal").stat().st_size == 0


def test_no_byte_of_evicted_records_is_left_anywhere(tmp_path: Path) -> None:
    """A word of each record that neither digest nor facts may keep, searched in all files, packed ones unpacked."""
    memory = Memory(tmp_path)
    said = [
        prompt("p", "10:00:00", "please look"),
        answer("a", "10:00:01", "quite so, xylograph one", message="msg_a"),
        call("c", "10:00:02", "Bash", "toolu_c", command="cat notes"),
        result("r", "10:00:03", "toolu_c", "xylograph two\n" * 500),
        b'{"type": "xylograph three", broken\n',
        answer("b", "10:00:04", "done", message="msg_b"),
    ]
    memory.write("s", *said)
    memory.sweep()
    assert says(memory, b"xylograph")
    gone = evict.apply(memory.store, clock=lambda: NOW, policy=replace(half(memory.store), soft_cap_bytes=1)).gone
    memory.sweep()
    assert len(gone) == 1
    assert says(memory, b"xylograph") == []
    memory.close()


def says(memory: Memory, word: bytes) -> list[Path]:
    found = []
    for path in memory.store.data_dir.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".parquet":
            data += str(pq.read_table(path).to_pylist()).encode()
        if word in data:
            found.append(path)
    return found


def test_reader_in_the_way_of_the_log_stops_no_eviction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CHECKPOINT_WAIT_MS", 10)
    with store.catalog.reading() as reader:
        reader.execute("SELECT * FROM sessions").fetchall()
        assert apply(store, half(store)).gone
    assert pages.truncate_log(store.catalog)


def test_memory_over_its_cap_is_reported_and_nothing_is_dropped(store: Store) -> None:
    policy = replace(policy_of(store.settings.retention), distilled_cap_bytes=1)
    done = apply(store, policy)
    assert done.plan.memory_over_cap
    assert done.gone == ()


# -- the next sweep --------------------------------------------------------------------------------------------------


@pytest.fixture
def own_home(tmp_path: Path) -> Iterator[tuple[Store, Path]]:
    """A store and a home that a test may change."""
    make_home(tmp_path / "out", sessions=3, seed=2, dirty=False, agents=("claude",))
    opened = open_store(load_settings(environ(tmp_path, tmp_path / "out")))
    sweep(opened, clock=at(NOW))
    yield opened, tmp_path / "out"
    opened.close()


def test_evicted_session_stays_evicted_when_its_source_is_touched(own_home: tuple[Store, Path]) -> None:
    store, home = own_home
    everything = replace(policy_of(store.settings.retention), soft_cap_bytes=1)
    apply(store, everything)
    for path in home.rglob("*.jsonl"):
        os.utime(path)
    sweep(store, clock=at(NOW))
    assert ask(store, live_files.raw_usage) == disk_bytes(store) == 0
    assert all(row.evicted_at for row in rows_of(store, "sessions"))


# -- kills -----------------------------------------------------------------------------------------------------------


class KilledError(BaseException):
    """Stands for a kill: nothing in the product may catch it."""


def killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, nth: int) -> None:
    """Let the nth call of a step, and none after it, be the end."""
    real, calls = getattr(owner, name), []

    def step(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        if len(calls) >= nth:
            raise KilledError
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, step)


def kill(store: Store, policy: RetentionPolicy, step: tuple[Any, str, int]) -> None:
    """Evict and be killed at that step."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        killed_at(monkeypatch, *step)
        with pytest.raises(KilledError):
            apply(store, policy, analyze=lambda: None)


STEPS = {
    "before anything": (evict, "finish_interrupted", 1),
    "in marking": (losses, "put_loss", 1),
    "between marking and finishing": (evict, "finish_interrupted", 2),
    "before the note": (carry_out, "write_loss_note", 1),
    "at the first unlink": (RawFiles, "remove", 1),
    "at the third unlink": (RawFiles, "remove", 3),
    "before the folders are synced": (carry_out, "sync_folder", 2),
    "in the last transaction": (losses, "put_eviction", 2),
    "before the log is emptied": (evict, "truncate_log", 1),
    "before the day is counted": (evict, "count_day", 1),
}


def overflowing(store: Store) -> RetentionPolicy:
    """Three sessions that grew and whose digest could not be made again; the hard cap has room for one of them."""
    for uid in uids(store)[:3]:
        change(store, uid, generation=2)
    sizes = sorted(row.raw_bytes for row in rows_of(store, "sessions") if row.session_uid in uids(store)[:3])
    return replace(policy_of(store.settings.retention), soft_cap_bytes=1, hard_cap_bytes=sizes[0] + 1)


def outcome(store: Store) -> Any:
    """All that must not depend on when the eviction was killed."""
    return (
        sorted((row.session_uid, row.evicted_at, row.evicting_at, row.raw_bytes) for row in rows_of(store, "sessions")),
        sorted((row.session_uid, row.bytes, row.reason) for row in rows_of(store, "evictions")),
        sorted((row.session_uid, row.bytes, row.records) for row in rows_of(store, "losses")),
        sorted(store.raw.names()),
        [note.name for note in (store.data_dir / "hub").glob("*")],
    )


@pytest.fixture
def undisturbed(swept: Path, tmp_path: Path) -> Any:
    """The outcome of the same eviction when nobody kills it."""
    shutil.copytree(swept / "data", tmp_path / "undisturbed" / "data")
    other = open_store(load_settings(environ(tmp_path / "undisturbed", swept / "out")))
    apply(other, overflowing(other), analyze=lambda: None)
    ended = outcome(other)
    other.close()
    return ended


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_killed_eviction_is_finished_by_the_next(store: Store, step: tuple[Any, str, int], undisturbed: Any) -> None:
    policy = overflowing(store)
    kill(store, policy, step)
    apply(store, policy, analyze=lambda: None)
    assert outcome(store) == undisturbed
    assert verify(store) == []


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_killed_eviction_leaves_nothing_half_done_for_the_next_writer(store: Store, step: tuple[Any, str, int]) -> None:
    kill(store, overflowing(store), step)
    with writing(store, "anything else"):
        pass
    assert [row.session_uid for row in rows_of(store, "sessions") if row.evicting_at] == []
    assert len(rows_of(store, "losses")) == sum(row.reason == "overflow" for row in rows_of(store, "evictions"))
    assert verify(store) == []


def test_file_that_cannot_be_deleted_holds_up_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = replace(half(store), soft_cap_bytes=1)
    [first, *_] = sorted(store.raw.names())
    real = RawFiles.remove

    def remove(self: RawFiles, name: str) -> None:
        if name == first:
            raise PermissionError(13, "Permission denied")
        real(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(RawFiles, "remove", remove)
        done = apply(store, policy)
    assert (len(done.stuck), len(done.gone)) == (1, len(uids(store)) - 1)
    assert done.usage_after == disk_bytes(store) > 0
    sweep(store, clock=at(NOW))
    assert ask(store, live_files.raw_usage) == disk_bytes(store) == 0


# -- overflow --------------------------------------------------------------------------------------------------------


def test_nothing_uncovered_goes_unless_analysis_was_tried(store: Store) -> None:
    done = apply(store, overflowing(store))
    assert done.losses == ()
    assert sorted(done.plan.must_analyze) == uids(store)[:3]


def test_analysis_that_succeeds_saves_everything(store: Store) -> None:
    done = apply(store, overflowing(store), analyze=lambda: sweep(store, clock=at(NOW)))
    assert rows_of(store, "losses") == []
    assert len(done.gone) == len(uids(store))


def test_overflow_loses_the_fewest_and_records_each(store: Store) -> None:
    policy = overflowing(store)
    done = apply(store, policy, analyze=lambda: None)
    assert len(done.losses) == 2
    assert done.usage_after <= policy.hard_cap_bytes
    assert {row.session_uid for row in rows_of(store, "losses")} == {loss.session_uid for loss in done.losses}


def test_session_that_cannot_be_analyzed_is_lost_at_last_and_alone(
    own_home: tuple[Store, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, home = own_home
    [chosen, *others] = uids(store)
    real = DigestBuilder.finish

    def finish(self: DigestBuilder, head: SessionHead) -> Digest:
        if head.session_uid == chosen:
            raise RuntimeError("no digest today")
        return real(self, head)

    monkeypatch.setattr(DigestBuilder, "finish", finish)
    append(home, share=1.0)
    sweep(store, clock=at(NOW))
    policy = replace(policy_of(store.settings.retention), soft_cap_bytes=1, hard_cap_bytes=1)
    done = apply(store, policy, analyze=lambda: sweep(store, clock=at(NOW)))
    assert [loss.session_uid for loss in done.losses] == [chosen]
    assert sorted(gone.session_uid for gone in done.gone if not gone.is_loss) == others
    assert verify(store) == []


def test_failed_session_is_tried_once_more_before_it_is_lost_whatever_its_pause(
    own_home: tuple[Store, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, home = own_home
    with monkeypatch.context() as broken:
        broken.setattr(DigestBuilder, "finish", lambda *_: 1 / 0)
        append(home, share=1.0)
        sweep(store, clock=at(NOW))
    policy = replace(policy_of(store.settings.retention), soft_cap_bytes=1, hard_cap_bytes=1)
    done = apply(store, policy, analyze=lambda: sweep(store, clock=at(NOW)))
    assert (done.losses, rows_of(store, "losses")) == ((), [])
    assert done.usage_after == 0


def test_planning_again_after_applying_evicts_nothing_though_the_index_counts(store: Store) -> None:
    policy = replace(half(store), soft_cap_bytes=(ask(store, live_files.raw_usage) + index_bytes(store.data_dir)) // 5)
    apply(store, policy)
    assert plan(store, policy).goes == ()


def test_no_loss_where_none_is_allowed(store: Store) -> None:
    assert apply(store, overflowing(store), analyze=lambda: None, allow_loss=False).losses == ()


def test_note_and_records_are_there_before_the_bytes_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = overflowing(store)
    real, seen = RawFiles.remove, []

    def remove(self: RawFiles, name: str) -> None:
        lost = {row.session_uid for row in rows_of(store, "losses")}
        seen.append((len(list((store.data_dir / "hub").glob("*.md"))), len(lost)))
        real(self, name)

    monkeypatch.setattr(RawFiles, "remove", remove)
    apply(store, policy, analyze=lambda: None)
    assert seen[-2:] == [(1, 2), (1, 2)]


def test_note_says_what_when_how_much_and_which(store: Store) -> None:
    done = apply(store, overflowing(store), analyze=lambda: None)
    [note] = done.notes
    _, front, _ = note.read_text().split("---\n", 2)
    told = {key: json.loads(value) for key, _, value in (line.partition(": ") for line in front.splitlines())}
    assert (told["kind"], told["at"], told["sessions"]) == ("data_loss", "2026-03-01T12:00:00.000Z", 2)
    assert sorted(told["session_uids"]) == sorted(loss.session_uid for loss in done.losses)
    assert told["bytes"] == sum(loss.bytes for loss in done.losses)


def test_note_is_for_its_owner_only(store: Store) -> None:
    [note] = apply(store, overflowing(store), analyze=lambda: None).notes
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert stat.S_IMODE(note.parent.stat().st_mode) == 0o700


def test_loss_is_reported_in_the_log(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        apply(store, overflowing(store), analyze=lambda: None)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["session_memory.data_loss"]


# -- clocks ----------------------------------------------------------------------------------------------------------


def days_of_work(store: Store, *clock_days: float) -> None:
    """The store is at work when its clock says so many days after now."""
    for days in clock_days:
        with writing(store, "sweep"):
            count_day(store.catalog, NOW + timedelta(days=days))


def gone_by_age(store: Store, days: float) -> int:
    policy = policy_of(store.settings.retention)
    return len(evict.apply(store, clock=at(NOW + timedelta(days=days)), policy=policy).gone)


def test_old_sessions_go_once_the_store_has_counted_their_days(store: Store) -> None:
    days_of_work(store, *range(46))
    assert gone_by_age(store, 45) == 0
    assert gone_by_age(store, 46) == len(uids(store))
    assert {row.reason for row in rows_of(store, "evictions")} == {"older_than_max_age"}


@pytest.mark.parametrize("jump", [3650, -3650])
def test_clock_that_jumped_evicts_nothing_by_age(store: Store, jump: float) -> None:
    days_of_work(store, *range(10))
    assert gone_by_age(store, jump) == 0
    days_of_work(store, *range(jump, jump + 20))
    assert gone_by_age(store, jump + 20) == 0


def test_long_sleep_counts_as_no_age(store: Store) -> None:
    days_of_work(store, 0, 1)
    made = plan(store, policy_of(store.settings.retention), NOW + timedelta(days=60))
    assert made.goes == ()
    assert "59 days past the last day of work" in str(made.age_pass_off_because)


# -- room for the next batch -----------------------------------------------------------------------------------------


def with_caps(store: Store, soft: int, hard: int) -> Store:
    retention = replace(store.settings.retention, raw_soft_cap_bytes=soft, raw_hard_cap_bytes=hard)
    return replace(store, settings=replace(store.settings, retention=retention))


def test_no_room_is_made_below_the_hard_cap(store: Store) -> None:
    usage = ask(store, live_files.raw_usage)
    with writing(store, "sweep"):
        assert make_room(with_caps(store, 1, usage + 10), usage, 10, clock=at(NOW)) == ()


def test_room_is_made_only_down_to_the_hard_cap(store: Store) -> None:
    usage = ask(store, live_files.raw_usage)
    with writing(store, "sweep"):
        goes = make_room(with_caps(store, 1, usage), usage, 1_000, clock=at(NOW))
    assert len(goes) == 1
    assert ask(store, live_files.raw_usage) == usage - goes[0].bytes


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store as `helix evict` finds it, with caps that make some of it go."""
    usage = ask(store, live_files.raw_usage)
    for name, value in environ(store.data_dir.parent, Path("/nowhere")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", str(usage // 2))
    monkeypatch.setenv("HELIX_RAW_HARD_CAP_BYTES", str(usage))
    return store


def test_command_is_a_dry_run_by_default(command: Store, capsys: pytest.CaptureFixture[str]) -> None:
    usage = ask(command, live_files.raw_usage)
    assert run(["evict"]) == 0
    assert "would go" in capsys.readouterr().out
    assert ask(command, live_files.raw_usage) == usage


def test_dry_run_names_each_session_and_why(command: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run(["evict", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert {gone["reason"] for gone in told["goes"]} == {"raw_over_soft_cap", "over_soft_cap"}
    assert {d["session_uid"] for d in told["goes"] + told["stays"]} == set(uids(command))


def test_command_applies_on_demand(command: Store, capsys: pytest.CaptureFixture[str]) -> None:
    usage = ask(command, live_files.raw_usage)
    assert run(["evict", "--apply", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes_freed"] == usage - ask(command, live_files.raw_usage) > 0


def test_command_fails_while_the_cache_is_above_its_hard_cap(
    command: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cannot_delete(self: RawFiles, name: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(RawFiles, "remove", cannot_delete)
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "1")
    monkeypatch.setenv("HELIX_RAW_HARD_CAP_BYTES", "1")
    assert run(["evict", "--apply"]) == 1
    assert "cannot be deleted" in caplog.text


def test_command_says_that_another_process_is_writing(
    command: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "helix_assets.keep.writing.writer_lock", lambda folder, what, wait_s: writer_lock(folder, what, 0)
    )
    with writer_lock(command.data_dir, "sweep"):
        assert run(["evict", "--apply"]) == 75
    assert "is in use by process" in capsys.readouterr().err


def test_dry_run_without_a_store_makes_none(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evict"]) == 0
    assert "no memory" in capsys.readouterr().out
    assert not (home / "data").exists()


def test_dry_run_and_apply_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evict", "--dry-run", "--apply"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_half_a_line_brings_no_document_of_an_evicted_session_back(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    place = "grok/sessions/%2Fhome%2Fu/one/"
    memory.put(place + "summary.json", b'{"info": {"id": "one"}, "created_at": "2026-06-05T10:00:00Z"}')
    said = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hello"}}
    line = {"timestamp": 1780650000, "method": "session/update", "params": {"sessionId": "one", "update": said}}
    memory.put(place + "updates.jsonl", json.dumps(line).encode() + b"\n")
    memory.sweep()
    evict.apply(memory.store, clock=lambda: NOW, policy=replace(half(memory.store), soft_cap_bytes=1))
    memory.put(place + "updates.jsonl", b'{"timestamp": 17806', append=True)
    memory.sweep()
    assert (memory.row("grok:one").evicted_at is None, list(memory.store.raw.names())) == (False, [])
    memory.close()


def over_its_cap(tmp_path: Path) -> Memory:
    memory = Memory(tmp_path, {"HELIX_DISTILLED_CAP_BYTES": "1KiB"})
    memory.write("s", *conversation(1))
    memory.sweep()
    return memory


def test_memory_over_its_cap_gives_a_hub_note_a_day(tmp_path: Path) -> None:
    memory = over_its_cap(tmp_path)
    evict.apply(memory.store, clock=lambda: memory.now)
    (note,) = (memory.store.data_dir / "hub").glob("*")
    assert (note.name, 'kind: "memory_over_cap"' in note.read_text()) == ("20260620-memory-over-cap.md", True)
    memory.now += timedelta(days=1)
    evict.apply(memory.store, clock=lambda: memory.now)
    assert len(list((memory.store.data_dir / "hub").glob("*"))) == 2
    memory.close()


def test_no_digest_goes_while_the_memory_is_over_its_cap(tmp_path: Path) -> None:
    memory = over_its_cap(tmp_path)
    evict.apply(memory.store, clock=lambda: memory.now)
    assert memory.digest("claude:s")["user_prompts"] == 1
    assert verify(memory.store) == []
    memory.close()


def test_the_room_that_is_kept_for_evictions_is_given_up_first_and_kept_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(3))
    memory.sweep()
    kept, drop, seen = memory.store.data_dir / RESERVE, evict._drop, list[bool]()

    def look_and_drop(*args: Any) -> Any:
        seen.append(kept.exists())
        return drop(*args)

    monkeypatch.setattr(evict, "_drop", look_and_drop)
    assert kept.exists()
    evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 2, 1, 10**9))
    memory.close()
    assert (seen[0], kept.exists()) == (False, True)
