"""The pure heart: no dagster, no duckdb, no disk, no environment, no clock."""
