"""The web side: the guard in front of Dagster's UI, and the process that serves both. No pipeline code."""
