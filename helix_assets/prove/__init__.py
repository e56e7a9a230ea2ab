"""Proving the memory: every promise is a question that the store answers.

`prove.verify` proves the whole store, `promises` and `totals` answer Dagster's checks, `prove.doctor` checks the
set-up. Not here: repairs.
"""
