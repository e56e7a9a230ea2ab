"""Whether a digest or a file is the one that was written, proven by its keyed hash in the catalog."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

from helix_assets.model.errors import StoreError
from helix_assets.store.catalog.connection import Row
from helix_assets.store.key import text_hash


def digest_text(row: Row | None, key: bytes) -> str | None:
    """The digest's JSON, proven by its hash; None when there is none yet."""
    if row is None:
        return None
    if not is_proven(row, key):
        raise StoreError(f"the digest of {row.session_uid} is damaged: run `helix verify`")
    return str(row.digest)


def is_proven(row: Row, key: bytes) -> bool:
    """Whether the digest in this row is the one that was written."""
    return text_hash(key, row.digest.encode()) == str(row.hash)


def stream_hash(file: IO[bytes], key: bytes) -> str:
    """The keyed hash of an open file, to compare with the catalog's."""
    return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16, key=key)).hexdigest()  # type: ignore[arg-type]


def fault_of(path: Path, size: int, mark: str, key: bytes | None) -> tuple[str, str] | None:
    """The name of the check that a file fails and what is wrong; None for a file with this size and hash.

    Without a key only the size is compared.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                return "file_bytes", f"has {found} bytes where the catalog says {size}"
            if key is not None and stream_hash(file, key) != mark:
                return "file_hash", "is not the file that was written"
    except FileNotFoundError:
        return "row_has_file", "the file is gone"
    except OSError as exc:
        return "file_readable", type(exc).__name__
    return None
