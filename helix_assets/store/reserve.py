"""A file in the data folder that holds nothing but room: eviction gives it up first, so that it works on a full disk.

Without it eviction could not even write down what is about to go. Every writer makes it again once it is done.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from helix_assets.store.durable import new_file

RESERVE = "reserve"
BYTES = 1 << 20
# What some file systems could pack or leave out would keep no room, and by chance some random text looks like a secret.
_NO_TEXT = bytes(byte | 0x80 for byte in range(256))


def make_reserve(data_dir: Path) -> None:
    """Keep the room, unless it is kept already or there is none to keep."""
    path = data_dir / RESERVE
    try:
        if path.exists() and path.stat().st_size == BYTES:
            return
        with new_file(path) as file:
            file.write(os.urandom(BYTES).translate(_NO_TEXT))
    except OSError:
        give_up_reserve(data_dir)


def give_up_reserve(data_dir: Path) -> None:
    """Let the room go."""
    with suppress(OSError):
        (data_dir / RESERVE).unlink()
