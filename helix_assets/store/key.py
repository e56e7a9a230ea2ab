"""The store's own key. Every content hash is keyed with it, so a hash reveals nothing without the key."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from helix_assets.model.errors import StoreError
from helix_assets.store.durable import replace_file

KEY = "key"
KEY_BYTES = 32


def load_key(data_dir: Path) -> bytes:
    """The store's key. StoreError if it is gone or damaged; it is never replaced silently."""
    path = data_dir / KEY
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) != KEY_BYTES:
        raise StoreError(
            f"{path} is gone or damaged, and with it the proof of every file: restore it from the backup, "
            f"or move {data_dir} away and sweep again"
        )
    return key


def make_key(data_dir: Path) -> None:
    """Make the key of a new store, unless it has one. Needs the writer lock."""
    path = data_dir / KEY
    if path.exists():
        return
    replace_file(path, secrets.token_bytes(KEY_BYTES))


def hasher(key: bytes) -> Callable[[bytes], int]:
    """A keyed hash of 64 bits, as a signed integer that every database accepts."""
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
