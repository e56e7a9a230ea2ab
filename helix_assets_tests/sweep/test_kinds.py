"""Sources that are not JSON Lines: each kind comes to what JSON Lines with the same conversation come to."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from helix_assets.keep import evict
from helix_assets.keep.forget import forget
from helix_assets.keep.restore import choose_copy, restore
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets.store.store import open_store
from helix_assets_tests.agents.twins import Told, both, make_told
from helix_assets_tests.home import NOW, answer, conversation, prompt

KINDS = ["units", "database", "text"]
Make = Callable[..., Told]
told = make_told  # the fixture


def evict_all(told: Told) -> None:
    evict.apply(told.memory.store, clock=lambda: NOW, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))


def digests(told: Told) -> list[Any]:
    """What the digests count, whatever is stored of their sessions."""
    return [one["digest"] for one in told.logical() if "digest" in one]


def is_sound(told: Told) -> bool:
    partial = any(told.memory.row(f"twin:{name}").is_partial for name in ("one", "two"))
    return not partial and not verify(told.memory.store)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_comes_to_what_lines_come_to(told: Make, kind: str) -> None:
    lines, other = told("lines"), told(kind)
    for one in (lines, other):
        one.sweep(both(3))
    assert other.logical() == lines.logical()
    assert is_sound(other)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_is_redacted(told: Make, kind: str) -> None:
    lines, other = told("lines"), told(kind)
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    for one in (lines, other):
        one.sweep({"one": [prompt("p1", "10:00:00", f"use {token}\nto push")]})
    assert token.encode() not in other.memory.exported()
    assert other.logical() == lines.logical()


@pytest.mark.parametrize("kind", KINDS)
def test_growth_in_steps_comes_to_the_same_as_all_at_once(told: Make, kind: str) -> None:
    lines, other = told("lines"), told(kind)
    lines.sweep(both(5, 4))
    for turns, others in ((1, 0), (2, 1), (2, 3), (5, 4)):
        other.sweep({name: records for name, records in both(turns, others).items() if records})
    assert other.logical() == lines.logical()
    assert is_sound(other)


@pytest.mark.parametrize("kind", KINDS)
def test_sweep_without_news_reads_nothing(told: Make, kind: str) -> None:
    other = told(kind)
    other.sweep(both(3))
    report = other.memory.sweep()
    assert (report.files_changed, report.files_opened, report.sessions_touched) == (0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_a_source_no_longer_has_are_kept(told: Make, kind: str) -> None:
    lines, other = told("lines"), told(kind)
    lines.sweep(both(4))
    other.sweep(both(4))
    other.sweep({"one": conversation(4, session="a")[6:], "two": conversation(2, session="b")})
    assert other.logical() == lines.logical()
    other.sweep(both(4))
    assert other.logical() == lines.logical()
    assert is_sound(other)


@pytest.mark.parametrize("kind", KINDS)
def test_newer_version_of_a_record_takes_the_place_of_the_older(told: Make, kind: str) -> None:
    records = [prompt("p1", "10:00:00", "go"), answer("a1", "10:00:05", "half", message="msg_1", output=3)]
    whole = [records[0], answer("a1", "10:00:05", "all of it", message="msg_1", output=30)]
    other, lines = told(kind), told("lines")
    lines.sweep({"one": whole})
    for now in (records, whole):
        other.sweep({"one": now})
    assert other.logical() == lines.logical()
    assert other.memory.digest("twin:one")["tokens"]["output"] == 30


@pytest.mark.parametrize("kind", [*KINDS, "lines"])
def test_newer_version_of_a_record_counts_where_the_source_only_grew(told: Make, kind: str) -> None:
    first = [prompt("p1", "10:00:00", "go"), answer("a1", "10:00:05", "half", message="msg_1", output=3)]
    grown = [*first, prompt("p2", "10:01:00", "on"), answer("a1", "10:01:05", "all", message="msg_1", output=30)]
    once, grew = told(kind), told(kind)
    once.sweep({"one": grown})
    for now in (first, grown[:3], grown):
        grew.sweep({"one": now})
    digest = grew.memory.digest("twin:one")
    assert (digest["tokens"]["output"], digest["record_count"], digest["assistant_messages"]) == (30, 3, 1)
    assert digests(grew) == digests(once)
    assert not verify(grew.memory.store)


@pytest.mark.parametrize("kind", KINDS)
def test_session_that_grew_after_its_eviction_counts_whole(told: Make, kind: str) -> None:
    lines, other = told("lines"), told(kind)
    for one in (lines, other):
        one.sweep(both(2))
        evict_all(one)
        one.sweep(both(5))
    assert digests(other) == digests(lines)
    assert other.memory.digest("twin:one")["user_prompts"] == 5
    assert other.logical() == lines.logical()
    assert is_sound(other)


@pytest.mark.parametrize("kind", KINDS)
def test_source_that_was_cut_after_the_eviction_adds_what_is_new(told: Make, kind: str) -> None:
    other, lines = told(kind), told("lines")
    lines.sweep(both(4))
    other.sweep(both(3))
    evict_all(other)
    other.sweep({"one": conversation(4, session="a")[8:], "two": conversation(2, session="b")})
    counted = ("user_prompts", "tokens", "tool_calls", "record_count")
    for name in ("twin:one", "twin:two"):
        mine, theirs = other.memory.digest(name), lines.memory.digest(name)
        assert {key: mine[key] for key in counted} == {key: theirs[key] for key in counted}
    assert not verify(other.memory.store)


@pytest.mark.parametrize("kind", KINDS)
def test_kill_between_files_and_commit_loses_and_doubles_nothing(
    told: Make, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, other = told("lines"), told(kind)
    lines.sweep(both(4))
    for turns in (2, 4):
        other.say(both(turns))
        with monkeypatch.context() as patch:
            patch.setattr("helix_assets.store.catalog.sessions.put", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                other.memory.sweep()
        assert other.memory.sweep().problems == []
    assert other.logical() == lines.logical()
    assert is_sound(other)


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_two_sessions_is_forgotten_alone(told: Make, kind: str) -> None:
    lines, other = told("lines"), told(kind)
    for one in (lines, other):
        one.sweep(both(2))
        forget(one.memory.store, ["twin:one"], now=NOW)
        one.sweep(both(4, 3))
    assert other.logical() == lines.logical()
    assert {one["session_uid"] for one in other.logical()} == {"twin:two"}
    assert not verify(other.memory.store)


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_two_sessions_is_evicted_alone(told: Make, kind: str) -> None:
    other, lines = told(kind), told("lines")
    for one in (lines, other):
        one.sweep({"one": conversation(2, session="a")})
        evict_all(one)
        one.sweep(both(2))
    assert other.logical() == lines.logical()
    row, left = (other.memory.row(f"twin:{name}") for name in ("one", "two"))
    assert (row.evicted_at is None, left.evicted_at is None) == (False, True)
    assert is_sound(other)


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_two_sessions_is_excluded_alone(told: Make, kind: str) -> None:
    elsewhere = [prompt("q1", "11:00:00", "secret work", cwd="/home/u/hidden")]
    other = told(kind, HELIX_EXCLUDE_PATHS="/home/u/hidden")
    for turns in (1, 2):
        more = [prompt(f"q{n}", f"11:0{n}:00", "more", cwd="/home/u/hidden") for n in range(2, turns + 1)]
        other.sweep({"one": conversation(turns, session="a"), "two": [*elsewhere, *more]})
    assert {one["session_uid"] for one in other.logical()} == {"twin:one"}
    assert b"secret work" not in other.memory.exported()
    assert other.memory.digest("twin:one")["user_prompts"] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_session_whose_raw_file_was_lost_is_read_again_after_a_restore(told: Make, kind: str) -> None:
    os.umask(0o077)
    other = told(kind)
    memory = other.memory
    other.sweep(both(2))
    before = other.logical()
    memory.store.raw.path(memory.parts("twin:one")[0].name).unlink()
    settings = memory.store.settings
    memory.store.close()
    done = restore(settings, choose_copy(settings), NOW)
    memory.store = open_store(settings)
    assert (done.lost, done.reread) == (("twin:one",), ("twin:one",))
    memory.sweep()
    assert other.logical() == before
    assert is_sound(other)


def test_half_written_document_keeps_what_was_told_before(told: Make) -> None:
    other = told("units")
    other.sweep(both(2))
    before = other.logical()
    path = other.folder / "one.json"
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    ((_, problem),) = other.memory.sweep().problems
    assert problem.startswith("not read: not JSON")
    assert other.logical() == before
    path.write_text(text)
    assert other.memory.sweep().problems == []
    assert other.logical() == before
    assert is_sound(other)
