"""After the redaction rules changed: redacts again what deriving again does not reach.

The sweep rewrites stored sessions, a limited part each time (`sweep.sweep`). Here is the rest: names in the catalog and
notes in the hub folder, all at once, because they are small; reports, which are deleted; digests and facts of evicted
sessions, partition by partition; stored rows that cannot be derived again. Not here: how a text is redacted
(`redaction.again`), or before-restore folders (`sweep.rescan_folders`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import JSON, Connection, Row, Table, Text, delete, or_, select, update

from helix_assets.agents import pieces_of
from helix_assets.model.errors import StoreError
from helix_assets.redaction.again import digest_again, rows_again, text_again, value_again
from helix_assets.redaction.encoded import name_again
from helix_assets.redaction.redactor import Redactor
from helix_assets.store.catalog.old_tables import (
    digests,
    evictions,
    executions,
    hook_events,
    losses,
    meta,
    problems,
    retries,
    sessions,
    shared_keys,
    sources,
)
from helix_assets.store.durable import replace_file, sync
from helix_assets.store.fact_files import FactFile
from helix_assets.store.key import text_hash
from helix_assets.store.raw import LIGHT, PartFile, file_hash
from helix_assets.store.store import Store
from helix_assets.sweep.pricing import REMEMBERED

if TYPE_CHECKING:
    import pyarrow as pa

RESCAN_BYTES = 256 << 20
"""How many bytes of stored sessions, and of evicted ones' digests and facts, one sweep redacts again."""
_NAMED = "names_redacted_with"
_STAMP = "rules_stamp"
_READ_AS, _DECODED = "names_read_as", "decoded"
_NAMES = frozenset({"path", "native_id"})
_OURS = frozenset({"path_key", "flavor", "role", "status", "read_hash", "day", "file_key", "hash",
                   "redaction_version", "session_uid", "native_session_id", "mark", "name"})  # fmt: skip
_UIDS = ((digests, "session_uid"), (evictions, "session_uid"), (losses, "session_uid"), (sessions, "parent_uid"),
         (hook_events, "session_uid"), (executions, "session_uid"))  # fmt: skip


def redact_names(store: Store) -> int:
    """Redact every name, path and note by the current rules. Returns how many rows and notes changed.

    Runs before a sweep looks at files, which are identified by these names.
    """
    redactor = store.redactor
    if store.catalog.meta_value(_NAMED) == redactor.version and store.catalog.meta_value(_READ_AS) == _DECODED:
        if store.catalog.meta_value(_STAMP) != store.settings.rules_stamp:
            with store.catalog.writing() as connection:
                store.catalog.set_meta(connection, _STAMP, store.settings.rules_stamp)
        return 0
    from helix_assets.kaizen.derived import drop_tables  # every sweep loads this module, few have new rules
    from helix_assets.kaizen.metrics import redact_executions
    from helix_assets.keep.report_folder import drop_reports

    changed = _hub_notes(store, redactor)
    drop_tables(store.data_dir)
    drop_reports(store.data_dir)
    try:
        changed += _rename_sessions(store, redactor)
        is_done = True
    except StoreError:
        is_done = False  # `verify` names the damaged file; the next sweep tries again
    with store.catalog.writing() as connection:
        for table in (sources, problems):
            for row in connection.execute(select(table)).all():
                values = changed_texts(table, row, redactor)
                if name_again(redactor, row.path_key) != row.path_key:
                    values["path_key"] = store.path_key(row.path_key)
                if values:
                    connection.execute(update(table).where(table.c.id == row.id).values(**values))
                    changed += 1
        for column in (shared_keys.c.message_id, hook_events.c.call_id):
            for name in connection.execute(select(column).where(column.is_not(None)).distinct()).scalars().all():
                if (clean := redactor.text(name)).hits:
                    connection.execute(update(column.table).where(column == name).values({column: clean.text}))
        changed += redact_executions(store, connection)
        connection.execute(delete(meta).where(meta.c.name == REMEMBERED))  # contains names of models; is made again
        connection.execute(delete(retries))  # they name sessions and files; failed sessions are tried at once
        if is_done:
            store.catalog.set_meta(connection, _NAMED, redactor.version)
            store.catalog.set_meta(connection, _READ_AS, _DECODED)
            store.catalog.set_meta(connection, _STAMP, store.settings.rules_stamp)
    return changed


def redact_memory(store: Store, limit: int = RESCAN_BYTES) -> int:
    """Redact what is kept of sessions without rows, up to a limit. Returns how many sessions were done.

    Only their digest and facts exist, so these are edited, for all sessions of a partition or none.
    """
    version = store.redactor.version
    is_rowless = or_(sessions.c.evicted_at.is_not(None), sessions.c.row_count == 0)
    stale = select(sessions).where(is_rowless, sessions.c.redaction_version != version)
    partitions: dict[tuple[str, str], list[Row[Any]]] = defaultdict(list)
    with store.catalog.reading() as connection:
        for row in connection.execute(stale.order_by(sessions.c.flavor, sessions.c.day)):
            partitions[row.flavor, row.day].append(row)
    done = spent = 0
    for partition, rows in partitions.items():
        if spent >= limit:
            break
        files = store.catalog.fact_files({partition})
        try:
            spent += sum(file.bytes for file in files) + _redact_sessions(store, rows, _again(store, files))
        except StoreError:
            continue  # `verify` names damaged facts, readers redact what they show
        done += len(rows)
    return done


def redact_rows(store: Store, row: Row[Any], parts: Sequence[Row[Any]]) -> None:
    """Redact a session's stored rows in place, because the rest of what its digest covers can no longer be read."""
    facts = _again(store, store.catalog.fact_files({(row.flavor, row.day)}))
    _redact_sessions(store, [row], facts, {row.id: parts})


@dataclass
class _NewFacts:
    """New fact files and those they replace."""

    fresh: list[FactFile] = field(default_factory=list)
    replaced: list[FactFile] = field(default_factory=list)


def _redact_sessions(
    store: Store,
    rows: Sequence[Row[Any]],
    facts: _NewFacts,
    parts: Mapping[int, Sequence[Row[Any]]] | None = None,
    uids: Mapping[str, str] | None = None,
) -> int:
    """Rewrite sessions by the current rules, in one step with their facts. Returns the bytes of their digests."""
    redactor, catalog, size = store.redactor, store.catalog, 0
    held = {row.id: (parts or {}).get(row.id, ()) for row in rows}
    fresh = {row.id: _rewrite(store, (uids or {}).get(row.session_uid, row.session_uid), held[row.id]) for row in rows}
    written = [store.raw.path(part["name"]) for some in fresh.values() for part in some]
    sync(store.data_dir, written + [store.facts.path(file.name) for file in facts.fresh])
    with catalog.writing() as connection:
        catalog.put_fact_files(connection, facts.fresh, [])
        for row in rows:
            if fresh[row.id]:
                catalog.drop_raw_files(connection, [row.id])
                catalog.put_raw_files(connection, [{"session_id": row.id, **part} for part in fresh[row.id]])
            size += redact_digest(store, connection, row.session_uid, (uids or {}).get(row.session_uid))
            values = {**changed_texts(sessions, row, redactor), "redaction_version": redactor.version}
            for name in ("bytes", "row_count", "record_count") if fresh[row.id] else ():
                values["raw_bytes" if name == "bytes" else name] = sum(part[name] for part in fresh[row.id])
            catalog.update_session(connection, row.id, **values)
        for old, new in (uids or {}).items():
            _rename(connection, old, new)
    for part in (part for some in held.values() for part in some):
        store.raw.remove(part.name)
    for file in facts.replaced:
        store.facts.remove(file.name)
    return size


def changed_texts(table: Table, row: Row[Any], redactor: Redactor) -> dict[str, Any]:
    """The texts of a row, also inside JSON, that the current rules change."""
    names = [c.name for c in table.columns if isinstance(c.type, Text | JSON) and c.name not in _OURS]
    found = {name: row._mapping[name] for name in names if row._mapping[name]}
    clean = {name: (name_again if name in _NAMES else value_again)(redactor, value) for name, value in found.items()}
    return {name: again for name, again in clean.items() if again != found[name]}


def redact_digest(store: Store, connection: Connection, uid: str, renamed: str | None) -> int:
    """Redact a digest and renew its hash, unless it is damaged. Returns its bytes."""
    row = connection.execute(select(digests).where(digests.c.session_uid == uid)).one_or_none()
    if row is None:
        return 0
    values: dict[str, Any]
    if text_hash(store.key, row.digest.encode()) != row.hash:  # what is damaged stays so
        values = {"digest": store.redactor.text(row.digest).text}
    else:
        digest = digest_again(store.redactor, orjson.loads(row.digest)) | {"session_uid": renamed or uid}
        text = orjson.dumps(digest).decode()
        values = {"digest": text, "hash": text_hash(store.key, text.encode())}
        values |= {"repo": digest["repo"], "domain": digest["domain"]}
    connection.execute(update(digests).where(digests.c.session_uid == uid).values(**values))
    return len(row.digest)


# -- files -----------------------------------------------------------------------------------------------------------


def _again(store: Store, files: Collection[FactFile], uids: Mapping[str, str] | None = None) -> _NewFacts:
    """Write fact files by the current rules; unchanged ones are left out."""
    done = _NewFacts()
    for file in files:
        table = store.facts.read(file)
        clean = table_again(table, store.redactor, uids or {})
        if clean is not table:
            done.fresh.append(store.facts.write(file.fact, (file.flavor, file.day), file.version + 1, clean))
            done.replaced.append(file)
    return done


def table_again(table: pa.Table, redactor: Redactor, uids: Mapping[str, str] = MappingProxyType({})) -> pa.Table:
    """The table redacted by the current rules, the same table if they change nothing; `uids` renames sessions."""
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if not pa.types.is_string(column.type):
            continue
        packed = pa.concat_arrays(table.column(place).chunks or [pa.array([], pa.string())]).dictionary_encode()
        texts = packed.dictionary.to_pylist()
        is_uid = column.name == "session_uid"
        clean = [uids.get(text, text) if is_uid else text_again(redactor, text) for text in texts]
        if clean != texts:
            fresh = pa.DictionaryArray.from_arrays(packed.indices, pa.array(clean, pa.string())).dictionary_decode()
            table = table.set_column(place, column, fresh)
    return table


def _rewrite(store: Store, uid: str, parts: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    """Publish new part files with the rows redacted by the current rules. Returns their rows for the catalog."""
    fresh = []
    for part in parts:
        path = store.raw.path(part.name)
        if file_hash(path, store.key) != part.hash:
            raise StoreError(f"{path.name} is damaged: run `helix verify`")
        ending = LIGHT if part.name.endswith(LIGHT) else ".parquet"  # the name shows that texts were dropped
        stem = f"{part.name.removesuffix(ending)}.again"
        made, name = part_again(store, uid, path, store.raw.staging / os.path.basename(stem)), f"{stem}{ending}"
        store.raw.publish(made.name, name)
        counts = {"bytes": made.bytes, "row_count": made.rows, "record_count": made.records}
        fresh.append({"part": part.part, "name": name, "hash": made.hash, **counts, "text_bytes": made.text_bytes})
    return fresh


def part_again(store: Store, uid: str, path: Path, staged: Path) -> PartFile:
    """Write the rows of a part, redacted by the current rules, to another file, not yet synced or published."""
    from helix_assets.store.parquet import SessionWriter, read_rows

    writer = SessionWriter(staged, uid, store.key)
    try:
        for row in rows_again(store.redactor, read_rows([path], raw=True), pieces_of(uid.partition(":")[0])):
            writer.add([row])
    except BaseException:
        writer.discard()
        raise
    return writer.close()


def _hub_notes(store: Store, redactor: Redactor) -> int:
    changed = 0
    for path in (store.data_dir / "hub").glob("*.md"):
        clean = redactor.text(path.read_text(encoding="utf-8"))
        if clean.hits:
            replace_file(path, clean.text.encode())
            changed += 1
    return changed


# -- sessions whose id contains a secret -----------------------------------------------------------------------------


def _rename_sessions(store: Store, redactor: Redactor) -> int:
    """Give sessions another id if the current rules hide theirs, also in rows, facts, digest and log."""
    with store.catalog.reading() as connection:
        natives = connection.execute(select(sessions.c.session_uid, sessions.c.native_session_id)).all()
    clean = {row.session_uid: name_again(redactor, row.native_session_id) for row in natives}
    hidden = {row.session_uid for row in natives if clean[row.session_uid] != row.native_session_id}
    rows = list(store.catalog.sessions_by_uid(hidden).values())
    uids = {row.session_uid: f"{row.flavor}:{clean[row.session_uid]}" for row in rows}
    if rows:
        facts = _again(store, store.catalog.fact_files({(row.flavor, row.day) for row in rows}), uids)
        _redact_sessions(store, rows, facts, store.catalog.files_of([row.id for row in rows]), uids)
    return len(rows)


def _rename(connection: Connection, old: str, new: str) -> None:
    native = new.partition(":")[2]
    mine = sessions.c.session_uid == old
    connection.execute(update(sessions).where(mine).values(session_uid=new, native_session_id=native))
    for table, name in _UIDS:
        connection.execute(update(table).where(table.c[name] == old).values({name: new}))
