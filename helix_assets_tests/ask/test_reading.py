"""Readers beside a writer: what goes or is replaced while it is read costs a second look, never the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helix_assets import Memory as OpenMemory
from helix_assets.ask import reading, search, status, views
from helix_assets.ask.export import session_figures
from helix_assets.ask.reading import open_session, read_consistently
from helix_assets.ask.reports.all_reports import make_report
from helix_assets.ask.search import Finder
from helix_assets.ask.sql import ask
from helix_assets.keep import evict
from helix_assets.model.errors import ChangedError, StoreError
from helix_assets.store.fact_files import FactFiles
from helix_assets.store.raw import RawFiles
from helix_assets_tests.ask.test_sql import TINY
from helix_assets_tests.home import Memory, conversation


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    made.write("s1", *conversation(3))
    made.write("s2", *conversation(2, session="b"))
    made.sweep()
    yield made
    made.close()


def change(memory: Memory) -> None:
    """Everything that a reader may have in mind is replaced or gone."""
    evict.apply(memory.store, clock=lambda: memory.now, policy=TINY)
    memory.write("s1", *conversation(1, start=3), append=True)
    memory.sweep()


def before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[[], object]) -> None:
    """Do something right before a function is called for the first time."""
    call, done = getattr(owner, name), list[bool]()

    def after_that(*args: Any, **more: Any) -> Any:
        if not done:
            done.append(True)
            act()
        return call(*args, **more)

    monkeypatch.setattr(owner, name, after_that)


def _by_sql(memory: Memory) -> object:
    return ask(memory.store, "select (select count(*) from tool_calls), sum(tool_calls) from digests").rows


def _by_memory(memory: Memory) -> object:
    with OpenMemory(memory.store.data_dir) as opened:
        return opened.facts("tool_calls").aggregate("count(*)").fetchall()


def _by_report(memory: Memory) -> object:
    report = make_report(memory.store, "tool_report")
    return report.figures["calls"], report.left_out


@pytest.mark.parametrize(
    ("read", "answer"), [(_by_sql, [(6, 6)]), (_by_memory, [(6,)]), (_by_report, (6, ()))]
)  # fmt: skip
@pytest.mark.parametrize("moment", ["_create_views", "Views"])
def test_a_file_replaced_before_the_views_are_asked_is_found_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, moment: str, read: Callable[[Memory], object], answer: object
) -> None:
    before(monkeypatch, views, moment, lambda: change(memory))
    assert read(memory) == answer


def test_a_session_replaced_before_it_is_opened_is_shown_as_it_is_now(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, RawFiles, "open", lambda: change(memory))
    with open_session(memory.store, "claude:s1") as session:
        assert {row.line for row in session.rows(raw=False)} == {13, 14, 15, 16}
    with open_session(memory.store, "claude:s2") as session:
        assert session.evicted_at


@pytest.mark.parametrize("moment", ["_proven", "_excerpts"])
def test_a_search_beside_an_eviction_finds_what_is_left_of_a_session(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before(monkeypatch, Finder, moment, lambda: change(memory))
    found = Finder(memory.store).find("step")
    assert ({hit.session_uid for hit in found.hits}, found.left_out) == ({"claude:s1", "claude:s2"}, ())


def test_a_search_takes_a_file_that_goes_while_it_is_hashed_for_no_error(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, search, "file_hash", lambda: change(memory))
    assert Finder(memory.store).find("step").left_out == ()


def test_figures_of_an_export_hold_the_test_runs_that_are_replaced_meanwhile(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, FactFiles, "read", lambda: change(memory))
    runs = {uid: len(session.tests or ()) for uid, session in session_figures(memory.store).items()}
    assert runs == {"claude:s1": 4, "claude:s2": 2}


def test_a_status_counts_no_file_that_goes_while_it_counts(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch, status, "bytes_of", lambda: change(memory))
    assert status.read_status(memory.store).usage.distilled_bytes > 0


def test_a_damaged_file_is_no_reason_to_look_again(memory: Memory) -> None:
    name = next(iter(memory.store.raw.names()))
    memory.store.raw.path(name).write_bytes(b"no parquet")
    with pytest.raises(StoreError, match="damaged"), open_session(memory.store, _owner(memory, name)):
        pass
    memory.store.raw.path(name).unlink()
    with pytest.raises(StoreError, match="missing"), open_session(memory.store, _owner(memory, name)):
        pass


def _owner(memory: Memory, name: str) -> str:
    with memory.store.catalog.reading() as connection:
        query = "select session_uid from sessions join raw_files on session_id = sessions.id where name = ?"
        return str(connection.value(query, (name,)))


def test_a_store_that_never_rests_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()

    def read() -> None:
        calls.append(1)
        raise ChangedError("again")

    monkeypatch.setattr(reading, "_PATIENCE_S", 0.05)
    with pytest.raises(ChangedError):
        read_consistently(read)
    assert len(calls) > 1
