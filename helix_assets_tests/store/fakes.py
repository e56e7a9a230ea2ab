"""Twins in memory of the storage protocols. They pass the contract tests of the real ones."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from helix_assets.model.digest import Digest
from helix_assets.store.catalog.sources import KnownSources
from helix_assets.store.protocols import Rows


class MemoryRawCache:
    """Published files in a dictionary; the staging folder is real, since workers write there."""

    def __init__(self, staging: Path) -> None:
        self.staging = staging
        self.files: dict[str, bytes] = {}

    def publish(self, staged: str, name: str) -> None:
        path = self.staging / staged
        self.files[name] = path.read_bytes()
        path.unlink()

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def names(self) -> Iterator[str]:
        return iter(list(self.files))

    def open(self, name: str) -> BinaryIO:
        if name not in self.files:
            raise FileNotFoundError(name)
        return io.BytesIO(self.files[name])

    def clear_staging(self) -> None:
        for path in self.staging.glob("*"):
            path.unlink()


class MemoryDigestStore:
    """Digests in a dictionary."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def get_digest(self, session_uid: str) -> Digest | None:
        text = self.texts.get(session_uid)
        return Digest.model_validate_json(text) if text is not None else None

    def put_digests(self, connection: object, rows: Rows) -> None:
        self.texts |= {row["session_uid"]: row["digest"] for row in rows}


class MemoryCursorStore:
    """Cursors in a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def known_sources(self) -> KnownSources:
        return KnownSources(
            {key: (row["dev"], row["inode"], row["size"], row["mtime_ns"]) for key, row in self.rows.items()},
            {key: row["status"] for key, row in self.rows.items() if row["status"] != "ok"},
        )

    def put_sources(self, connection: object, rows: Rows) -> None:
        for row in rows:
            self.rows.setdefault(row["path_key"], {}).update(row)

    def mark_sources(self, connection: object, path_keys: Collection[str], **values: Any) -> None:
        for key in path_keys:
            if key in self.rows:
                self.rows[key].update(values)
