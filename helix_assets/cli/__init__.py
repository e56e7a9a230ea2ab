"""The command line: one module per command, `listing` lists them, `main` runs them, `output` is how they print."""
