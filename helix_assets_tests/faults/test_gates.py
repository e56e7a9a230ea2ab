"""The long gates in short: each must break nothing. What the long forms measured stands in docs/RELIABILITY.md."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helix_assets.demo import make_home
from helix_assets_tests.conftest import NIGHTLY
from helix_assets_tests.faults import (
    all_at_once,
    byte_flips,
    cut_logs,
    full_disk,
    kill_points,
    live_writer,
    many_files,
    pressure,
    readers,
    rewriting_writer,
    side_by_side,
    step_sequences,
    swap_race,
    tree_kill,
)
from helix_assets_tests.faults.injection import can_inject

needs_strace = pytest.mark.skipif(not can_inject(), reason="needs Linux and strace to strike at system calls")


CHECKOUT = Path(__file__).parents[2]


def gate(name: str, *arguments: str) -> str:
    """Run a gate as its command; it forks, so it wants a process with one thread. Gives what it says."""
    command = [sys.executable, "-m", f"helix_assets_tests.faults.{name}", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize("phase", kill_points.phases(1))
def test_a_kill_at_any_changing_call_is_only_a_pause(phase: str) -> None:
    # Reports can be made anew at any time, and forgetting has tests of its own for each step: every ninth call does.
    every = ("--every", "9") if phase in ("report", "forget") else () if NIGHTLY else ("--kinds",)
    count = ("--sessions", "3") if phase == "drop-texts" else ()  # of one alone nothing is left to choose
    assert " 0 broken" in gate("kill_points", *every, *count, phase)


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize("fault", [("EIO",), ("ENOSPC", "--stays"), ("EDQUOT",)], ids=lambda fault: fault[0])
def test_a_failing_call_loses_nothing(fault: tuple[str, ...]) -> None:
    said = gate("kill_points", "--error", *fault, "--every", "9", "append", "evict", "overflow")
    assert said.count(" 0 broken") == 3


@pytest.mark.slow
def test_random_kills_lose_and_double_nothing() -> None:
    assert " 0 wrong" in gate("random_kills", "--rounds", "50")


@pytest.mark.slow
def test_random_combinations_of_all_that_can_happen_break_nothing() -> None:
    assert " 0 wrong" in gate("random_combinations", "--seeds", "5", "--steps", "30")


def test_every_record_of_a_live_writer_is_stored_once(tmp_path: Path) -> None:
    sweeps, records, wrong = live_writer.watch(tmp_path, seconds=20 if NIGHTLY else 8, seed=1)
    assert not wrong
    assert min(sweeps, records) > 5


@pytest.mark.slow
def test_readers_beside_writers_see_whole_sessions_only(tmp_path: Path) -> None:
    assert side_by_side.run_rounds(tmp_path, rounds=10 if NIGHTLY else 4, processes=8) == []


def test_readers_without_a_pause_get_answers_of_one_moment(tmp_path: Path) -> None:
    done = readers.read_beside_a_writer(tmp_path, seconds=7, processes=2, sessions=8)
    assert done.wrong == []
    assert min(done.asked.values()) > 0 < done.evicted


@pytest.mark.slow
def test_a_flipped_byte_gives_no_wrong_answer(tmp_path: Path) -> None:
    done = byte_flips.flip_all(tmp_path / "store", flips=20, seed=4)
    assert done.wrong == []
    assert done.errors > 0


def test_logs_that_lose_what_was_evicted_count_once(tmp_path: Path) -> None:
    assert cut_logs.cut_and_compare(tmp_path / "cut", seed=5, megabytes=4) == []


@pytest.mark.parametrize("kind", step_sequences.KINDS, ids=lambda kind: kind.agent)
def test_short_sequences_of_what_can_happen_to_a_log_count_once(tmp_path: Path, kind: step_sequences.Kind) -> None:
    found = list(step_sequences.some_sequences(tmp_path, kind, (4, 5, 6), 40, seed=7))
    assert len(found) == 40
    assert [(done, wrong) for done, wrong in found if wrong] == []


def test_a_log_rewritten_beside_sweeps_counts_once(tmp_path: Path) -> None:
    assert [rewriting_writer.one_run(tmp_path / str(seed), seed, seconds=1) for seed in range(3)] == [[], [], []]


def test_all_at_once_loses_and_doubles_nothing_and_no_reader_fails(tmp_path: Path) -> None:
    done, wrong = all_at_once.watch(tmp_path, seconds=15, seed=3)
    assert wrong == []
    assert min(done["kills"], done.get("sql", 0)) > 0


@pytest.mark.slow
@pytest.mark.skipif(not full_disk.can_mount(), reason="needs Linux and unshare to have a small disk of its own")
def test_eviction_works_on_a_disk_without_a_byte_left(tmp_path: Path) -> None:
    assert full_disk.run(tmp_path / "gate", sessions=30) == []


def test_a_growing_home_keeps_to_its_budget(tmp_path: Path) -> None:
    home = tmp_path / "made"
    make_home(home, sessions=30, seed=2, dirty=False)
    done = pressure.press(home, tmp_path / "work", rounds=4, soft="200KiB", hard="800KiB", seed=2)
    assert done.wrong == []
    assert done.evicted_bytes > done.peak_bytes


def test_a_look_at_many_files_is_measured(tmp_path: Path) -> None:
    looks = many_files.measure(tmp_path, 200)
    assert [one.code for one in looks] == [0, 0, 0]


@pytest.mark.real
def test_the_whole_tree_killed_in_a_sweep_is_mended_at_the_next_start(tmp_path: Path) -> None:
    done = tree_kill.kill_and_restart(tmp_path, 1_500)
    assert (done.ended_as, done.wrong) == ("FAILURE", ())
    assert done.next_sweep_s <= 60


def test_a_link_swapped_in_is_never_read_through(tmp_path: Path) -> None:
    good, skipped, forbidden = swap_race.race(tmp_path, 10_000)
    assert forbidden == 0
    assert min(good, skipped) > 0


def test_each_gate_that_the_docs_name_is_a_command() -> None:
    named = set(re.findall(r"`faults\.(\w+)", (CHECKOUT / "docs" / "RELIABILITY.md").read_text()))
    assert {"X", "kill_points", "random_kills"} < named
    assert all(importlib.util.find_spec(f"helix_assets_tests.faults.{name}") for name in named - {"X"})
