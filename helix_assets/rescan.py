"""After the redaction rules changed: what no re-derivation reaches is redacted again.

Stored sessions are written anew by the sweep, a bounded part each time (`pipeline`). Here is the rest: digests of
evicted sessions, names and paths in the catalog, notes in the hub folder. All of it is small.
"""

from __future__ import annotations

import os
from typing import Any

import orjson
from sqlalchemy import Row, select, update

from helix_assets.core.redaction import Redactor
from helix_assets.storage.key import text_hash
from helix_assets.storage.tables import digests, problems, sessions, sources
from helix_assets.store import Store

RESCAN_BYTES = 256 << 20
"""How many bytes of stored sessions one sweep redacts again."""
_NAMED = "names_redacted_with"
_SESSION_TEXTS = ("cwd", "git_branch", "title", "task_ref", "repo", "domain", "failure")


def redact_memory(store: Store) -> int:
    """Redact by the rules in force what is kept of evicted sessions, and every name; gives how many texts changed."""
    redactor = store.redactor
    changed = _evicted_sessions(store, redactor)
    if store.catalog.meta_value(_NAMED) == redactor.version:
        return changed
    changed += _hub_notes(store, redactor)
    with store.catalog.writing() as connection:
        for table in (sources, problems):
            for row in connection.execute(select(table.c.id, table.c.path, table.c.path_key)).all():
                path, key = redactor.text(row.path), redactor.text(row.path_key)
                if path.hits or key.hits:
                    values = {"path": path.text, "path_key": store.path_key(row.path_key) if key.hits else row.path_key}
                    connection.execute(update(table).where(table.c.id == row.id).values(**values))
                    changed += 1
        store.catalog.set_meta(connection, _NAMED, redactor.version)
    return changed


def _evicted_sessions(store: Store, redactor: Redactor) -> int:
    """The rows and digests of sessions whose raw bytes are gone: their digest is all there is, so it is edited."""
    stale = select(sessions).where(sessions.c.evicted_at.is_not(None), sessions.c.redaction_version != redactor.version)
    with store.catalog.reading() as connection:
        rows = connection.execute(stale).all()
    changed = 0
    for row in rows:
        with store.catalog.writing() as connection:
            text = connection.execute(select(digests.c.digest).where(digests.c.session_uid == row.session_uid)).scalar()
            if text is not None:
                clean = redactor.lines(text.encode())
                if clean.hits:
                    values = _digest_values(store, clean.data)
                    connection.execute(update(digests).where(digests.c.session_uid == row.session_uid).values(**values))
                    changed += 1
            store.catalog.update_session(connection, row.id, **_session_values(row, redactor))
    return changed


def _digest_values(store: Store, data: bytes) -> dict[str, Any]:
    digest = orjson.loads(data)
    hashed = text_hash(store.key, data)
    return {"digest": data.decode(), "hash": hashed, "repo": digest["repo"], "domain": digest["domain"]}


def _session_values(row: Row[Any], redactor: Redactor) -> dict[str, Any]:
    texts = {name: getattr(row, name) for name in _SESSION_TEXTS}
    clean = {name: redactor.text(text).text if text else text for name, text in texts.items()}
    facts = orjson.loads(redactor.lines(orjson.dumps(row.facts)).data)
    return {**clean, "facts": facts, "redaction_version": redactor.version}


def _hub_notes(store: Store, redactor: Redactor) -> int:
    changed = 0
    for path in (store.data_dir / "hub").glob("*.md"):
        clean = redactor.text(path.read_text(encoding="utf-8"))
        if clean.hits:
            fresh = path.with_suffix(".tmp")
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(clean.text)
                file.flush()
                os.fsync(fd)
            os.replace(fresh, path)
            changed += 1
    return changed
