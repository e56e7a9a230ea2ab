"""Sessions that are there but cannot be read: known with their dates, told once, and no trouble."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from helix_assets.ask.status import read_status
from helix_assets.keep.forget import forget
from helix_assets.prove.doctor import examine
from helix_assets.prove.promises import (
    digests_at_current_version,
    every_session_is_derived,
    logs_read_before_they_are_deleted,
)
from helix_assets.prove.verify import verify
from helix_assets_tests.agents.twins import Told, TwinAdapter, make_told
from helix_assets_tests.home import NOW

told = make_told  # the fixture


def put(home: Told, name: str, day: int) -> None:
    path = home.folder / f"{name}.enc"
    path.write_bytes(os.urandom(1000 + day))
    at = datetime(2026, 6, day, 10, tzinfo=UTC).timestamp()
    os.utime(path, (at, at))


def test_unreadable_session_is_known_with_its_dates_and_no_events(told: type[Told]) -> None:
    home = told("lines")
    put(home, "a", 5)
    report = home.memory.sweep()
    assert (report.problems, report.sessions_touched, report.records_unparsed) == ([], 1, 0)
    digest = home.memory.digest("twin:a")
    assert (digest["started_at"], digest["ended_at"]) == ("2026-06-05T10:00:00.000Z", "2026-06-05T10:00:00.000Z")
    assert (digest["event_count"], digest["record_count"], digest["tokens"]["output"]) == (0, 0, 0)
    row = home.memory.row("twin:a")
    assert (row.day, row.raw_bytes, row.failure, row.evicted_at) == ("2026-06-05", 0, None, None)
    assert not verify(home.memory.store)


def test_unreadable_session_that_changes_ends_later(told: type[Told]) -> None:
    home = told("lines")
    put(home, "a", 5)
    home.memory.sweep()
    assert home.memory.sweep().files_changed == 0
    put(home, "a", 7)
    assert home.memory.sweep().problems == []
    digest = home.memory.digest("twin:a")
    assert (digest["started_at"], digest["ended_at"]) == ("2026-06-05T10:00:00.000Z", "2026-06-07T10:00:00.000Z")
    assert not verify(home.memory.store)


def test_unreadable_sessions_are_counted_with_their_reason(told: type[Told]) -> None:
    home = told("lines")
    for name in "abc":
        put(home, name, 5)
    home.memory.sweep()
    store = home.memory.store
    found = read_status(store)
    assert (found.sources, found.trouble.problem_count) == ({"present_unreadable": 3}, 0)
    notes = [one.what for one in examine(NOW, home.memory.variables) if one.state == "note"]
    assert "twin: 3 sessions are there but cannot be read: it is encrypted" in notes
    for promise in (digests_at_current_version, every_session_is_derived, logs_read_before_they_are_deleted):
        assert promise(store).holds


def test_unreadable_session_is_forgotten_and_outlives_new_rules(told: type[Told]) -> None:
    home = told("lines")
    put(home, "a", 5)
    put(home, "b", 6)
    home.memory.sweep()
    before = home.logical()
    TwinAdapter.version += 1
    try:
        home.memory.now += timedelta(days=1)
        home.memory.sweep()
    finally:
        TwinAdapter.version -= 1
    assert home.logical() == before
    forget(home.memory.store, ["twin:a"], now=NOW)
    put(home, "a", 8)
    home.memory.sweep()
    assert [one["session_uid"] for one in home.logical()] == ["twin:b"]
