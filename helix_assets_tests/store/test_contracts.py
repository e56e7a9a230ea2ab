"""What every raw cache, digest store and cursor store keeps to: the real ones and their twins in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helix_assets.store.catalog.catalog import Catalog, create_catalog, open_catalog
from helix_assets.store.protocols import CursorStore, DigestStore, RawCache
from helix_assets.store.raw import RawFiles
from helix_assets_tests.home import Memory, conversation
from helix_assets_tests.store.fakes import MemoryCursorStore, MemoryDigestStore, MemoryRawCache

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


@pytest.fixture(params=["catalog", "memory"])
def digest_store(request: pytest.FixtureRequest, catalog: Catalog) -> DigestStore:
    return catalog if request.param == "catalog" else MemoryDigestStore()


@pytest.fixture
def digest_row(tmp_path: Path) -> dict[str, Any]:
    """The row of a real digest."""
    memory = Memory(tmp_path / "memory", {"HELIX_AGENTS": "claude"})
    memory.write("s1", *conversation(1))
    memory.sweep()
    with memory.store.catalog.reading() as connection:
        row = dict(connection.exec_driver_sql("select * from digests").mappings().one())
    memory.close()
    return row


def test_digest_comes_back_as_written(digest_store: DigestStore, digest_row: dict[str, Any], catalog: Catalog):
    with catalog.writing() as connection:
        digest_store.put_digests(connection, [digest_row])
    digest = digest_store.get_digest("claude:s1")
    assert digest is not None
    assert digest.model_dump_json() == digest_row["digest"]


def test_digest_is_replaced_as_a_whole(digest_store: DigestStore, digest_row: dict[str, Any], catalog: Catalog):
    newer = digest_row | {"digest": digest_row["digest"].replace('"outcome":"success"', '"outcome":"fail"')}
    for row in (digest_row, newer):
        with catalog.writing() as connection:
            digest_store.put_digests(connection, [row])
    digest = digest_store.get_digest("claude:s1")
    assert digest is not None
    assert digest.model_dump_json() == newer["digest"]


def test_unknown_digest_is_none_and_none_can_be_deleted(digest_store: DigestStore):
    assert digest_store.get_digest("claude:none") is None
    assert not [
        name
        for name in dir(digest_store)
        if "digest" in name and ("delete" in name or "remove" in name or "drop" in name)
    ]


@pytest.fixture(params=["catalog", "memory"])
def cursors(request: pytest.FixtureRequest, catalog: Catalog) -> CursorStore:
    return catalog if request.param == "catalog" else MemoryCursorStore()


def source(path: str, size: int = 10) -> dict[str, Any]:
    return {"path_key": path, "path": path, "flavor": "claude", "role": "main", "file_rank": 0, "dev": 1, "inode": 2,
            "size": size, "mtime_ns": 3, "status": "ok", "discovered_at": "2026-06-05T10:00:00.000Z"}  # fmt: skip


def test_cursor_is_known_once_written_and_follows_its_file(cursors: CursorStore, catalog: Catalog):
    for size in (10, 20):
        with catalog.writing() as connection:
            cursors.put_sources(connection, [source("/a", size)])
    assert cursors.known_sources() == ({"/a": (1, 2, 20, 3)}, {})


def test_marking_touches_only_the_named_files(cursors: CursorStore, catalog: Catalog):
    with catalog.writing() as connection:
        cursors.put_sources(connection, [source("/a"), source("/b")])
        cursors.mark_sources(connection, ["/a", "/nowhere"], status="gone")
    known = cursors.known_sources()
    assert known.states.keys() == {"/a", "/b"}
    assert known.unusual == {"/a": "gone"}


def test_a_catalog_knows_that_something_was_committed(tmp_path: Path) -> None:
    create_catalog(tmp_path)
    ours, theirs = open_catalog(tmp_path), open_catalog(tmp_path)
    before = ours.change()
    assert ours.change() == before
    for catalog in (theirs, ours):
        with catalog.writing() as connection:
            catalog.set_meta(connection, "x", str(before))
        assert ours.change() != before
        before = ours.change()
    for catalog in (ours, theirs):
        catalog.close()
