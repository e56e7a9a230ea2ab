"""The Dagster skin: assets, checks, jobs, sensors, schedules. Not here: what a sweep does (`sweep`)."""
