"""A file in the data folder that only reserves space: eviction deletes it first, so that it works on a full disk.

Without it eviction could not even write down what is about to go. Every writer makes it again at its end.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from helix_assets.store.durable import new_file

RESERVE = "reserve"
BYTES = 1 << 20
# Random, because some file systems compress or skip other data; not ASCII, because random text may look like a secret.
_NO_TEXT = bytes(byte | 0x80 for byte in range(256))


def make_reserve(data_dir: Path) -> None:
    """Reserve the space, unless it is reserved already or there is none."""
    path = data_dir / RESERVE
    try:
        if path.exists() and path.stat().st_size == BYTES:
            return
        with new_file(path) as file:
            file.write(os.urandom(BYTES).translate(_NO_TEXT))
    except OSError:
        give_up_reserve(data_dir)


def give_up_reserve(data_dir: Path) -> None:
    """Free the reserved space."""
    with suppress(OSError):
        (data_dir / RESERVE).unlink()
