"""One question for `ask.digest_lookup`: a digest by uid, with what says whether it may be shown.

A module of its own that imports nothing of ours, because the answer takes five milliseconds.
"""

import sqlite3

Found = tuple[str, str, str, str | None, str | None]
"""Uid, digest and its hash; then the rules that all digests are redacted by (the second name of them is that of earlier
versions, see `store.store.redacted_with`), and the stamp of these rules (`settings.rules_stamp`)."""

_QUERY = """
select d.session_uid, d.digest, d.hash, coalesce(
    (select value from meta where name = 'memory_redacted_with'),
    (select value from meta m where name = 'names_redacted_with'
        and exists (select 1 from meta where name = 'names_read_as' and value = 'decoded')
        and not exists (select 1 from sessions where redaction_version <> m.value))
), (select value from meta where name = 'rules_stamp') from digests d where """
_EXACT = _QUERY + "d.session_uid = ?"
_PREFIX = (
    _QUERY
    + "substr(d.session_uid, 1, length(:p)) = :p "
    + "or substr(d.session_uid, instr(d.session_uid, ':') + 1, length(:p)) = :p order by d.session_uid limit 21"
)


def digests_named(connection: sqlite3.Connection, text: str) -> list[Found]:
    """The digest of exactly this uid, else those of sessions whose uid or native id begins with it, 21 at most."""
    return connection.execute(_EXACT, (text,)).fetchall() or connection.execute(_PREFIX, {"p": text}).fetchall()
