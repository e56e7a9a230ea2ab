"""What every raw cache keeps to, the real one and its twin in memory; and what the catalog keeps to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helix_assets.store.catalog import digests, meta, sources
from helix_assets.store.catalog.catalog import Catalog, create_catalog, open_catalog
from helix_assets.store.protocols import RawCache
from helix_assets.store.raw import RawFiles
from helix_assets_tests.home import Memory, conversation, rows_of
from helix_assets_tests.store.fakes import MemoryRawCache

NAME = "flavor=claude/day=2026-06-05/abc.1.0.parquet"


@pytest.fixture(params=["files", "memory"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> RawCache:
    real = RawFiles(tmp_path)
    real.prepare()
    return real if request.param == "files" else MemoryRawCache(real.staging)


def stage(tmp_path: Path, text: bytes, name: str = "part.1") -> str:
    (tmp_path / "raw" / "staging" / name).write_bytes(text)
    return name


def test_published_file_is_listed_and_readable(cache: RawCache, tmp_path: Path):
    cache.publish(stage(tmp_path, b"rows"), NAME)
    assert list(cache.names()) == [NAME]
    with cache.open(NAME) as file:
        assert file.read() == b"rows"


def test_staged_file_is_not_published(cache: RawCache, tmp_path: Path):
    stage(tmp_path, b"rows")
    assert list(cache.names()) == []
    cache.clear_staging()
    assert not list((tmp_path / "raw" / "staging").iterdir())


def test_publishing_again_replaces(cache: RawCache, tmp_path: Path):
    cache.publish(stage(tmp_path, b"old"), NAME)
    cache.publish(stage(tmp_path, b"new"), NAME)
    with cache.open(NAME) as file:
        assert file.read() == b"new"


def test_removed_file_is_gone_and_removing_again_is_fine(cache: RawCache, tmp_path: Path):
    cache.publish(stage(tmp_path, b"rows"), NAME)
    cache.remove(NAME)
    cache.remove(NAME)
    assert list(cache.names()) == []
    with pytest.raises(FileNotFoundError):
        cache.open(NAME)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    create_catalog(tmp_path)
    made = open_catalog(tmp_path)
    yield made
    made.close()


@pytest.fixture
def digest_row(tmp_path: Path) -> dict[str, Any]:
    """The row of a real digest."""
    memory = Memory(tmp_path / "memory", {"HELIX_AGENTS": "claude"})
    memory.write("s1", *conversation(1))
    memory.sweep()
    (row,) = rows_of(memory.store, "digests")
    memory.close()
    return row.as_dict()


def test_digest_is_replaced_as_a_whole(digest_row: dict[str, Any], catalog: Catalog):
    newer = digest_row | {"digest": digest_row["digest"].replace('"outcome":"success"', '"outcome":"fail"')}
    for row in (digest_row, newer):
        with catalog.writing() as connection:
            digests.put(connection, [row])
        with catalog.reading() as connection:
            (stored,) = connection.execute("SELECT * FROM digests")
        assert stored.as_dict() == row


def test_no_question_about_digests_deletes_one():
    assert not [name for name in vars(digests) if any(word in name for word in ("delete", "remove", "drop"))]


def source(path: str, size: int = 10) -> dict[str, Any]:
    return {"path_key": path, "path": path, "flavor": "claude", "role": "main", "file_rank": 0, "dev": 1, "inode": 2,
            "size": size, "mtime_ns": 3, "status": "ok", "discovered_at": "2026-06-05T10:00:00.000Z"}  # fmt: skip


def test_cursor_is_known_once_written_and_follows_its_file(catalog: Catalog):
    for size in (10, 20):
        with catalog.writing() as connection:
            sources.put(connection, [source("/a", size)])
    with catalog.reading() as connection:
        assert sources.known(connection) == ({"/a": (1, 2, 20, 3)}, {})


def test_marking_touches_only_the_named_files(catalog: Catalog):
    with catalog.writing() as connection:
        sources.put(connection, [source("/a"), source("/b")])
        sources.mark(connection, ["/a", "/nowhere"], status="gone")
    with catalog.reading() as connection:
        known = sources.known(connection)
    assert known.states.keys() == {"/a", "/b"}
    assert known.unusual == {"/a": "gone"}


def test_a_catalog_knows_that_something_was_committed(tmp_path: Path) -> None:
    create_catalog(tmp_path)
    ours, theirs = open_catalog(tmp_path), open_catalog(tmp_path)
    before = ours.change()
    assert ours.change() == before
    for catalog in (theirs, ours):
        with catalog.writing() as connection:
            meta.put(connection, "x", str(before))
        assert ours.change() != before
        before = ours.change()
    for catalog in (ours, theirs):
        catalog.close()
