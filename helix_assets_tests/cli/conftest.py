"""A home with one Claude session that `helix sweep` has taken in, for the tests of the commands that read it."""

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets_tests.home import conversation

UID = "claude:11111111-aaaa-4aaa-8aaa-000000000001"


def write_session(home: Path, uid: str, *lines: bytes) -> Path:
    """Put a session where Claude would."""
    path = home / ".claude" / "projects" / "-home-u-shop" / f"{uid.removeprefix('claude:')}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture
def swept(home: Path) -> Path:
    """The home after a first sweep; nothing of what that said is left to read."""
    write_session(home, UID, *conversation(3))
    with redirect_stdout(StringIO()):
        assert run(["sweep"]) == 0
    return home
