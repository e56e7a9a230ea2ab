"""The one entry point for Dagster: `dagster dev`, `dg dev` and `helix up` all load `defs`. Loading it does no I/O."""

from helix_assets.defs.build import build_defs

defs = build_defs()
