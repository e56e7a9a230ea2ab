"""Where sessions, digests and cursors are kept."""
