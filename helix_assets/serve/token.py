"""The token of a UI that other machines may reach: made at first use, kept in one private file."""

import os
import secrets
import stat
from pathlib import Path

from helix_assets.model.errors import StoreError

_MIN_LENGTH = 32


def ui_token(data_dir: Path) -> str:
    """The token in <data dir>/ui.token, created if there is none. A file that others can read is refused."""
    path = data_dir / "ui.token"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    token = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def _read(path: Path) -> str:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise StoreError(f"{path}: others may know this token; delete the file, a new one is made at the next start")
    token = path.read_text(encoding="ascii", errors="replace").strip()
    if len(token) < _MIN_LENGTH:
        raise StoreError(f"{path}: too short to be a token; delete the file, a new one is made at the next start")
    return token
