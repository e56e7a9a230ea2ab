"""What the assets that follow the digests have in common: their owners, their input, and when they are made."""

import dagster as dg

from helix_assets.ask.partitions import SESSION_DIGESTS

OWNERS = ["team:helix"]
# Each is one thing about the sessions of all days.
OF_ALL_DIGESTS = dg.AssetDep(SESSION_DIGESTS, partition_mapping=dg.AllPartitionMapping())
# Plain `eager` would wait until no partition of the digests is missing, which never happens.
WHEN_DIGESTS_CHANGE = dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())
