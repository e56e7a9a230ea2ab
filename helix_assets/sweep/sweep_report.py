"""What a sweep reports: its numbers when it has ended, its progress until then."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class SweepReport:
    """What a sweep did. Every number is counted where it happens."""

    files_seen: int = 0
    files_changed: int = 0
    files_gone: int = 0
    files_excluded: int = 0
    files_skipped: int = 0
    sessions_touched: int = 0
    sessions_failed: int = 0
    files_opened: int = 0
    lines_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_unparsed: int = 0
    redactions: int = 0
    records_withheld: int = 0
    rows_rederived: int = 0
    digests_written: int = 0
    digests_repriced: int = 0
    digests_placed: int = 0
    digests_failed: int = 0
    seconds: float = 0.0
    partitions: set[tuple[str, str]] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    problems: list[tuple[str, str]] = field(default_factory=list)

    def counters(self) -> dict[str, int | float]:
        """Only the numbers, as they are stored with the sweep."""
        return {k: v for k, v in vars(self).items() if isinstance(v, int | float)}


class Progress:
    """Receives the progress of a sweep; this one ignores it."""

    def start(self, total_bytes: int) -> None:
        """Called with the bytes of all changed files."""

    def advance(self, done_bytes: int, session_uid: str) -> None:
        """Called when a session is done."""
