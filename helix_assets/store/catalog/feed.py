"""The feed: every change of a digest has a position that only grows, so that consumers catch up with what is newer.

Triggers give the positions: no writer can add, change or remove a digest without one, in the same transaction. Belongs
here: the triggers, the view `feed`, and how positions go on after an upgrade or a restore. docs/kaizen.md has the
contract with consumers.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from helix_assets.model.time import microseconds
from helix_assets.store.catalog.connection import Connection

OLD_FEED = "feed"
"""The folder of files that were the feed in earlier versions."""
_UNRECORDED = 500
"""How many entries a killed writer of those files may have added before the catalog recorded them."""
_LAST = "max(coalesce((SELECT max(position) FROM digests), 0), coalesce((SELECT max(position) FROM removals), 0))"
_PARTS = (
    "UNIQUE INDEX IF NOT EXISTS digests_by_position ON digests (position)",
    f"""TRIGGER IF NOT EXISTS digest_added AFTER INSERT ON digests BEGIN
        UPDATE digests SET (position, first_position) = (SELECT {_LAST} + 1, {_LAST} + 1)
        WHERE session_uid = new.session_uid;
    END""",
    f"""TRIGGER IF NOT EXISTS digest_changed AFTER UPDATE OF hash ON digests WHEN new.hash <> old.hash BEGIN
        UPDATE digests SET position = {_LAST} + 1 WHERE session_uid = new.session_uid;
    END""",
    # Before the row goes: its position must not be used again.
    f"""TRIGGER IF NOT EXISTS digest_removed BEFORE DELETE ON digests BEGIN
        INSERT INTO removals (position, first_position) VALUES ({_LAST} + 1, old.first_position);
    END""",
    # The casts give both halves the same types: only then does SQLite read them in order, instead of sorting all.
    """VIEW IF NOT EXISTS feed AS
        SELECT position, CASE WHEN position = first_position THEN 'new' ELSE 'revised' END AS change,
            first_position, session_uid, digest FROM digests
        UNION ALL
        SELECT position, 'forgotten', first_position, CAST(NULL AS TEXT), CAST(NULL AS TEXT) FROM removals""",
)


def make_feed(connection: Connection) -> None:
    """Make index, triggers and view."""
    for part in _PARTS:
        connection.execute(f"CREATE {part}")


def go_on_after_upgrade(connection: Connection) -> None:
    """Go on from the positions of the files that were the feed in earlier versions, and of their table `feed`."""
    if connection.value("SELECT 1 FROM sqlite_master WHERE name = 'feed' AND type = 'table'"):
        connection.execute("""UPDATE digests SET first_position = feed.position,
                position = CASE WHEN feed.hash = digests.hash THEN feed.position END
            FROM feed WHERE feed.session_uid = digests.session_uid""")
        connection.execute("DROP TABLE feed")
    if (last := connection.value("SELECT value FROM meta WHERE name = 'feed_position'")) is not None:
        _lose_track(connection, int(last) + _UNRECORDED)  # not every consumer has read what was forgotten before
        connection.execute("DELETE FROM meta WHERE name IN ('feed_position', 'feed_redacted_with')")
    _move_to_the_end(connection, "position IS NULL")
    connection.execute("UPDATE digests SET first_position = position WHERE first_position IS NULL")


def go_on_after_restore(connection: Connection, replaced: Path, now: datetime) -> None:
    """Move all digests of a restored copy behind every position that a consumer may have read.

    The replaced catalog may be damaged or another store's, so the time in microseconds is a lower bound.
    """
    last = 0
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{replaced.absolute().as_uri()}?mode=ro", uri=True)) as other,
    ):
        last = next(other.execute("SELECT position FROM feed ORDER BY position DESC LIMIT 1"), (0,))[0]
    _lose_track(connection, max(last, microseconds(now), _last(connection)) + 1)
    _move_to_the_end(connection, "TRUE")


def _last(connection: Connection) -> int:
    return int(connection.value(f"SELECT {_LAST}"))


def _lose_track(connection: Connection, position: int) -> None:
    """Have consumers compare what they have with `digests`, because what is gone is not known."""
    connection.execute("INSERT INTO removals (position) VALUES (?)", (position,))


def _move_to_the_end(connection: Connection, which: str) -> None:
    connection.execute(
        f"""UPDATE digests SET position = ? + place
        FROM (SELECT session_uid AS uid, row_number() OVER (ORDER BY written_at, session_uid) AS place
            FROM digests WHERE {which}) WHERE session_uid = uid""",
        (_last(connection),),
    )
