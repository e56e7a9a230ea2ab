"""What a sweep opens, as the kernel sees it: no credentials, nothing of the agents' for writing, no network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helix_assets_tests.faults.hostile_home import HostileHome, make
from helix_assets_tests.faults.injection import can_inject

pytestmark = pytest.mark.skipif(not can_inject(), reason="needs Linux and strace to see system calls")

_CALLS = (
    "open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlink,symlinkat,mkdir,mkdirat,"
    "truncate,ftruncate,chmod,fchmod,fchmodat,utimensat,connect"
)
_OPENED = re.compile(r'open\w*\((?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)", ([A-Z_|]+)')
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[HostileHome, list[str]]:
    """A hostile home and the calls that succeeded while `helix sweep` read it."""
    folder = tmp_path_factory.mktemp("traced")
    home = make(folder / "home")
    environ = os.environ | {
        "HOME": str(home.root),
        "CLAUDE_CONFIG_DIR": str(home.root / ".claude"),
        "CODEX_HOME": str(home.root / ".codex"),
        "GROK_HOME": str(home.root / ".grok"),
        "HELIX_DATA_DIR": str(folder / "data"),
        "HELIX_CONFIG": os.devnull,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    log = folder / "calls"
    strace = ["strace", "-f", "-qqq", "-y", "-s", "4096", "-e", f"trace={_CALLS}", "-o", str(log)]
    command = [*strace, sys.executable, "-m", "helix_assets", "sweep", "--json"]
    done = subprocess.run(command, env=environ, cwd="/", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return home, [line for line in log.read_text(errors="replace").splitlines() if " = -1 " not in line]


def opened(calls: list[str]) -> list[tuple[Path, str]]:
    """The files that were opened, links resolved, and how."""
    found = (match for line in calls if (match := _OPENED.search(line)))
    return [(Path(os.path.realpath(Path(match[1] or "/", match[2]))), match[3]) for match in found]


def test_credentials_are_never_opened(traced: tuple[HostileHome, list[str]]) -> None:
    home, calls = traced
    paths = {path for path, _ in opened(calls)}
    assert any(path.suffix == ".jsonl" for path in paths)
    assert not paths & {path.resolve() for path in home.forbidden}


def test_nothing_of_the_agents_is_opened_for_writing_or_changed(traced: tuple[HostileHome, list[str]]) -> None:
    home, calls = traced
    agents = f"{home.root.resolve()}/."
    written = [path for path, how in opened(calls) if str(path).startswith(agents) and _WRITES.search(how)]
    assert written == []
    assert not [line for line in calls if "open" not in line.split("(")[0] and agents in line]


def test_no_connection_is_made(traced: tuple[HostileHome, list[str]]) -> None:
    assert not [line for line in traced[1] if "connect(" in line and "AF_INET" in line]
