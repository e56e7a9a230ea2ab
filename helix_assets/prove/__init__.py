"""Proving the memory: every promise is a question that the store answers.

`promises` lists them all: `verify`, Dagster's checks and `doctor` each ask their part. Not here: repairs.
"""
