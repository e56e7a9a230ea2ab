"""The feed of digests: every new and revised one under a position that only grows, for consumers that catch up.

A consumer keeps the last position it has handled and reads what comes after it, each position once. JSON Lines files
are authoritative, and a Parquet file is made of each. Belongs here: writing them, and rewriting them if something is
forgotten, redacted by new rules or superseded. docs/kaizen.md has the contract.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import delete, select
from sqlalchemy.dialects.sqlite import insert as upsert

from helix_assets.ask.reading import digest_shown
from helix_assets.model.errors import StoreError
from helix_assets.redaction.again import digest_again
from helix_assets.store.catalog.old_tables import digests, feed, sessions
from helix_assets.store.catalog.tombstones import alias
from helix_assets.store.durable import replace_file
from helix_assets.store.proof import is_proven
from helix_assets.store.store import Store

FOLDER = "feed"
SEGMENT = 1000
"""How many positions a file holds."""
_AT_ONCE = 500
_POSITION = "feed_position"
_RULES = "feed_redacted_with"
_PLAIN = ("flavor", "repo", "outcome", "started_at", "ended_at", "schema_version")
Entry = dict[str, Any]


@dataclass(frozen=True)
class Fed:
    """What was added; `position` is the last one, `damaged` digests are left out until they are repaired."""

    position: int = 0
    new: int = 0
    revised: int = 0
    damaged: int = 0


def read_feed(data_dir: Path, after: int = 0) -> Iterator[Entry]:
    """The entries after a position, in order. One that is being written is left for the next call."""
    for path in _segments(data_dir / FOLDER):
        if _last_of(path) > after:
            yield from (entry for entry in _entries(path) if entry["position"] > after)


def append_news(store: Store, now: str) -> Fed:
    """Add every digest that is new or changed since the last call. Needs the writer lock.

    A kill at any moment doubles nothing: entries that the catalog does not know yet are found by their positions.
    """
    first = last = _recover(store)
    fed = Fed(position=last)
    for uids in _parts(_outdated(store)):
        entries = []
        rows = _rows(store, uids)
        for row in rows:
            if not is_proven(row, store.key):
                fed = replace(fed, damaged=fed.damaged + 1)
                continue
            last += 1
            shown = digest_shown(store, row.digest, row.redaction_version)
            is_new = row.fed is None
            entries.append(_entry(last, "new" if is_new else "revised", now, row.session_uid, shown, row.hash))
            fed = replace(fed, position=last, new=fed.new + is_new, revised=fed.revised + (not is_new))
        _append(store.data_dir / FOLDER, entries)
        _note(store, entries, last)
    if first and _segment_of(last) > _segment_of(first):
        _drop_superseded(store)
    return fed


def forget_in_feed(store: Store, uids: Collection[str], now: str) -> None:
    """Remove sessions from all entries, and append an entry that lists the positions that consumers should forget.

    Needs the writer lock. An entry never names a forgotten session. A damaged feed is deleted: all other digests are
    then fed again.
    """
    try:
        _forget(store, uids, now)
    except StoreError:
        shutil.rmtree(store.data_dir / FOLDER)


def _forget(store: Store, uids: Collection[str], now: str) -> None:
    last = _recover(store)
    folder, wanted = store.data_dir / FOLDER, set(uids)
    positions: dict[str, list[int]] = {}
    for path in _segments(folder):
        for entry in _entries(path):
            if entry["session_uid"] in wanted:
                positions.setdefault(entry["session_uid"], []).append(entry["position"])
    entries = [
        _entry(position, "forgotten", now, alias(store, uid), None, None) | {"positions": positions[uid]}
        for position, uid in enumerate(sorted(positions), start=last + 1)
    ]
    _append(folder, entries)
    _rewrite_all(folder, lambda entry: _erased(store, entry) if entry["session_uid"] in wanted else entry)
    with store.catalog.writing() as connection:
        connection.execute(delete(feed).where(feed.c.session_uid.in_(list(wanted))))
        store.catalog.set_meta(connection, _POSITION, str(last + len(entries)))


def redact_feed(store: Store) -> int:
    """Redact all entries by the rules in force. Returns how many files changed. Needs the writer lock."""
    if store.catalog.meta_value(_RULES) == store.redactor.version:
        return 0
    try:
        changed = _rewrite_all(store.data_dir / FOLDER, lambda entry: _redacted(store, entry))
    except StoreError:  # what cannot be read cannot be redacted: all digests are fed again
        shutil.rmtree(store.data_dir / FOLDER)
        changed = 1
    with store.catalog.writing() as connection:
        store.catalog.set_meta(connection, _RULES, store.redactor.version)
    return changed


# -- what is new -----------------------------------------------------------------------------------------------------


def _outdated(store: Store) -> list[str]:
    """The sessions whose digest differs from what the feed has, in the order of writing."""
    query = (
        select(digests.c.session_uid)
        .outerjoin(feed, feed.c.session_uid == digests.c.session_uid)
        .where(feed.c.hash.is_(None) | (feed.c.hash != digests.c.hash))
        .order_by(digests.c.written_at, digests.c.session_uid)
    )
    with store.catalog.reading() as connection:
        return list(connection.execute(query).scalars())


def _rows(store: Store, uids: Collection[str]) -> list[Any]:
    query = (
        select(digests, feed.c.hash.label("fed"), sessions.c.redaction_version)
        .outerjoin(feed, feed.c.session_uid == digests.c.session_uid)
        .outerjoin(sessions, sessions.c.session_uid == digests.c.session_uid)
        .where(digests.c.session_uid.in_(uids))
        .order_by(digests.c.written_at, digests.c.session_uid)
    )
    with store.catalog.reading() as connection:
        return list(connection.execute(query))


def _parts(uids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(uids), _AT_ONCE):
        yield uids[start : start + _AT_ONCE]


def _entry(position: int, change: str, at: str, uid: str, digest: Entry | None, revision: str | None) -> Entry:  # noqa: PLR0913, PLR0917 - an entry has so many fields
    return {"position": position, "change": change, "at": at, "session_uid": uid, "revision": revision,
            "digest": digest}  # fmt: skip


def _erased(store: Store, entry: Entry) -> Entry:
    uid = alias(store, entry["session_uid"])
    return entry | {"change": "forgotten", "session_uid": uid, "revision": None, "digest": None}


def _redacted(store: Store, entry: Entry) -> Entry:
    uid = store.redactor.text(entry["session_uid"]).text
    digest = entry["digest"] and digest_again(store.redactor, entry["digest"])
    return entry | {"session_uid": uid, "digest": digest}


def _recover(store: Store) -> int:
    """Record the entries that a killed writer left. Returns the last position."""
    folder = store.data_dir / FOLDER
    last = int(store.catalog.meta_value(_POSITION) or 0)
    paths = _segments(folder)
    if not paths and last:  # the files are gone: everything is fed again
        with store.catalog.writing() as connection:
            connection.execute(delete(feed))
        return last
    if paths:
        _cut_torn_line(paths[-1])
    behind = list(read_feed(store.data_dir, last))
    if behind:
        last = behind[-1]["position"]
        _write_parquets(folder, {_segment_of(entry["position"]) for entry in behind})
        _note(store, behind, last)
    return last


def _note(store: Store, entries: Sequence[Entry], last: int) -> None:
    """Record in the catalog what the files contain."""
    newest = {entry["session_uid"]: entry for entry in entries if entry["revision"]}
    rows = [{"session_uid": uid, "hash": e["revision"], "position": e["position"]} for uid, e in newest.items()]
    has_rules = store.catalog.meta_value(_RULES) is not None
    with store.catalog.writing() as connection:
        if rows:
            fresh = upsert(feed)
            values = {name: fresh.excluded[name] for name in ("hash", "position")}
            connection.execute(fresh.on_conflict_do_update(index_elements=["session_uid"], set_=values), rows)
        store.catalog.set_meta(connection, _POSITION, str(last))
        if not has_rules:
            store.catalog.set_meta(connection, _RULES, store.redactor.version)


# -- files -----------------------------------------------------------------------------------------------------------


def _segment_of(position: int) -> int:
    return (position - 1) // SEGMENT


def _name(segment: int) -> str:
    return f"digests-{segment * SEGMENT + 1:012d}"


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("digests-*.jsonl"))


def _last_of(path: Path) -> int:
    """The last position that a segment may hold."""
    return int(path.stem.partition("-")[2]) + SEGMENT - 1


def _entries(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as exc:
                raise StoreError(f"{path}:{number} is damaged: move the folder away, and it is rebuilt") from exc


def _append(folder: Path, entries: list[Entry]) -> None:
    """Append entries to their segments and sync these, before the catalog records the entries."""
    segments = sorted({_segment_of(entry["position"]) for entry in entries})
    if segments:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for segment in segments:
        lines = b"".join(_line(entry) for entry in entries if _segment_of(entry["position"]) == segment)
        fd = os.open(folder / f"{_name(segment)}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(fd)
    _write_parquets(folder, segments)


def _line(entry: Entry) -> bytes:
    return orjson.dumps(entry) + b"\n"


def _cut_torn_line(path: Path) -> None:
    """Remove the incomplete line that a killed writer left: no reader has taken it."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)


def _rewrite_all(folder: Path, change: Callable[[Entry], Entry | None]) -> int:
    """Apply a change to every entry; None drops it. Positions stay. Returns how many files changed."""
    changed = 0
    for path in _segments(folder):
        before = list(_entries(path))
        after = [new for entry in before if (new := change(dict(entry))) is not None]
        if after != before:
            replace_file(path, b"".join(map(_line, after)))
            _write_parquets(folder, [_segment_of(_last_of(path))])
            changed += 1
    return changed


def _drop_superseded(store: Store) -> None:
    """Drop superseded entries from the files that are full."""
    with store.catalog.reading() as connection:
        rows = connection.execute(select(feed.c.session_uid, feed.c.position))
        newest = {row.session_uid: row.position for row in rows}
    open_segment = _segment_of(int(store.catalog.meta_value(_POSITION) or 1))

    def keep(entry: Entry) -> Entry | None:
        is_open = _segment_of(entry["position"]) == open_segment
        return entry if is_open or newest.get(entry["session_uid"], 0) <= entry["position"] else None

    _rewrite_all(store.data_dir / FOLDER, keep)


def _write_parquets(folder: Path, segments: Collection[int]) -> None:
    """Rewrite the Parquet file of each segment, in one step."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ("change", "at", "session_uid", *_PLAIN[:-1], "digest")
    for segment in segments:
        entries = list(_entries(folder / f"{_name(segment)}.jsonl"))
        rows = [{**{name: (e["digest"] or {}).get(name) for name in _PLAIN}, **e} for e in entries]
        for row in rows:
            row["digest"] = None if row["digest"] is None else orjson.dumps(row["digest"]).decode()
        columns = {"position": pa.array([row["position"] for row in rows], pa.int64())}
        columns |= {name: pa.array([row[name] for row in rows], pa.string()) for name in texts}
        columns["schema_version"] = pa.array([row["schema_version"] for row in rows], pa.int64())
        memory = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), memory, compression="zstd")
        replace_file(folder / f"{_name(segment)}.parquet", memory.getvalue().to_pybytes())
