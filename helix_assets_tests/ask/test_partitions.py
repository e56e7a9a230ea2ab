"""The figures and versions of partitions, as the catalog has them and as the disk has them now."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from helix_assets.ask.partitions import (
    SESSION_DIGESTS,
    SESSION_EVENTS,
    SOURCE_FILES,
    OnDisk,
    PartitionFigures,
    data_versions,
    empty_version,
    figures_of,
    row_count,
    sessions_by_partition,
)
from helix_assets_tests.home import Memory, conversation


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Two sessions of one day."""
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(1))
    memory.write("s2", *conversation(2, session="b"))
    memory.sweep()
    yield memory
    memory.close()


def test_sessions_are_counted_by_agent_and_day(memory: Memory) -> None:
    (((flavor, day), count),) = sessions_by_partition(memory.store, "2000-01-01").items()
    assert (flavor, count) == ("claude", 2)
    assert sessions_by_partition(memory.store, day) == {(flavor, day): 2}
    assert sessions_by_partition(memory.store, "2999-01-01") == {}


def test_a_partition_has_its_figures_and_one_without_sessions_has_no_rows(memory: Memory) -> None:
    (partition,) = sessions_by_partition(memory.store, "2000-01-01")
    empty = ("claude", "2000-01-01")
    figures = figures_of(memory.store, SESSION_DIGESTS, [partition, empty])
    assert figures[empty] == PartitionFigures(0, {})
    assert figures[partition].rows == row_count(memory.store, SESSION_DIGESTS) == 2
    assert figures[partition].counts["turns"] == 3
    assert figures_of(memory.store, SESSION_EVENTS, [partition])[partition].counts["sessions"] == 2


def test_a_file_that_went_since_the_last_sweep_is_gone_on_disk_alone(memory: Memory) -> None:
    (partition,) = sessions_by_partition(memory.store, "2000-01-01")
    on_disk = OnDisk({}, frozenset([str(memory.path("s1"))]))
    (known,) = figures_of(memory.store, SOURCE_FILES, [partition]).values()
    (now,) = figures_of(memory.store, SOURCE_FILES, [partition], on_disk).values()
    assert (known.rows, known.counts["files_gone"]) == (2, 0)
    assert (now.rows, now.counts["files_gone"]) == (1, 1)
    assert data_versions(memory.store, SOURCE_FILES, on_disk) != data_versions(memory.store, SOURCE_FILES)


def test_a_version_changes_with_the_sessions_of_its_partition(memory: Memory) -> None:
    before = data_versions(memory.store, SESSION_EVENTS)
    assert data_versions(memory.store, SESSION_EVENTS) == before
    memory.write("s1", *conversation(1, start=1), append=True)
    memory.sweep()
    after = data_versions(memory.store, SESSION_EVENTS)
    assert before.keys() == after.keys()
    assert before != after
    assert empty_version(SESSION_EVENTS) not in after.values()
