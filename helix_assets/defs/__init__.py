"""The Dagster skin over `pipeline`: assets, checks, jobs, a sensor, schedules. What a sweep does is not said here."""
