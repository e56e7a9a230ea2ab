"""After the redaction rules changed: brings what is stored to the rules in force.

A sweep does this in two steps. First the memory: everything in the catalog, the facts and the notes, all at once,
because it is small and every reader shows it. Then the texts of the stored sessions, a limited part each time: a
session is derived again from its records (`sweep.rounds`), or, if these no longer contain all that its digest covers,
its rows are edited where they are. Not here: how a text is redacted (`redaction.again`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from helix_assets.agents import pieces_of
from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.errors import StoreError
from helix_assets.redaction.again import Remembering, digest_again, fields_again, rows_again, text_again, value_again
from helix_assets.redaction.encoded import name_again
from helix_assets.redaction.redactor import Texts
from helix_assets.store.catalog import digests, live_files, meta, retries, sessions
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.pages import rewrite, truncate_log
from helix_assets.store.catalog.texts import rewrite_texts, rows_of
from helix_assets.store.durable import replace_file, sync
from helix_assets.store.fact_files import FactFile
from helix_assets.store.key import text_hash
from helix_assets.store.raw import LIGHT, PartFile, file_hash
from helix_assets.store.store import (
    FORMERLY_READ_AS,
    FORMERLY_REDACTED,
    MEMORY_REDACTED,
    RULES_STAMP,
    Store,
    redacted_with,
)
from helix_assets.sweep.pricing import REMEMBERED

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
_NAMES = frozenset({"path", "native_id", "native_session_id", "project", "agent"})
_UIDS = frozenset({"session_uid", "parent_uid"})


# -- the memory ------------------------------------------------------------------------------------------------------


def redact_memory(store: Store) -> int:
    """Redact catalog, facts and notes by the rules in force. Returns how many rows and notes changed.

    Runs before a sweep looks at files, which are identified by their names in the catalog. What is damaged stays so: no
    reader shows it.
    """
    with store.catalog.reading() as connection:
        known = meta.every(connection)
        is_through = redacted_with(connection, known) == store.rules_version
    if is_through:
        if known.get(MEMORY_REDACTED) is None or known.get(RULES_STAMP) != store.settings.rules_stamp:
            _note_redacted(store)
        return 0
    from helix_assets.kaizen.derived import drop_tables  # every sweep loads this module, few have new rules
    from helix_assets.keep.report_folder import drop_reports

    changed = _hub_notes(store)
    drop_tables(store.data_dir)
    drop_reports(store.data_dir)
    texts = Remembering(store.redactor)
    facts, parts = _facts_again(store, texts), _renamed_parts(store)
    sync(store.data_dir, [store.facts.path(file.name) for file in facts.fresh] + _paths(store, parts))
    with store.catalog.writing() as connection:
        for number in parts:
            _put_parts(store, connection, number, parts[number])
        changed += rewrite_texts(connection, partial(_row_again, store, texts))
        changed += _digests_again(store, texts, connection)
        live_files.put_fact_files(connection, facts.fresh, [])
        meta.drop(connection, [REMEMBERED])  # contains names of models; is made again
        retries.drop(connection)  # they name sessions and files; failed sessions are tried at once
    for file in facts.replaced:
        store.facts.remove(file.name)
    for session in parts.values():
        _remove(store, session)
    if meta.ORDER in known:  # also if nothing changed, because a killed sweep may have done it
        rewrite(store.catalog)
        truncate_log(store.catalog)  # it contains the overwritten texts
    _note_redacted(store)
    return changed + len(facts.fresh)


def _note_redacted(store: Store) -> None:
    with store.catalog.writing() as connection:
        meta.put(connection, MEMORY_REDACTED, store.redactor.version)
        meta.put(connection, RULES_STAMP, store.settings.rules_stamp)
        meta.drop(connection, [FORMERLY_REDACTED, FORMERLY_READ_AS])


def _row_again(store: Store, rules: Texts, table: str, texts: Mapping[str, Any]) -> dict[str, Any]:
    """What the rules in force change in a row of the catalog."""
    clean = {name: _value_again(store, rules, table, name, value) for name, value in texts.items()}
    return {name: value for name, value in clean.items() if value != texts[name]}


def _value_again(store: Store, rules: Texts, table: str, name: str, value: Any) -> Any:
    if name in _UIDS:
        return _uid_again(rules, value)
    if name == "path_key":
        return store.shown_path(value) if table == "execution_files" else store.path_key(value)
    if name == "parser_state":
        return value if value_again(rules, value) == value else None  # then the file is read from its start
    if name == "facts":
        return fields_again(rules, value)
    return name_again(rules, value) if name in _NAMES else value_again(rules, value)


def _uid_again(rules: Texts, uid: str) -> str:
    flavor, colon, native = uid.partition(":")
    return f"{flavor}:{name_again(rules, native)}" if colon else rules.text(uid).text


def _digests_again(store: Store, rules: Texts, connection: Connection) -> int:
    """Redact all digests and renew their hashes. Returns how many changed."""
    changed = 0
    for _, row in rows_of(connection, "digests", ["session_uid", "digest", "hash"]):
        text = row["digest"]
        if text_hash(store.key, text.encode()) != row["hash"]:  # what is damaged stays so
            values = {"digest": store.redactor.text(text).text}
        else:
            before = parsed_digest(text)
            clean = digest_again(rules, before) | {"session_uid": row["session_uid"]}
            text = text if clean == before else orjson.dumps(clean).decode()
            values = {"digest": text, "hash": text_hash(store.key, text.encode())}
        if values["digest"] != row["digest"]:
            digests.change(connection, row["session_uid"], **values)
            changed += 1
    return changed


@dataclass
class _NewFacts:
    """New fact files and those they replace."""

    fresh: list[FactFile] = field(default_factory=list)
    replaced: list[FactFile] = field(default_factory=list)


def _facts_again(store: Store, rules: Texts) -> _NewFacts:
    """Write fact files by the rules in force. Unchanged and damaged ones are left out."""
    done = _NewFacts()
    with store.catalog.reading() as connection:
        files = live_files.fact_files(connection)
    for file in files:
        try:
            table = store.facts.read(file)
        except StoreError as exc:
            if isinstance(exc.__cause__, OSError) and not isinstance(exc.__cause__, FileNotFoundError):
                raise  # it is perhaps only now that it cannot be read
            continue
        clean = _table_again(table, rules)
        if clean is not table:
            place = file.fact, (file.flavor, file.day), file.version + 1
            done.fresh.append(store.facts.write(*place, clean, is_recent=file.is_recent))
            done.replaced.append(file)
    return done


def _table_again(table: pa.Table, rules: Texts) -> pa.Table:
    """The table redacted by the rules, the same table if they change nothing."""
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if not pa.types.is_string(column.type):
            continue
        packed = pa.concat_arrays(table.column(place).chunks or [pa.array([], pa.string())]).dictionary_encode()
        texts = packed.dictionary.to_pylist()
        again = _uid_again if column.name == "session_uid" else text_again
        clean = [again(rules, text) for text in texts]
        if clean != texts:
            fresh = pa.DictionaryArray.from_arrays(packed.indices, pa.array(clean, pa.string())).dictionary_decode()
            table = table.set_column(place, column, fresh)
    return table


def _hub_notes(store: Store) -> int:
    """Redact the notes in the hub. Others may put files there, in whatever encoding."""
    changed = 0
    for path in (store.data_dir / "hub").glob("*.md"):
        try:
            data = path.read_bytes()
            clean = store.redactor.text(data.decode("latin-1") if (is_foreign := not _is_utf8(data)) else data.decode())
            if clean.hits:
                replace_file(path, clean.text.encode("latin-1" if is_foreign else "utf-8", "replace"))
                changed += 1
        except OSError as exc:
            _log.warning("%s is not redacted by the rules in force: %s", path.name, exc.strerror)
    return changed


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- stored rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _NewParts:
    """A session's part files by the rules in force, as the catalog names them, and the names of those they replace."""

    rows: Sequence[Mapping[str, Any]]
    replaced: Sequence[str]


def redact_rows(store: Store, row: Row, parts: Sequence[Row]) -> None:
    """Redact a session's stored rows where they are, because not all that its digest covers can be read again."""
    fresh = _parts_again(store, row.session_uid, parts)
    sync(store.data_dir, _paths(store, {row.id: fresh}))
    with store.catalog.writing() as connection:
        _put_parts(store, connection, row.id, fresh)
    _remove(store, fresh)


def _renamed_parts(store: Store) -> dict[int, _NewParts]:
    """New part files of sessions whose id the rules in force hide, because each row contains it."""
    with store.catalog.reading() as connection:
        known = sessions.names(connection)
        clean = {number: _uid_again(store.redactor, uid) for number, uid in known.items()}
        held = live_files.parts_of(connection, [number for number, uid in known.items() if clean[number] != uid])
    made = {}
    for number, parts in held.items():
        try:
            made[number] = _parts_again(store, clean[number], parts)
        except StoreError:
            continue  # `verify` names the damaged file
    return made


def _parts_again(store: Store, uid: str, parts: Sequence[Row]) -> _NewParts:
    """Publish new part files with the rows redacted by the rules in force. StoreError if one is damaged."""
    for part in parts:
        if file_hash(store.raw.path(part.name), store.key) != part.hash:
            raise StoreError(f"{os.path.basename(part.name)} is damaged: run `helix verify`")
    fresh = []
    for part in parts:
        ending = LIGHT if part.name.endswith(LIGHT) else ".parquet"  # the name shows that texts were dropped
        name = f"{part.name.removesuffix(ending)}.again{ending}"
        made = part_again(store, uid, store.raw.path(part.name), store.raw.staging / os.path.basename(name))
        store.raw.publish(made.name, name)
        counts = {"bytes": made.bytes, "row_count": made.rows, "record_count": made.records}
        fresh.append({"part": part.part, "name": name, "hash": made.hash, **counts, "text_bytes": made.text_bytes})
    return _NewParts(fresh, [part.name for part in parts])


def part_again(store: Store, uid: str, path: Path, staged: Path) -> PartFile:
    """Write the rows of a part, redacted by the rules in force, to another file, not yet synced or published."""
    from helix_assets.store.parquet import SessionWriter, read_rows

    writer = SessionWriter(staged, uid, store.key)
    try:
        for row in rows_again(store.redactor, read_rows([path], raw=True), pieces_of(uid.partition(":")[0])):
            writer.add([row])
    except BaseException:
        writer.discard()
        raise
    return writer.close()


def _put_parts(store: Store, connection: Connection, number: int, parts: _NewParts) -> None:
    """Name the new part files of a session, which is now redacted by the rules in force."""
    live_files.drop_parts(connection, [number])
    live_files.put_parts(connection, [{"session_id": number, **part} for part in parts.rows])
    sums = {name: sum(part[name] for part in parts.rows) for name in ("bytes", "row_count", "record_count")}
    sums["raw_bytes"] = sums.pop("bytes")
    sessions.change(connection, number, **sums, redaction_version=store.redactor.version)


def _paths(store: Store, sessions: Mapping[int, _NewParts]) -> list[Path]:
    return [store.raw.path(part["name"]) for parts in sessions.values() for part in parts.rows]


def _remove(store: Store, parts: _NewParts) -> None:
    for name in parts.replaced:
        store.raw.remove(name)
