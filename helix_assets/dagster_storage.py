"""Door: a dagster.yaml written before names these classes here. They are in `serve.dagster_storage`."""

from helix_assets.serve.dagster_storage import HelixArtifacts, HelixComputeLogs, HelixStorage

__all__ = ["HelixArtifacts", "HelixComputeLogs", "HelixStorage"]
