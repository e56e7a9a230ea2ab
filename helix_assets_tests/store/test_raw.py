"""The folder of part files: a file is there as a whole or not at all."""

from pathlib import Path

import pytest

from helix_assets.store.raw import RawFiles

NAME = "flavor=claude/day=2026-06-05/abc.1.0.parquet"


@pytest.fixture
def cache(tmp_path: Path) -> RawFiles:
    cache = RawFiles(tmp_path)
    cache.prepare()
    return cache


def stage(tmp_path: Path, text: bytes, name: str = "part.1") -> str:
    (tmp_path / "raw" / "staging" / name).write_bytes(text)
    return name


def test_published_file_is_listed_and_readable(cache: RawFiles, tmp_path: Path):
    cache.publish(stage(tmp_path, b"rows"), NAME)
    assert list(cache.names()) == [NAME]
    with cache.open(NAME) as file:
        assert file.read() == b"rows"


def test_staged_file_is_not_published(cache: RawFiles, tmp_path: Path):
    stage(tmp_path, b"rows")
    assert list(cache.names()) == []
    cache.clear_staging()
    assert not list((tmp_path / "raw" / "staging").iterdir())


def test_publishing_again_replaces(cache: RawFiles, tmp_path: Path):
    cache.publish(stage(tmp_path, b"old"), NAME)
    cache.publish(stage(tmp_path, b"new"), NAME)
    with cache.open(NAME) as file:
        assert file.read() == b"new"


def test_removed_file_is_gone_and_removing_again_is_fine(cache: RawFiles, tmp_path: Path):
    cache.publish(stage(tmp_path, b"rows"), NAME)
    cache.remove(NAME)
    cache.remove(NAME)
    assert list(cache.names()) == []
    with pytest.raises(FileNotFoundError):
        cache.open(NAME)
