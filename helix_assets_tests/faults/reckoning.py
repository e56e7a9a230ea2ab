"""What must hold of a store whatever was done to it and to its logs.

Belongs here: looking, and saying what is wrong. Not here: what is done (`random_combinations`) or the truth about the
logs (`moving_logs`).
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from helix_assets.ask.export import session_lines
from helix_assets.ask.reading import open_session
from helix_assets.ask.search import Finder
from helix_assets.prove.verify import verify
from helix_assets.redaction import strip_tags
from helix_assets.store.catalog import live_files, retries, sessions
from helix_assets.store.store import Store
from helix_assets.store.words.keep import index_of, live_names
from helix_assets.store.words.segment import names_of
from helix_assets_tests.faults.moving_logs import Log, Logs
from helix_assets_tests.home import Memory, ask

_TOTALS = ("records", "calls", "input", "output")
# What a digest says of how it was made: kept digests of evicted sessions are of older rules, and of several pieces.
_MADE = ("coverage", "schema_version", "signals", "source_path", "discovered_at")


@dataclass
class Books:
    """What is known of a store's past; `totals` is what each family, sessions that share records, once came to.

    Of sessions in `loose` something went that nothing can bring back, with a record of the loss or because a person
    wanted it: their sums may fall. `was_hidden` says that newer rules hid texts for good, `was_left_out` that logs were
    excluded for a while: what was stored of an evicted session then is merged into its digest, as if its log were gone.
    """

    forgotten: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)
    totals: dict[frozenset[str], Counter[str]] = field(default_factory=dict)
    was_hidden: bool = False
    was_left_out: bool = False

    def start_anew(self) -> None:
        """An older copy was put back: what was told since is gone where its logs are."""
        self.totals.clear()


def is_excluded(memory: Memory, log: Log) -> bool:
    folders = memory.store.settings.exclude.paths
    return any(str(memory.folder / "home" / log.place).startswith(folder) for folder in folders)


def reckon(memory: Memory, logs: Logs, books: Books) -> Iterator[str]:
    """Everything that is wrong once all was swept and every pause is over."""
    store = memory.store
    yield from sound(store)
    yield from _index(store)
    yield from _covered(store)
    yield from _losses(store)
    yield from _forgotten(memory, logs, books)
    with store.catalog.reading() as connection:
        lost = set(connection.column("SELECT session_uid FROM losses"))
    books.loose |= {uid for gone in lost if gone in {log.uid for log in logs.all} for uid in logs.family(gone)}
    yield from _sums(memory, logs, books)
    yield from _as_if_new(memory, logs, books)


def sound(store: Store) -> Iterator[str]:
    """What `verify` finds."""
    yield from (f"verify: {v.check}: {v.session_uid} {v.what} {v.path or ''}" for v in verify(store))


def _index(store: Store) -> Iterator[str]:
    have = names_of(index_of(store).open()[0])
    should = set(live_names(store)) if store.settings.search.index == "on" else set()
    if have != should:
        yield f"index: lacks {sorted(should - have)[:3]}, has {sorted(have - should)[:3]} beyond"


def _covered(store: Store) -> Iterator[str]:
    """Every session that has raw bytes has a digest of all of them by the rules in force, or is set aside and told."""
    with store.catalog.reading() as connection:
        aside = {one.session_uid: one.failure for one in retries.failed_sessions(connection)}
        rows = connection.execute("SELECT * FROM sessions").fetchall()
        held = dict(connection.tuples("SELECT session_uid, generation FROM digests"))
    yield from (f"covered: {uid} stays set aside: {failure}" for uid, failure in aside.items())
    for row in rows:
        uid = row.session_uid
        if row.redaction_version != store.redactor.version:
            yield f"covered: {uid} is of older redaction rules"
        if row.evicted_at is None and uid not in aside and held.get(uid) != row.generation:
            yield f"covered: {uid} has a digest of {held.get(uid)}, is at {row.generation}"


def _losses(store: Store) -> Iterator[str]:
    """Each loss has a note that names its session."""
    notes = "\n".join(path.read_text() for path in (store.data_dir / "hub").glob("*-data-loss*.md"))
    with store.catalog.reading() as connection:
        lost = connection.column("SELECT session_uid FROM losses WHERE reason = 'overflow'")
    yield from (f"losses: no note of {uid}" for uid in lost if uid not in notes)


def _forgotten(memory: Memory, logs: Logs, books: Books) -> Iterator[str]:
    """No byte below the data folder names a forgotten session, and its own word is found by nobody."""
    for uid in books.forgotten:
        native = uid.partition(":")[2]
        for path in memory.store.data_dir.rglob("*"):
            if native in str(path) or (path.is_file() and native.encode() in path.read_bytes()):
                yield f"forgotten: {uid} is in {path.relative_to(memory.store.data_dir)}"
        if len(logs.family(uid)) == 1 and memory.store.settings.search.index == "on":
            words = [log.word for log in logs.of({uid})]
            yield from (f"forgotten: {word} is found" for word in words if Finder(memory.store).find(word).hits)


# -- sums ------------------------------------------------------------------------------------------------------------


def told_digests(store: Store) -> dict[str, dict[str, Any]]:
    with store.catalog.reading() as connection:
        found = connection.tuples("SELECT session_uid, digest FROM digests")
    return {uid: orjson.loads(text) for uid, text in found}


def _sums(memory: Memory, logs: Logs, books: Books) -> Iterator[str]:
    """Each record counts once, however often it is told, and what was once counted stays counted."""
    held = told_digests(memory.store)
    for family in logs.families():
        total = _total([held[uid] for uid in family if uid in held])
        members = logs.of(family - books.forgotten)
        for log in members:
            if not is_excluded(memory, log):
                log.met |= log.records
        ever = len(set[bytes]().union(*(log.written for log in logs.of(family))))
        met = len(set[bytes]().union(*(log.met for log in members)))
        if total["records"] > ever:
            yield f"sums: {sorted(family)} count {total['records']} records, {ever} were ever written"
        if family & books.loose:
            continue
        if total["records"] < met and not family & books.forgotten:
            yield f"sums: {sorted(family)} count {total['records']} records, {met} were met"
        before = books.totals.get(family, Counter())
        fell = {name: (before[name], total[name]) for name in _TOTALS if total[name] < before[name]}
        if fell:
            yield f"sums: {sorted(family)} fell: {fell}"
        books.totals[family] = total


def _total(of: list[dict[str, Any]]) -> Counter[str]:
    total = Counter[str]()
    for digest in of:
        tokens = digest["tokens"]
        total += Counter(
            records=digest["record_count"], calls=digest["tool_calls"], input=tokens["input"], output=tokens["output"]
        )
    return total


# -- against a store that met nothing but the logs as they are now ----------------------------------------------------


def _as_if_new(memory: Memory, logs: Logs, books: Books) -> Iterator[str]:
    """Families whose logs are all there are told as by a store that was never disturbed."""
    folder = memory.folder / "fresh"
    shutil.copytree(memory.folder / "home", folder / "home")
    for log in logs.of(books.forgotten):
        (folder / "home" / log.place).unlink(missing_ok=True)
    settings = {**memory.environ, "HELIX_BACKUP_SCHEDULE": "off"}
    fresh = Memory(
        folder, {name: value for name, value in settings.items() if name != "HELIX_EXCLUDE_PATHS"}, memory.now
    )
    fresh.sweep()
    for family in logs.families():
        told = logs.of(family - books.forgotten)
        is_whole = all(log.is_whole and not is_excluded(memory, log) for log in logs.of(family))
        if is_whole and not family & books.loose:
            for uid in sorted({log.uid for log in told if log.content}):
                yield from _differs(memory.store, fresh.store, uid, books)
    fresh.close()
    shutil.rmtree(folder)


def _differs(store: Store, fresh: Store, uid: str, books: Books) -> Iterator[str]:
    ours, theirs = _lines(store, uid), _lines(fresh, uid)
    texts = not books.was_hidden
    if ours is None or theirs is None:
        if (ours is None) != (theirs is None):
            yield f"as new: {uid} is {'missing' if ours is None else 'known here alone'}"
        return
    (head, *rows), (other, *others) = ours, theirs
    was_evicted = _was_evicted(store, uid)
    digest, should = head["digest"] or {}, other["digest"] or {}
    names = (digest.keys() | should.keys()) - set(_MADE if was_evicted else ())
    if books.was_left_out and ask(store, sessions.by_uid, [uid])[uid].is_partial:
        names -= {"cost"}  # the pause between what is merged is nobody's work
    wrong = {name: (digest.get(name), should.get(name)) for name in names if digest.get(name) != should.get(name)}
    if not texts:
        wrong = {name: pair for name, pair in wrong.items() if not isinstance(pair[0], str | list)}
    if wrong:
        yield f"as new: the digest of {uid} differs: {str(wrong)[:600]}"
    if not was_evicted and texts and rows != others:
        yield f"as new: {len(rows)} rows of {uid} differ from {len(others)}"
    if texts and (facts := _facts(store, uid)) != (expected := _facts(fresh, uid)):
        yield f"as new: facts of {uid}: {str(facts - expected)[:300]} instead of {str(expected - facts)[:300]}"


def _lines(store: Store, uid: str) -> list[dict[str, Any]] | None:
    if uid not in ask(store, sessions.by_uid, [uid]):
        return None
    with open_session(store, uid) as session:
        return [orjson.loads(line) for line in session_lines(session)]


def _was_evicted(store: Store, uid: str) -> bool:
    with store.catalog.reading() as connection:
        query = "SELECT session_uid FROM evictions UNION SELECT session_uid FROM losses"
        return uid in connection.column(query)


def _facts(store: Store, uid: str) -> Counter[str]:
    """Rows of all facts but their first column, the record's key, which is the store's own."""
    return Counter(
        f"{file.fact} {strip_tags(repr(row[1:]))}"
        for file in ask(store, live_files.fact_files)
        for some in store.facts.rows(file)
        if some.session_uid == uid
        for row in some.rows
    )
