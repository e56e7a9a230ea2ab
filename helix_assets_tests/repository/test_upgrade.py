"""What the code before the rooms installed still works when this code takes its place, and comes out without a trace.

The old code comes from git and runs in this environment: it sweeps, installs hooks and a service, and leaves a history
of Dagster. Then this code replaces it in the same folder, as `git pull` does.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from helix_assets.demo import make_home
from helix_assets_tests.conftest import CHECKOUT
from helix_assets_tests.serve.tree import START_SECONDS, environment, free_port, wait_until

pytestmark = pytest.mark.slow

OLD = "c4a903b0dc8149b0652ae6431c2eef576f02a63d"
AGENTS = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "grok": "GROK_HOME"}
SETTINGS = {"claude": "settings.json", "codex": "config.toml", "grok": "hooks/helix-assets.json"}
OWN = {
    "claude": '{\n  // mine\n  "model": "opus",\n  "hooks": {"Stop": [{"hooks": []}]}\n}\n',
    "codex": '# mine\nmodel = "gpt-5"\n\n[tui]\nnotifications = true\n',
}
FEED = """import os
from helix_assets.kaizen.feed import append_news
from helix_assets.settings import load_settings
from helix_assets.store import open_store
store = open_store(load_settings(os.environ))
with store.writing("feed digests"):
    print(append_news(store, "2026-06-20T12:00:00.000Z").position)
"""
HISTORY = "import os; os.umask(0o077); from dagster import DagsterInstance as D; i = D.get(); "


@dataclass(frozen=True)
class Place:
    """A checkout with its data folder, the home of the person who made it, and the environment of both."""

    code: Path
    home: Path
    variables: Mapping[str, str]

    @property
    def data(self) -> Path:
        return self.code / "data"

    def python(self, *arguments: str, **more: str) -> str:
        """Run Python on the code that lies there; gives what it says."""
        command, variables = [sys.executable, *arguments], {**self.variables, **more}
        done = subprocess.run(command, cwd=self.home, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def helix(self, *arguments: str, **more: str) -> str:
        return self.python("-m", "helix_assets", *arguments, **more)

    def settings(self, agent: str) -> Path:
        return self.home / agent / SETTINGS[agent]

    @property
    def unit(self) -> Path:
        return self.home / ".config" / "systemd" / "user" / "helix-assets.service"

    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.data / "inbox").glob("*.json"))]


def put_old(folder: Path) -> list[str]:
    """Unpack the old code; gives the names of its files."""
    made = subprocess.run(["git", "archive", OLD], cwd=CHECKOUT, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"the history of this checkout does not reach back to {OLD[:7]}: {made.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
        return [member.name for member in archive if member.isfile()]


def put_new(folder: Path, old: list[str]) -> None:
    """Replace the old files with the present ones. What git does not know stays: data, compiled files."""
    for name in old:
        (folder / name).unlink()
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=CHECKOUT, capture_output=True, check=True).stdout.decode().split("\0"):
        if name and (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(CHECKOUT / name, folder / name)


def new_place(folder: Path) -> Place:
    """An old checkout, a home with sessions of three agents and settings of their own, and a systemctl that records."""
    home, code, programs = folder / "home", folder / "code", folder / "bin"
    make_home(home, sessions=6, seed=3, dirty=False)
    for agent, text in OWN.items():
        (home / agent / SETTINGS[agent]).write_text(text)
    programs.mkdir()
    (programs / "systemctl").write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(folder / "systemctl.log"))}\n')
    (programs / "systemctl").chmod(0o755)
    config = folder / "no-helix.toml"
    config.touch()
    variables = environment(folder) | {name: str(home / agent) for agent, name in AGENTS.items()}
    variables |= {"HELIX_CONFIG": str(config), "PYTHONPATH": str(code), "PATH": f"{programs}:{os.environ['PATH']}"}
    return Place(code, home, variables)


@dataclass(frozen=True)
class Upgraded(Place):
    """The place after the move, and what the old code left."""

    exported: str
    dagster_yaml: str
    by_hand_yaml: str
    unit_text: str
    feed_position: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    folder = tmp_path_factory.mktemp("upgrade")
    place = new_place(folder)
    names = put_old(place.code)
    place.helix("sweep")
    for agent in AGENTS:
        place.helix("hooks", "install", "--agent", agent)
    place.helix("service", "install", "--port", str(free_port()))
    place.python(
        "-c",
        "from pathlib import Path; from helix_assets.dagster_home import prepare_dagster_home as p; "
        f"p(Path({str(place.data)!r})); {HISTORY} i.add_dynamic_partitions('kept', ['old'])",
        DAGSTER_HOME=str(place.data / "dagster"),
    )
    left = (
        place.helix("export"),
        (place.data / "dagster" / "dagster.yaml").read_text(),
        (place.code / "dagster.yaml").read_text(),
        place.unit.read_text(),
        place.python("-c", FEED),
    )
    put_new(place.code, names)
    return Upgraded(place.code, place.home, place.variables, *left)


def sessions(place: Upgraded, agent: str) -> list[str]:
    """The uids of an agent's sessions, as the old code exported them."""
    rows = [json.loads(line) for line in place.exported.splitlines()]
    return sorted({row["session_uid"] for row in rows if str(row.get("session_uid")).startswith(agent)})


def as_the_agent_would(place: Upgraded, agent: str, session: str) -> list[list[str]]:
    """The commands that the old code put into an agent's settings; codex adds the event to it."""
    text = place.settings(agent).read_text()
    if agent == "codex":
        event = {"type": "agent-turn-complete", "thread-id": session}
        return [[*tomllib.loads(text)["notify"], json.dumps(event)]]
    groups = json.loads(text.replace("// mine", ""))["hooks"]
    return [["sh", "-c", hook["command"]] for of in groups.values() for group in of for hook in group["hooks"]]


@pytest.mark.parametrize("agent", AGENTS)
def test_hooks_that_were_installed_still_leave_notes(place: Upgraded, agent: str) -> None:
    session = sessions(place, agent)[0].partition(":")[2]
    commands = as_the_agent_would(place, agent, session)
    assert all(str(place.code / "helix_assets" / "hook.py") in " ".join(command) for command in commands)
    before = len(place.notes())
    event = json.dumps({"hook_event_name": "Stop", "session_id": session}).encode()
    for command in commands:
        ended = subprocess.run(command, input=event, env=dict(place.variables), capture_output=True, check=True)
        assert ended.stdout + ended.stderr == b""
    noted = [(note["agent"], note["event"], note["session"]) for note in place.notes()[before:]]
    assert noted == [(agent, "Stop", session)] * len(commands)
    assert commands


def test_the_look_up_by_its_old_name_answers(place: Upgraded) -> None:
    place.helix("sweep")  # the redaction rules are others than then: what is stored is withheld until it is redacted
    (uid, *_) = sessions(place, "claude")
    digest = json.loads(place.python("-m", "helix_assets.digest_lookup", uid, "--json"))
    assert digest["session_uid"] == uid
    assert json.loads(place.python("-m", "helix_assets.digest_lookup", "--schema"))["type"] == "object"


def test_a_program_that_searches_by_the_old_names_still_finds(place: Upgraded) -> None:
    place.helix("sweep")
    program = """
from helix_assets import Memory
from helix_assets.search import Filters
with Memory() as memory:
    print({hit.session_uid.partition(":")[0] for hit in memory.search("the", Filters(agent="grok")).hits})
"""
    assert place.python("-c", program) == "{'grok'}\n"


@pytest.mark.parametrize("by_hand", [False, True], ids=["of helix up", "of the checkout"])
def test_a_dagster_yaml_with_the_old_class_names_shows_the_old_history(
    place: Upgraded, tmp_path: Path, by_hand: bool
) -> None:
    text = place.by_hand_yaml if by_hand else place.dagster_yaml
    assert "helix_assets.dagster_storage" in text
    (tmp_path / "dagster.yaml").write_text(text)
    said = place.python("-c", f"{HISTORY} print(i.get_dynamic_partitions('kept'))", DAGSTER_HOME=str(tmp_path))
    assert said == "['old']\n"


def test_a_sweep_goes_on_with_the_store_and_exports_what_a_new_one_would(place: Upgraded, tmp_path: Path) -> None:
    place.helix("sweep")
    place.helix("verify")
    tmp_path.chmod(0o700)
    shutil.copyfile(place.data / "key", tmp_path / "key")
    (tmp_path / "key").chmod(0o600)
    fresh = {"HELIX_DATA_DIR": str(tmp_path)}
    place.helix("sweep", **fresh)
    exported = place.helix("export")
    assert exported == place.helix("export", **fresh)
    assert all(uid in exported for agent in AGENTS for uid in sessions(place, agent))


def test_consumers_of_the_digests_and_of_the_feed_go_on(place: Upgraded) -> None:
    place.helix("sweep")
    uids = {uid for agent in AGENTS for uid in sessions(place, agent)}
    last = int(place.feed_position)
    with closing(sqlite3.connect(f"{(place.data / 'helix.db').as_uri()}?mode=ro", uri=True)) as connection:
        assert {uid for uid, _ in connection.execute("select session_uid, digest from digests")} == uids
        entries = connection.execute("select position, change, session_uid from feed order by position").fetchall()
    news = [entry for entry in entries if entry[0] > last]
    assert last >= len(uids)
    assert news[0][1:] == ("forgotten", None)
    assert {change for _, change, _ in news[1:]} <= {"revised"}
    assert not (place.data / "feed").exists()


@pytest.fixture
def served(place: Upgraded) -> Iterator[subprocess.Popen[bytes]]:
    """What systemd starts: the command of the unit, with nothing in its environment but what the unit says."""
    said = [line.partition("=") for line in place.unit_text.splitlines()]
    (command,) = [shlex.split(value) for name, _, value in said if name == "ExecStart"]
    variables = dict(shlex.split(value)[0].split("=", 1) for name, _, value in said if name == "Environment")
    places = {name: place.variables[name] for name in ("HOME", "PATH", "XDG_CACHE_HOME")}
    with (place.home / "service.log").open("wb") as output:
        process = subprocess.Popen(command, cwd="/", env=places | variables, stdout=output, stderr=output)
    yield process
    process.kill()
    process.wait()


@pytest.mark.real
def test_the_service_that_was_installed_still_starts(place: Upgraded, served: subprocess.Popen[bytes]) -> None:
    log = place.home / "service.log"
    assert wait_until(lambda: b"Dagster UI on" in log.read_bytes()), log.read_text()
    served.send_signal(signal.SIGTERM)
    assert served.wait(START_SECONDS) == 0, log.read_text()


@pytest.fixture
def settled(place: Upgraded, tmp_path: Path) -> Place:
    """A home as the old code left it, of this test alone: what is taken out here is still there for the others."""
    shutil.copytree(place.home, tmp_path / "copy", symlinks=True)
    moved = {name: value.replace(str(place.home), str(tmp_path / "copy")) for name, value in place.variables.items()}
    return Place(place.code, tmp_path / "copy", moved)


@pytest.mark.parametrize("agent", AGENTS)
def test_old_hooks_are_found_and_come_out_without_a_trace(settled: Place, agent: str) -> None:
    (status,) = json.loads(settled.helix("hooks", "status", "--agent", agent, "--json"))["agents"]
    assert status["events"]
    settled.helix("hooks", "uninstall", "--agent", agent)
    file = settled.settings(agent)
    assert (file.read_text() if file.exists() else None) == OWN.get(agent)
    left = [path for path in file.parent.iterdir() if "before-helix" not in path.name]
    assert [path for path in left if path.is_file() and b"helix" in path.read_bytes()] == []


def test_old_hooks_are_replaced_by_an_install_not_doubled(settled: Place) -> None:
    before = settled.settings("claude").read_text()
    settled.helix("hooks", "install", "--agent", "claude")
    after = settled.settings("claude").read_text()
    assert after.count("hook.py") == before.count("hook.py")
    assert str(settled.code / "helix_assets" / "hook.py") not in after


def test_the_old_service_is_found_and_comes_out_without_a_trace(settled: Place) -> None:
    assert json.loads(settled.helix("service", "status", "--json"))["installed"]
    settled.helix("service", "uninstall")
    assert list(settled.unit.parent.iterdir()) == []
