"""What the README says one types, typed in one clone, in that order."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helix_assets_tests.home import conversation
from helix_assets_tests.serve.tree import CHECKOUT, free_port

_COMMANDS = re.compile(r"^\$ helix (.*)$", re.MULTILINE)
_CLONED = ("helix_assets", "scripts", "up", "pyproject.toml", "requirements.lock", "requirements-dev.lock")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the checkout with the environment that the tests run in, so that none is installed."""
    environment = Path(sys.prefix)
    if not (environment / "installed").is_dir():
        pytest.skip("the tests do not run in an environment that scripts/make_environment made")
    # Otherwise `./up` would install into it, under the name of the copy.
    for name in ("requirements-dev.lock", "pyproject.toml"):
        installed = environment / "installed" / name
        assert installed.read_bytes() == (CHECKOUT / name).read_bytes(), "run scripts/make_environment first"
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in _CLONED:
        copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
        copy(CHECKOUT / name, folder / name)
    (folder / ".venv").symlink_to(environment)
    return folder


def variables(clone: Path) -> dict[str, str]:
    """The environment of somebody who has no settings; the clone's code comes before the installed one."""
    return {"PATH": os.environ["PATH"], "HOME": str(clone.parent / "person"), "PYTHONPATH": str(clone)}


@contextmanager
def up(clone: Path, *options: str) -> Iterator[dict[str, Any]]:
    """`./up`, until it answers; Ctrl-C at the end."""
    command = ["./up", *options, "--json", "--port", str(free_port())]
    errors = clone.parent / "errors.txt"
    with errors.open("ab") as told:
        process = subprocess.Popen(command, cwd=clone, env=variables(clone), stdout=subprocess.PIPE, stderr=told)
        try:
            line = process.stdout.readline() if process.stdout else b""
            assert line, errors.read_text()
            yield json.loads(line)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, errors.read_text()
        finally:
            process.kill()
            process.communicate()


def helix(clone: Path, command: str, *arguments: str) -> str:
    done = subprocess.run(
        [clone / command, *arguments], cwd=clone, env=variables(clone), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"helix {' '.join(arguments)}: {done.stderr or done.stdout}"
    return done.stdout


@pytest.mark.real
def test_the_demo_comes_first_and_the_persons_own_memory_after_it(clone: Path) -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    commands = [shlex.split(found, comments=True) for found in _COMMANDS.findall(readme)]
    assert {"sweep", "status", "show", "report"} <= {first for first, *_ in commands}
    log = clone.parent / "person" / ".claude" / "projects" / "-home-u-shop" / "s1.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(conversation(3)))

    with up(clone, "--demo") as answer:
        assert Path(answer["data_dir"]) == clone / "data" / "demo"
    for command in commands:
        helix(clone, "data/demo/helix", *command)
    assert "no memory" in helix(clone, ".venv/bin/helix", "status")
    with up(clone) as answer:
        assert Path(answer["data_dir"]) == clone / "data"
        assert answer["sweep"]["sessions_touched"] == 1
    assert [one["session_uid"] for one in json.loads(helix(clone, ".venv/bin/helix", "sessions", "--json"))] == [
        "claude:s1"
    ]
    for command in ("status", "evict", "verify", "export", "config"):
        helix(clone, ".venv/bin/helix", command)
    assert "74" in helix(clone, "data/demo/helix", "status")
