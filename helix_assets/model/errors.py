"""The exceptions of helix_assets, branching by what the caller should do.

    HelixError
    ├── SkipSource           leave this one source out, count it, go on with the rest
    ├── RetryLater           nothing is wrong: the same call may work later
    │   ├── BusyError        another process holds the writer lock
    │   └── ChangedError     what was being read was replaced or evicted meanwhile
    └── StopRun              someone has to act first; the message says what
        ├── SettingsError    helix.toml or a HELIX_* variable is wrong
        ├── StoreError       the store is damaged, foreign, or of a newer version
        │   └── DiskFullError  the disk has no room for what has to be written to it
        ├── NotFoundError    the thing asked for by name is not in the store
        └── QueryError       a search or an SQL query cannot be answered as it is

A message names the file, the line if there is one, and the next step. No transcript text goes into a message.
`exit_code` is what the command line ends with (sysexits.h where a code fits).
"""

from typing import ClassVar, NamedTuple


class HelixError(Exception):
    """Root of every error that helix_assets raises on purpose."""

    exit_code: ClassVar[int] = 1


class SkipSource(HelixError):
    """One source cannot be read; the sweep counts it and goes on."""


class RetryLater(HelixError):
    """The call failed for a passing reason and may be repeated unchanged."""

    exit_code = 75


class BusyError(RetryLater):
    """Another process is writing to the store."""


class ChangedError(RetryLater):
    """A file that was being read was replaced or evicted; a new look at the catalog finds what counts now."""


class StopRun(HelixError):
    """Going on makes no sense until someone has acted on the message."""


class SettingsError(StopRun):
    """A setting is unknown, malformed or contradicts another one."""

    exit_code = 78


class StoreError(StopRun):
    """The store is damaged, belongs to someone else, or was written by a newer version."""

    exit_code = 65


class DiskFullError(StoreError):
    """There is no room on the store's disk, for SQLite not even to read."""


class NotFoundError(StopRun):
    """The session, partition or file that was asked for is not known."""


class QueryError(StopRun):
    """A question to the memory is malformed, not allowed, or too large."""

    exit_code = 64


class Problem(NamedTuple):
    """Something that could not be read: counted, shown with file and line, never fatal."""

    path: str
    reason: str
    line: int | None = None
    offset: int | None = None
