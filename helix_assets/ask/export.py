"""The logical content of a store: the same bytes for the same input, however its sweeps were ordered or split.

Belongs here: what counts as content, its order, its form. Keyed hashes, the tags of redaction marks, partition days,
times of work, generations and full paths are left out, because they differ between stores. Not here: where the bytes
go (`cli`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import orjson

from helix_assets.agents.jsonl import PACKED
from helix_assets.ask.reading import OpenSession, open_session, read_consistently, refuse_changed
from helix_assets.ask.withheld import refuse_unredacted
from helix_assets.derive.tests import TestRun
from helix_assets.model.digest import Digest
from helix_assets.model.digest_text import parsed_digest, whole_digest
from helix_assets.model.errors import NotFoundError, StoreError, WithheldError
from helix_assets.model.event import ROW_FIELDS, Usage
from helix_assets.model.event import Row as EventRow
from helix_assets.model.facts import TestRunFact
from helix_assets.model.fields import JSON
from helix_assets.model.time import iso
from helix_assets.redaction import strip_tags
from helix_assets.settings import Settings
from helix_assets.store.catalog import digests, live_files, sessions, sources
from helix_assets.store.fact_files import FactFile, SessionRows
from helix_assets.store.proof import digest_text
from helix_assets.store.store import Store

_CUT_MARK = re.compile(r"\[redacted:([a-z0-9_]+):[a-z2-7]{0,7}…")
_USAGE = {name: f"{name}_tokens" for name in Usage._fields}
_EXPORTED = [field for field in ROW_FIELDS if field.is_exported]
_JSON = [field.name for field in _EXPORTED if field.text == JSON]
_OTHERWISE = {"ts_us", "tokens", *_USAGE.values(), "file", "raw", *_JSON}
_PLAIN = [field.name for field in _EXPORTED if field.name not in _OTHERWISE]


class Exported(NamedTuple):
    """The size of an export; `sha256` is over all its bytes. `withheld` sessions are left out (`ask.withheld`)."""

    sha256: str
    sessions: int
    lines: int
    bytes: int
    withheld: int


class SessionFigures(NamedTuple):
    """What is kept of a session: its digest, the names of its files, its test runs (None if their facts lack)."""

    digest: Digest
    files: Sequence[str]
    tests: Sequence[TestRun] | None


def export(store: Store, out: BinaryIO) -> Exported:
    """Write the whole logical content as JSON Lines: each session's digest, then its rows."""
    refuse_unredacted(store)
    digest = hashlib.sha256()
    count = lines = size = withheld = 0
    for uid in _uids(store):
        try:
            with open_session(store, uid) as session:
                for line in session_lines(session):
                    digest.update(line)
                    out.write(line)
                    lines += 1
                    size += len(line)
        except NotFoundError:
            continue
        except WithheldError:
            withheld += 1
            continue
        count += 1
    return Exported(digest.hexdigest(), count, lines, size, withheld)


def _uids(store: Store) -> list[str]:
    with store.catalog.reading() as connection:
        return sorted(sessions.uids(connection), key=lambda uid: (strip(uid), uid))


def strip(text: str) -> str:
    """The text without the tags of its redaction marks, also of a mark that is cut at the end of a summary."""
    return _CUT_MARK.sub(r"[redacted:\1…", strip_tags(text)) if "[redacted:" in text else text


def session_lines(session: OpenSession) -> Iterator[bytes]:
    """One session: a line about the whole session, then a line per stored row in `seq` order."""
    row = session.row
    head = {
        "session_uid": row.session_uid,
        "flavor": row.flavor,
        "files": sorted({_file_name(source.path) for source in session.sources}),
        "is_evicted": session.evicted_at is not None,
        "digest": _logical_digest(session.digest_text),
    }
    yield _line(head)
    names = {source.file_rank: _file_name(source.path) for source in session.sources}
    for event in session.rows(raw=True):
        yield _line({"session_uid": row.session_uid, **_logical_row(event, names)})


def _file_name(path: str) -> str:
    """A file's name without the suffix of packing, which does not change the content."""
    return os.path.basename(path).removesuffix(PACKED)


def _line(values: dict[str, Any]) -> bytes:
    return strip(orjson.dumps(values).decode()).encode() + b"\n"


def _logical_digest(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    digest = parsed_digest(strip(text))
    del digest["coverage"]["generation"]
    for name in ("source_path", "discovered_at"):  # where it was, and when: the path's last part is among the files
        digest.pop(name, None)
    for signal in digest.get("signals", ()):
        del signal["evidence"]  # keyed hashes, which differ between stores
    return digest


def _logical_row(event: EventRow, names: dict[int, str]) -> dict[str, Any]:
    """The row without nulls and without what differs between stores."""
    values = {name: getattr(event, name) for name in _PLAIN}
    values |= {"ts": iso(event.ts_us), "file": names.get(event.file)}
    if event.tokens is not None:
        values["usage"] = {name: getattr(event, column) for name, column in _USAGE.items()}
    values |= {name: orjson.loads(text) for name in _JSON if (text := getattr(event, name))}
    if event.raw is not None:
        values["raw"] = event.raw.decode("utf-8", "replace")
    return {name: value for name, value in values.items() if value is not None}


def session_figures(store: Store) -> Mapping[str, SessionFigures]:
    """The figures of every session that has a digest, by uid."""
    refuse_unredacted(store)
    return read_consistently(lambda: _session_figures(store))


def _session_figures(store: Store) -> Mapping[str, SessionFigures]:
    found: dict[str, Digest] = {}
    with store.catalog.reading() as connection:
        files_of: dict[str, list[str]] = {}
        for file in sources.with_sessions(connection):
            files_of.setdefault(file.session_uid, []).append(shown_path(store.settings, file.flavor, file.path))
        for row in digests.every(connection):
            if (text := digest_text(row, store.key)) is not None:
                found[row.session_uid] = whole_digest(text)
    runs = _test_runs(store)
    return {
        uid: SessionFigures(
            digest=digest,
            files=tuple(sorted(files_of.get(uid, ()))),
            tests=runs.get(uid) if "test_run" in digest.kind_counts else (),
        )
        for uid, digest in found.items()
    }


def _test_runs(store: Store) -> Mapping[str, Sequence[TestRun]]:
    """Every session's test runs in order, from facts, which outlive eviction. Damaged files are left out."""
    runs: dict[str, Sequence[TestRun]] = {}
    with store.catalog.reading() as connection:
        files = live_files.fact_files(connection)
    for file in files:
        if file.fact == "test_runs":
            for session in _rows_if_whole(store, file):
                facts = map(TestRunFact._make, session.rows)
                made = (TestRun(*(getattr(fact, name) for name in TestRun._fields)) for fact in facts)
                runs[session.session_uid] = (*runs.get(session.session_uid, ()), *made)
    return runs


def _rows_if_whole(store: Store, file: FactFile) -> Sequence[SessionRows]:
    try:
        return store.facts.rows(file)
    except StoreError:
        refuse_changed(store, [(store.facts.path(file.name), file.hash)])
        return ()


def shown_path(settings: Settings, flavor: str, path: str) -> str:
    """The path of a source as `flavor/...` below its agent's folder; elsewhere only the file's name."""
    for root in settings.roots.get(flavor, ()):
        start = os.path.realpath(root) + os.sep
        if path.startswith(start):
            return f"{flavor}/{path[len(start) :]}"
    return f"{flavor}/{os.path.basename(path)}"
