"""The Dagster skin: assets, checks, jobs, a sensor, schedules. What a sweep does stands in `sweep`."""
