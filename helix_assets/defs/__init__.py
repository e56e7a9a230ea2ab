"""The Dagster definitions: assets, checks, jobs, sensors, schedules.

Each of them calls `sweep`, `keep`, `ask` or `prove` and reports the result as metadata, without any text of a session.
Not here: what a sweep, an eviction or a report does.
"""
