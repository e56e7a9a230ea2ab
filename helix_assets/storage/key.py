"""The store's own key: every content hash is keyed with it, so hashes tell nothing to who has not the key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from helix_assets.core.errors import StoreError

KEY_BYTES = 32


def load_key(data_dir: Path) -> bytes:
    """The store's key, made at first use; a damaged key file is refused, never replaced silently."""
    path = data_dir / "key"
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return _make_key(path)
    if len(key) != KEY_BYTES:
        raise StoreError(
            f"{path} is damaged ({len(key)} bytes instead of {KEY_BYTES}): restore it from the backup, "
            "or remove it and every source is read again"
        )
    return key


def _make_key(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(KEY_BYTES)
    fresh = path.with_name(f".key.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(key)
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        key = path.read_bytes()
    finally:
        fresh.unlink()
    return key


def hasher(key: bytes) -> Callable[[bytes], int]:
    """A keyed hash of 64 bits, as a signed integer that every database takes."""
    # The key fills a block of its own: hashing it once and copying that state halves the time of a short text.
    keyed = blake2b(digest_size=8, key=key)

    def hash64(data: bytes) -> int:
        state = keyed.copy()
        state.update(data)
        return int.from_bytes(state.digest(), "big", signed=True)

    return hash64


def text_hash(key: bytes, data: bytes) -> str:
    """A keyed hash of 128 bits as hex, for cursors and file names."""
    return blake2b(data, digest_size=16, key=key).hexdigest()
