"""helix_assets: a bounded memory of coding-agent sessions, seen through Dagster.

Nothing is imported here: `helix status` and the hooks must start in milliseconds.
"""

__version__ = "0.1.0"
