"""`.kaizen/metrics/<agent>/executions.jsonl` of the projects in the settings, read as it grows and never written.

Belongs here: finding, reading and storing their records, redacted like everything else. Lines that are not records are
counted and noted. Not here: what a record says and which session it belongs to (`kaizen.executions`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from helix_assets.agents.jsonl import Chunk, WholeLines, block_reader, decode, open_source
from helix_assets.agents.repositories import repository_root
from helix_assets.agents.walk import entries
from helix_assets.ask.withheld import refuse_unredacted
from helix_assets.derive.places import repo_of
from helix_assets.kaizen.executions import Execution, read_execution
from helix_assets.model.errors import Problem, SkipSource
from helix_assets.store.catalog import problems, projects
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.problems import problem_rows
from helix_assets.store.catalog.tombstones import alias, forgotten_marks, session_mark
from helix_assets.store.key import text_hash
from helix_assets.store.store import Store

_FLAVOR = "kaizen"


@dataclass
class Read:
    """The counts of reading the projects' metrics."""

    files: int = 0
    files_read: int = 0
    files_unreadable: int = 0
    records_new: int = 0
    lines_unparsed: int = 0
    projects_missing: int = 0


@dataclass
class _News:
    """New lines of one file."""

    records: list[dict[str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    offset: int = 0
    line: int = 1


def read_projects(store: Store, now: str) -> Read:
    """Take in what is new in the metrics of all projects. Needs the writer lock."""
    reader = _Reader(store, now)
    for folder in store.settings.kaizen.projects:
        if not os.path.isdir(folder):
            reader.done.projects_missing += 1
            continue
        project = repo_of(folder, store.settings.places, repository_root(folder)) or os.path.basename(folder)
        unread: list[Problem] = []
        for path in _files_of(os.path.realpath(folder), unread):
            reader.done.files += 1
            try:
                reader.read(path, project)
            except (SkipSource, OSError):
                reader.done.files_unreadable += 1
        reader.done.files_unreadable += len(unread)
    return reader.done


def _files_of(project: str, unread: list[Problem]) -> list[str]:
    """The metrics files of a project, one in the folder of each agent."""
    agents = [one for one in entries(os.path.join(project, ".kaizen", "metrics"), unread) if one.is_folder()]
    return sorted(file.path for one in agents for file in entries(one.path, unread) if file.name == "executions.jsonl")


def read_executions(store: Store) -> Iterator[Execution]:
    """Every stored execution. WithheldError if no sweep has redacted them by the rules in force."""
    refuse_unredacted(store)
    with store.catalog.reading() as connection:
        rows = projects.records(connection)
    for row in rows:
        yield read_execution(row.record, row.project, row.agent, f"{row.path_key}:{row.line}")


def forget_in_executions(store: Store, connection: Connection, uids: list[str]) -> None:
    """Remove names of forgotten sessions from what is stored of the projects; their own files still contain them."""
    for row in list(projects.records_naming(connection, uids)):
        name = alias(store, row.session_uid)
        record = row.record | {"helix_session_uid": name}
        projects.change_record(connection, row.id, session_uid=name, record=record)


class _Reader:
    """Reads one file after the other, each in a transaction of its own."""

    def __init__(self, store: Store, now: str) -> None:
        self.done = Read()
        self._store, self._now = store, now
        with store.catalog.reading() as connection:
            self._forgotten = forgotten_marks(connection)

    def read(self, path: str, project: str) -> None:
        """Take in what is new in one file. It is read from the start if a part already read has changed."""
        store, key = self._store, self._store.shown_path(path)
        with store.catalog.reading() as connection:
            known = projects.file(connection, key)
        fd = open_source(path)
        try:
            info = os.fstat(fd)
            state: dict[str, Any] = {
                "dev": info.st_dev,
                "inode": info.st_ino,
                "size": info.st_size,
                "mtime_ns": info.st_mtime_ns,
            }
            if known is not None and all(getattr(known, name) == value for name, value in state.items()):
                return
            before = known if known is not None and _hash_before(store, fd, known.offset) == known.read_hash else None
            news = self._news(fd, path, before)
            state |= {"offset": news.offset, "line": news.line, "read_hash": _hash_before(store, fd, news.offset)}
        finally:
            os.close(fd)
        agent = store.shown_path(os.path.basename(os.path.dirname(path)))
        state |= {"path_key": key, "project": store.shown_path(project), "agent": agent}
        state["unparsed"] = len(news.problems) + (before.unparsed if before is not None else 0)
        with store.catalog.writing() as connection:
            if known is not None and before is None:
                projects.drop_records(connection, known.id)
                problems.clear(connection, {key: 0})
            file_id = projects.put_file(connection, state)
            projects.put_records(connection, [record | {"file_id": file_id} for record in news.records])
            problems.put(connection, problem_rows(store, _FLAVOR, news.problems, {path: key}, self._now))
        self.done.files_read += 1
        self.done.records_new += len(news.records)
        self.done.lines_unparsed += len(news.problems)

    def _news(self, fd: int, path: str, before: Row | None) -> _News:
        """The lines after those already read. An incomplete last one is left for the next time."""
        news = _News() if before is None else _News(offset=before.offset, line=before.line)
        lines = WholeLines(block_reader(fd, path, news.offset), news.offset, news.line)
        for chunk in lines:
            self._take(path, chunk, news)
        news.problems += [Problem(path, "longer than any record may be", *place) for place in lines.too_long]
        return news

    def _take(self, path: str, chunk: Chunk, news: _News) -> None:
        news.offset, news.line = chunk.offset, chunk.line
        redacted = self._store.redactor.lines(chunk.data).data.split(b"\n")
        for raw, clean in zip(chunk.data.split(b"\n"), redacted, strict=True):
            if clean.strip():
                record = decode(clean)
                if isinstance(record, str):
                    news.problems.append(Problem(path, record, news.line, news.offset))
                else:
                    news.records.append(self._row(record, news.line))
            news.offset += len(raw) + 1
            news.line += 1
        # After the last newline there was nothing, or a record that is not complete yet.
        news.offset, news.line = news.offset - 1, news.line - 1

    def _row(self, record: dict[str, Any], line: int) -> dict[str, Any]:
        uid = record.get("helix_session_uid")
        uid = uid if isinstance(uid, str) else None
        if uid is not None and session_mark(self._store, uid) in self._forgotten:
            uid = alias(self._store, uid)
            record = record | {"helix_session_uid": uid}
        return {"line": line, "session_uid": uid, "record": record}


def _hash_before(store: Store, fd: int, offset: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    parts = []
    while offset > 0 and (block := os.read(fd, min(offset, 1 << 20))):
        parts.append(block)
        offset -= len(block)
    return text_hash(store.key, b"".join(parts))
