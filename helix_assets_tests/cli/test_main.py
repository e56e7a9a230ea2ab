"""The frame of the command line: what is imported when, exit codes, completion."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

from helix_assets.cli import main as frame
from helix_assets.model.errors import BusyError, HelixError, NotFoundError, SettingsError, StoreError
from helix_assets_tests.home import Memory, conversation

CHECKOUT = Path(__file__).resolve().parents[2]
HEAVY = ["click", "dagster", "duckdb", "pyarrow", "pandas", "sqlalchemy", "matplotlib", "pydantic", "rich", "re2"]


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the checkout from a folder that is not it."""
    environ = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environ, cwd="/", check=False
    )


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What `helix status` raises in this test, once the test has put it in here."""
    errors: list[BaseException] = []

    @click.command()
    def status() -> None:
        raise errors[0]

    monkeypatch.setattr(frame, "resolve", lambda entry: status)
    return errors


@pytest.mark.parametrize("name", frame.COMMANDS)
def test_every_entry_names_a_command(name: str) -> None:
    command = frame.resolve(frame.COMMANDS[name])
    assert command.name == name
    assert command.get_short_help_str()


def leaves(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The commands that do something, by all their words."""
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            yield from leaves(f"{name} {part}", inner)
    else:
        yield name, command


def test_every_command_that_prints_answers_programs_too() -> None:
    found = dict(leaf for name, entry in frame.COMMANDS.items() for leaf in leaves(name, frame.resolve(entry)))
    silent = {"hook"}  # prints nothing whatever happens, and hands every option on to the command behind it
    lacking = {name for name, command in found.items() if all("--json" not in param.opts for param in command.params)}
    assert lacking == silent


@pytest.mark.parametrize("name", sorted(set(frame.COMMANDS) - {"completion", "service"}))
def test_every_command_answers_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run([name, "--help"]) == 0
    assert f"helix {name}" in capsys.readouterr().out


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    ended = run_python("-X", "importtime", "-m", "helix_assets", "--help")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in ended.stderr.splitlines()}
    assert all(f"  {name} " in ended.stdout for name in frame.COMMANDS)
    assert not imported & set(HEAVY)


def test_help_is_the_same_wherever_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["--help"]) == 0
    assert capsys.readouterr().out == run_python("-m", "helix_assets", "-h").stdout


def test_settings_import_nothing_heavy() -> None:
    script = "import sys, helix_assets.settings as s; s.load_settings(); print(*sys.modules)"
    imported = {name.partition(".")[0] for name in run_python("-c", script).stdout.split()}
    assert "helix_assets" in imported
    assert not imported & set(HEAVY)


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (HelixError("a"), 1),
        (NotFoundError("a"), 1),
        (BusyError("a"), 75),
        (SettingsError("a"), 78),
        (KeyboardInterrupt(), 130),
        (click.UsageError("a"), 2),
        (click.exceptions.Exit(3), 3),
    ],
)
def test_exit_code_says_what_to_do(raised: list[BaseException], error: BaseException, exit_code: int) -> None:
    raised.append(error)
    assert frame.run(["status"]) == exit_code


def test_error_is_reported_on_stderr_without_control_characters(
    raised: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    raised.append(HelixError("x\x1b[31m.jsonl:3: torn"))
    frame.run(["status"])
    assert capsys.readouterr() == ("", "helix: x[31m.jsonl:3: torn\n")


def test_argument_that_is_no_text_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @click.argument("uid")
    def show(uid: str) -> None:
        uid.encode()

    monkeypatch.setattr(frame, "resolve", lambda entry: show)
    assert frame.run(["show", "a\udcff"]) == 2
    assert capsys.readouterr().err == "helix: 'a\\udcff' is not text in UTF-8\n"


def test_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["sweeep"]) == 2
    assert "No such command 'sweeep'. Did you mean 'sweep'?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"{shell}_source"
    monkeypatch.setenv("_HELIX_COMPLETE", "")
    ended = run_python("-m", "helix_assets", "completion", shell)
    assert source not in ended.stdout
    assert f"_HELIX_COMPLETE={shell}_complete" in ended.stdout


def test_completion_script_is_there_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.run(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert frame.run(["completion", "zsh", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"shell": "zsh", "script": script.removesuffix("\n")}


def test_commands_are_completed_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "resolve", lambda entry: pytest.fail("a command was imported"))
    context = click.Context(frame.cli)
    assert [item.value for item in frame.cli.shell_complete(context, "s")] == [
        "sweep", "status", "sessions", "show", "search", "sql", "service",
    ]  # fmt: skip


def test_files_of_a_command_are_private(tmp_path: Path) -> None:
    made = tmp_path / "made"
    script = "import sys; from helix_assets.cli.main import main\ntry: main()\nfinally: open(sys.argv[-1], 'w')"
    run_python("-c", script, "--version", str(made))
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_reader_that_leaves_early_causes_no_traceback() -> None:
    command = f"{sys.executable} -m helix_assets config --json | head -c 1"
    environ = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environ, check=False)
    assert (ended.stdout, ended.stderr) == ("{", "")


@pytest.mark.parametrize("is_damaged", [True, False])
def test_whatever_a_damaged_catalog_leads_to_ends_in_one_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    raised: list[BaseException],
    capsys: pytest.CaptureFixture[str],
    is_damaged: bool,
) -> None:
    memory = Memory(tmp_path)
    memory.write("s", *conversation(1))
    memory.sweep()
    for name, value in memory.variables.items():
        monkeypatch.setenv(name, value)
    if is_damaged:
        with memory.store.catalog.writing() as connection:
            connection.execute("UPDATE session_keys SET records = x'313233'")
    memory.close()
    raised.append(AttributeError("'NoneType' object has no attribute 'startswith'"))
    if is_damaged:
        assert frame.run(["status"]) == StoreError.exit_code
        assert "the catalog is damaged" in capsys.readouterr().err
    else:
        with pytest.raises(AttributeError):
            frame.run(["status"])


def test_a_locked_catalog_is_not_called_damaged_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: list[BaseException]
) -> None:
    monkeypatch.setattr("helix_assets.store.catalog.connection._PATIENCE_S", 0)
    memory = Memory(tmp_path)
    memory.close()
    for name, value in memory.variables.items():
        monkeypatch.setenv(name, value)
    raised.append(AttributeError("a mistake in the program"))
    with closing(sqlite3.connect(memory.store.settings.catalog_path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(AttributeError):
            frame.run(["status"])
