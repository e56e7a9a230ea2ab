"""The columns that Dagster shows are those that are stored, each with a word of explanation."""

import pytest

from helix_assets.defs.columns import (
    DIGEST_COLUMNS,
    EVICTION_COLUMNS,
    SOURCE_COLUMNS,
    event_schema,
    table_schema,
)
from helix_assets.store.catalog.schema import columns_of
from helix_assets.store.parquet import SCHEMA


def test_the_columns_of_events_are_those_of_the_files() -> None:
    told = [(column.name, column.type) for column in event_schema().columns]
    assert told == [(field.name, str(field.type)) for field in SCHEMA]


@pytest.mark.parametrize(
    ("table", "described"),
    [("sources", SOURCE_COLUMNS), ("digests", DIGEST_COLUMNS), ("evictions", EVICTION_COLUMNS)],
)
def test_every_described_column_is_there(table: str, described: dict[str, str]) -> None:
    assert {column.name for column in table_schema(table, described).columns} == described.keys()


def test_events_and_digests_are_described_in_full() -> None:
    assert all(column.description for column in event_schema().columns)
    assert columns_of("digests").keys() - {"padding"} == DIGEST_COLUMNS.keys()  # which means nothing to anybody
