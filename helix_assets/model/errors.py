"""The exceptions of helix_assets, ordered by what the caller should do.

    HelixError
    ├── SkipSource           skip this one source, count it, continue with the rest
    ├── RetryLater           nothing is wrong: the same call may work later
    │   ├── BusyError        another process holds the writer lock, or the catalog
    │   ├── ChangedError     what was being read was replaced or evicted meanwhile
    │   └── WithheldError    no sweep has redacted it by the rules in force yet
    └── StopRun              someone has to act first; the message says what
        ├── SettingsError    helix.toml or a HELIX_* variable is wrong
        ├── StoreError       the store is damaged, foreign, or of a newer version
        │   ├── DiskFullError  the disk has no room for what has to be written to it
        │   └── NoAccessError  the file system is read-only, or rights are missing
        ├── NotFoundError    the store does not have what was asked for by name
        └── QueryError       a search or an SQL query cannot be answered as it is

A message names the file, the line if there is one, and the next step. No transcript text goes into a message.
`exit_code` is the exit code of the command line (from sysexits.h where one fits).
"""

from typing import ClassVar, NamedTuple


class HelixError(Exception):
    """Root of every error that helix_assets raises on purpose."""

    exit_code: ClassVar[int] = 1


class SkipSource(HelixError):
    """One source cannot be read; the sweep counts it and continues."""


class RetryLater(HelixError):
    """The call failed for a temporary reason and may be repeated unchanged."""

    exit_code = 75


class BusyError(RetryLater):
    """Another process is writing to the store, or keeps its catalog locked."""


class ChangedError(RetryLater):
    """A file was replaced or evicted while it was read; the catalog names the current one."""


class WithheldError(RetryLater):
    """The redaction rules changed, and what was asked for is not shown before a sweep has redacted it by them."""


class StopRun(HelixError):
    """It makes no sense to continue until someone has acted on the message."""


class SettingsError(StopRun):
    """A setting is unknown, malformed or contradicts another one."""

    exit_code = 78


class StoreError(StopRun):
    """The store is damaged, belongs to someone else, or was written by a newer version."""

    exit_code = 65


class DiskFullError(StoreError):
    """The store's disk is full, so full that SQLite may not even read."""


class NoAccessError(StoreError):
    """The catalog may not be opened or written where it is. SQLite writes next to a file even to read it."""


class NotFoundError(StopRun):
    """The session, partition or file asked for is not known."""


class QueryError(StopRun):
    """A query of the memory is malformed, not allowed, or too large."""

    exit_code = 64


class Problem(NamedTuple):
    """Something that could not be read: counted, shown with file and line, never fatal."""

    path: str
    reason: str
    line: int | None = None
    offset: int | None = None
