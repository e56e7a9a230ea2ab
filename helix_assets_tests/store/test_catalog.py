"""What the catalog remembers of files, and that something was committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helix_assets.store.catalog import meta, sources
from helix_assets.store.catalog.catalog import Catalog, create_catalog, open_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    create_catalog(tmp_path)
    made = open_catalog(tmp_path)
    yield made
    made.close()


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
