"""Whatever names, paths and texts hold, no command hands a terminal what it would obey."""

from __future__ import annotations

import ast
import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import pytest

from helix_assets.ask.digest_lookup import main as look_up
from helix_assets.ask.reports.all_reports import REPORTS
from helix_assets.cli import main as command_line
from helix_assets.cli import up as up_module
from helix_assets.cli.listing import COMMANDS
from helix_assets.cli.main import run
from helix_assets.keep import evict
from helix_assets.serve.lifeline import Say
from helix_assets.serve.up import ServeOptions
from helix_assets.store.catalog import sessions
from helix_assets_tests.ask.test_sql import TINY
from helix_assets_tests.home import Memory, answer, call, conversation, line, prompt, result

EVIL = "e\x1b[2J\x1b]0;x\x07\x9b1m\u202e\rv"
BAD = ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\u202e", "\r")
NAME = f"{EVIL}1"
UID = f"claude:{NAME}"
EVICTED = f"claude:{EVIL}2"
COMMANDS_DIR = Path(command_line.__file__).parent


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """Sessions of which every name and text would drive a terminal, in a folder of such a name."""
    made = Memory(tmp_path / EVIL)
    where = {"cwd": f"/home/{EVIL}/shop", "gitBranch": EVIL, "version": EVIL}
    made.write(
        NAME,
        line("summary", "", "09:59:00", summary=EVIL),
        prompt("p1", "10:00:00", f"wipe {EVIL}", **where),
        call("c1", "10:00:05", EVIL, "t1", command=f"rm {EVIL}", file_path=f"/x/{EVIL}.py"),
        result("r1", "10:00:06", "t1", f"Error: no such file {EVIL}", failed=True),
        call("c2", "10:00:10", "Edit", "t2", file_path=f"/x/{EVIL}.py", old_string="a", new_string="b"),
        result("r2", "10:00:11", "t2", "done"),
        answer("a1", "10:00:20", f"it is done {EVIL}", message=EVIL, **where),
        b"no json " + EVIL.encode() + b"\n",
        project=f"-home-{EVIL}",
    )
    made.write(f"{EVIL}2", *conversation(2, session="b"))
    made.sweep()
    with made.store.catalog.writing() as connection:
        named = {"title": EVIL, "repo": EVIL, "model": EVIL, "failure": f"ValueError: {EVIL}", "failures": 1}
        sessions.change(connection, 1, **named)
    evict.apply(made.store, clock=lambda: made.now, policy=TINY)
    again = [*conversation(2, session="c"), prompt("p2", "11:00:00", f"again {EVIL}")]
    made.write(NAME, *again, append=True, project=f"-home-{EVIL}")
    made.sweep()
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / EVIL / "config"))
    monkeypatch.setattr("helix_assets.cli.up.serve", _served)
    monkeypatch.setattr(up_module, "_DEMO_SESSIONS", 1)
    yield made
    made.close()


def _served(data_dir: Path, options: ServeOptions, say: Say, *steps: Callable[[], None]) -> None:
    """Serving ends as soon as it has begun."""
    say(f"served from {data_dir}")
    for step in steps:
        step()


WALK: dict[str, Sequence[Sequence[str]]] = {
    "up": [["--json"], []],
    "sweep": [[]],
    "status": [[]],
    "sessions": [[], ["--repo", EVIL], ["--agent", EVIL]],
    "show": [[UID], [EVICTED], [UID, "--payload", str(uuid5(NAMESPACE_OID, "p2"))], [UID, "--payload", EVIL],
             [UID, "--events", EVIL], [EVIL]],
    "digest": [[UID], ["claude:e"], [f"claude:{EVIL}"], [EVIL]],
    "env": [[UID], [UID, "--shell", "dotenv"], [UID, "--shell", "fish"], [EVIL], ["--cwd", EVIL]],
    "search": [["step"], ["wipe"], [f'"{EVIL}'], ["step", "--kind", EVIL]],
    "sql": [
        ["select * from sessions"], ["select * from sessions", "--csv"], [f"select '{EVIL}' as \"{EVIL}\""],
        [f"select {EVIL}"], [f"select 1 as \"{EVIL}\"", "--csv"], [f"from {EVIL}"],
    ],
    "report": [[], *([name] for name in REPORTS), ["file_heatmap", "--csv", "files"], ["tool_report", "--files"],
               [EVIL], ["usage_report", "--since", EVIL]],
    "hooks": [["status"], ["install", "--agent", "claude", "--dry-run"], ["install", "--agent", EVIL],
              ["install", "--agent", "claude"], ["uninstall", "--agent", "claude"]],
    "hook": [["claude", "--", f"/no/{EVIL}"]],
    "evict": [[], ["--apply"]],
    "pin": [[UID], [EVIL]],
    "unpin": [[UID]],
    "rederive": [[], ["--session", UID, "--force"], ["--session", EVIL], ["--agent", EVIL], ["--day", EVIL]],
    "verify": [[]],
    "backup": [[], ["--list"]],
    "restore": [[], ["--from", EVIL], ["--yes"]],
    "doctor": [[]],
    "export": [[], ["--sessions"], ["--out", f"{EVIL}.jsonl"]],
    "config": [[]],
    "demo": [[f"{EVIL}-home", "--sessions", "1"]],
    "service": [["install", "--dry-run"], ["status"], ["uninstall"]],
    "redact": [[], ["--jsonl"], ["--key-file", EVIL]],
    "completion": [["bash"], [EVIL]],
    "forget": [[UID, "--yes"], ["--repo", EVIL, "--yes"], [EVIL, "--yes"]],
}  # fmt: skip
FIRST = {"hook": 127, "verify": 1, "doctor": None}
"""How the first way of a command ends, where not with 0: a walk past shut doors would prove nothing."""
HANDED_OVER = {"export", "redact"}
"""What these write into a pipe is for programs, to the byte."""


def test_the_walk_comes_by_every_command() -> None:
    assert set(WALK) == set(COMMANDS)


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_no_command_hands_on_what_a_terminal_obeys(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    monkeypatch.chdir(memory.folder)
    for name, ways in WALK.items():
        if name == "verify":  # and what comes after it shall have something to name
            next(memory.store.raw.root.glob("*/*/*.parquet")).unlink()
        for arguments in (way for plain in ways for way in (plain, [*plain, "--json"])):
            text = json.dumps({"id": 1, "text": EVIL}) if "--jsonl" in arguments else EVIL
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
            code = run([name, *arguments])
            assert arguments != ways[0] or FIRST.get(name, 0) in (None, code)
            said = capsys.readouterr()
            shown = said.err if name in HANDED_OVER and not is_terminal else said.out + said.err
            assert not [bad for bad in BAD if bad in shown], f"{name} {arguments}: {shown!r}"


@pytest.mark.parametrize(
    "arguments", [[EVIL], ["--" + EVIL], ["status", "--" + EVIL], ["status", EVIL], ["sweeq" + EVIL]]
)
def test_what_was_typed_comes_back_harmless(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert not [bad for bad in BAD if bad in capsys.readouterr().err]


def test_the_fast_lookup_is_no_way_around(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([UID], [UID, "--json"], ["claude:e"], [EVIL]):
        look_up(arguments)
        said = capsys.readouterr()
        assert not [bad for bad in BAD if bad in said.out + said.err], arguments


def test_a_warning_on_its_way_to_a_terminal_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("helix", logging.WARNING, "", 0, "lost: %s", (EVIL,), None)
    command_line.clean_warnings()
    assert logging.lastResort is not None
    assert not [bad for bad in BAD if bad in logging.lastResort.format(record)]


def _writes(module: Path) -> Iterator[str]:
    """Ways of writing to the terminal past `output`."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in {"click.echo", "click.secho", "click.style", "click.prompt"}:
                yield name
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {
            "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer", "sys.stderr.buffer",
        }:  # fmt: skip
            yield ast.unparse(node)


@pytest.mark.parametrize("module", sorted(COMMANDS_DIR.glob("*.py")), ids=lambda path: path.name)
def test_commands_write_through_output_alone(module: Path) -> None:
    assert module.name == "output.py" or not list(_writes(module))
