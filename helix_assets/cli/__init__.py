"""The command line: one module per command, listed in `listing`, run by `main`.

A command reads its arguments, calls `ask`, `sweep`, `keep` or `prove`, and prints the answer through `output`.
Not here: anything that the Dagster UI or another program could need, too.
"""
