"""The Dagster skin."""
