"""The partitions of the memory: agent x day, and how their names in Dagster and in the catalog translate."""

from __future__ import annotations

import dagster as dg

from helix_assets.agents import ADAPTERS, outside
from helix_assets.ask.partitions import Partition
from helix_assets.model.time import FIRST_DAY

ROWS, PARTITION_ROWS = "dagster/row_count", "dagster/partition_row_count"
"""Metadata that Dagster draws: the rows of a whole asset, and those of the partition."""

# Without the end offset there would be no partition for today.
DAYS = dg.DailyPartitionsDefinition(start_date=FIRST_DAY.isoformat(), end_offset=1)
FLAVORS = dg.StaticPartitionsDefinition([*ADAPTERS, *outside()])
PARTITIONS = dg.MultiPartitionsDefinition({"flavor": FLAVORS, "day": DAYS})


def key_of(partition: Partition) -> dg.MultiPartitionKey:
    """Dagster's name of a partition of the catalog."""
    flavor, day = partition
    return dg.MultiPartitionKey({"flavor": flavor, "day": day})


def partition_of(key: str) -> Partition:
    """The partition of the catalog with this name in Dagster."""
    named = PARTITIONS.get_partition_key_from_str(key).keys_by_dimension
    return named["flavor"], named["day"]
