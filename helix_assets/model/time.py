"""Times: stored as microseconds since 1970, shown as ISO UTC to the millisecond."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND_US = 1_000_000
FIRST_DAY = date(2024, 1, 1)
"""The first partition; a session whose log claims an older day is kept under this one."""


def iso(us: int | None) -> str | None:
    """ISO text with milliseconds and a Z; None stays None."""
    if us is None:
        return None
    try:
        moment = EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def microseconds_of(text: str | None) -> int | None:
    """Microseconds since 1970 of an ISO time that we wrote; None stays None."""
    return None if text is None else microseconds(datetime.fromisoformat(text))


def day_of(us: int) -> date:
    """The UTC day."""
    return (EPOCH + timedelta(microseconds=us)).date()


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 of an aware moment."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND_US + since.microseconds
