"""A changed map of repositories, domains and tasks reaches stored sessions, and changes only those it concerns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helix_assets.ask.search import Finder
from helix_assets.derive.places import PlaceRules
from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets.store.store import Store
from helix_assets.sweep.placing import places_mark
from helix_assets_tests.home import Memory, answer, prompt, rows_of

SHOP, BLOG = "claude:shop", "claude:blog"
PLACE = ("repo", "domain", "task_ref")
MAP = {"HELIX_REPO_PATHS": "{'/srv/a' = 'store'}", "HELIX_REPO_DOMAINS": "{store = 'sales'}"}


def write(memory: Memory, name: str, cwd: str, text: str, **more: Any) -> None:
    said = answer(f"a{name}", "10:00:09", "done", message=f"m{name}", cwd=cwd)
    memory.write(name, prompt(f"p{name}", "10:00:00", text, cwd=cwd, **more), said, project=cwd.replace("/", "-"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Two swept sessions in two repositories."""
    made = Memory(tmp_path)
    write(made, "shop", "/srv/a/shop", "do JOB-17 now", gitBranch="fix/JOB-17")
    write(made, "blog", "/srv/b/blog", "go on")
    made.sweep()
    yield made
    made.close()


def under(memory: Memory, **environ: str) -> Memory:
    """The same home and store with another helix.toml."""
    memory.close()
    return Memory(memory.folder, environ, memory.now)


def place(memory: Memory, uid: str) -> tuple[Any, ...]:
    """The place of a session, if its row, its digest and the columns of its digest agree."""
    row, digest = memory.row(uid), memory.digest(uid)
    (columns,) = (row for row in rows_of(memory.store, "digests") if row.session_uid == uid)
    found = tuple(digest[name] for name in PLACE)
    assert found == (row.repo, row.domain, row.task_ref)
    assert found[:2] == (columns.repo, columns.domain)
    return found


def feed(store: Store) -> dict[str, tuple[str, int]]:
    """What the feed has last of each session."""
    return {row.session_uid: (row.change, row.position) for row in rows_of(store, "feed")}


def files_of(memory: Memory) -> dict[Path, int]:
    """All files of rows and facts, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in memory.store.data_dir.rglob("*.parquet")}


def test_changed_map_reaches_stored_sessions_and_no_others(memory: Memory) -> None:
    before, files, positions = memory.digest(SHOP), files_of(memory), feed(memory.store)
    memory = under(memory, **MAP, HELIX_TASK_PATTERNS="JOB-[0-9]+")
    report = memory.sweep()
    assert (report.digests_placed, report.sessions_touched, report.lines_read) == (1, 0, 0)
    assert place(memory, SHOP) == ("store", "sales", "JOB-17")
    changed = {"repo": "store", "domain": "sales", "task_ref": "JOB-17"}
    assert memory.digest(SHOP) == before | changed
    assert (files_of(memory), verify(memory.store)) == (files, [])
    after = feed(memory.store)
    assert after[SHOP] == ("revised", max(position for _, position in positions.values()) + 1)
    assert after[BLOG] == positions[BLOG]
    assert memory.sweep().digests_placed == 0


def test_place_is_the_one_that_a_new_memory_finds(memory: Memory, tmp_path: Path) -> None:
    memory = under(memory, **MAP, HELIX_TASK_PATTERNS="JOB-[0-9]+")
    memory.sweep()
    other = Memory(tmp_path / "new", memory.environ)
    write(other, "shop", "/srv/a/shop", "do JOB-17 now", gitBranch="fix/JOB-17")
    other.sweep()
    assert other.digest(SHOP) == memory.digest(SHOP) | {"source_path": str(other.path("shop", "-srv-a-shop"))}
    other.close()


def test_map_that_is_taken_back_leaves_no_trace(memory: Memory) -> None:
    text = memory.digest_text(SHOP)
    memory = under(memory, **MAP)
    memory.sweep()
    memory = under(memory)
    assert memory.sweep().digests_placed == 1
    assert memory.digest_text(SHOP) == text


def evict_all(memory: Memory) -> None:
    policy = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=1 << 40, max_age_days=400, distilled_cap_bytes=1 << 40)
    apply(memory.store, clock=lambda: memory.now, policy=policy)


def test_task_is_found_in_the_first_prompt_of_an_evicted_session(memory: Memory) -> None:
    evict_all(memory)
    memory.path("shop", "-srv-a-shop").unlink()
    memory = under(memory, HELIX_TASK_PATTERNS="do JOB-([0-9]+)", HELIX_REPO_DOMAINS="{shop = 'sales'}")
    memory.sweep()
    assert memory.row(SHOP).evicted_at is not None
    assert place(memory, SHOP) == ("shop", "sales", "17")
    assert verify(memory.store) == []


def test_search_finds_an_evicted_session_by_its_new_repository(memory: Memory) -> None:
    evict_all(memory)
    memory = under(memory, HELIX_REPO_PATHS="{'/srv/a' = 'warehouse'}")
    memory.sweep()
    assert [hit.session_uid for hit in Finder(memory.store).find("warehouse").hits] == [SHOP]


def test_damaged_digest_stays_as_it_is(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE digests SET digest = replace(digest, 'JOB', 'XXX') WHERE session_uid = ?", (SHOP,))
    damaged = memory.digest_text(SHOP)
    memory = under(memory, HELIX_REPO_DOMAINS="{shop = 'sales', blog = 'web'}")
    assert memory.sweep().digests_placed == 1
    assert (memory.digest_text(SHOP), memory.row(SHOP).domain) == (damaged, None)
    assert place(memory, BLOG)[1] == "web"


def test_first_sweep_has_nothing_to_place_again(tmp_path: Path) -> None:
    memory = Memory(tmp_path, MAP)
    write(memory, "shop", "/srv/a/shop", "go")
    assert (memory.sweep().digests_placed, place(memory, SHOP)[1]) == (0, "sales")
    memory.close()


@pytest.mark.parametrize(
    "other",
    [
        {"paths": {"/a": "b"}},
        {"domains": {"a": "c"}},
        {"task_patterns": ("y", "x")},
        {"worktrees": ()},
    ],
)
def test_whatever_changes_a_place_changes_the_mark(memory: Memory, other: dict[str, Any]) -> None:
    rules = replace(memory.store.settings.places, paths={"/a": "a"}, domains={"a": "b"}, task_patterns=("x", "y"))
    assert isinstance(rules, PlaceRules)
    assert places_mark(rules) != places_mark(replace(rules, **other))
