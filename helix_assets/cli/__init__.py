"""The command line: one module per command, `main` names them all, `output` is how they speak."""
