"""Proving the memory: every promise as a question that the store answers.

`prove.verify` proves the whole store, `promises` and `totals` answer for Dagster's checks, `prove.doctor` looks at the
set-up. Not here: putting anything right.
"""
