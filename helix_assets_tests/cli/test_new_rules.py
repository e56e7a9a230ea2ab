"""Between a change of the redaction rules and the sweeps that follow, no command shows what the new rules hide."""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from shutil import rmtree

import pytest

from helix_assets.ask.digest_lookup import MISUSED
from helix_assets.ask.digest_lookup import main as look_up
from helix_assets.cli.main import run
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import answer, call, line, prompt, result

WORD = "quokkaword1234"
CUT = "x" * 185 + f" {WORD} and more"
RULE = f"[[redaction.rules]]\nname = 'house-word'\npattern = '{WORD}'\n"
READERS = (
    ["sessions"],
    ["sessions", "--json"],
    ["show", UID],
    ["show", UID, "--json"],
    ["show", UID, "--payload", "1"],
    ["show", UID, "--payload", "1", "--json"],
    ["digest", UID],
    ["digest", UID, "--json"],
    ["status"],
    ["status", "--json"],
    ["export"],
    ["export", "--sessions"],
    ["evict"],
    ["evict", "--json"],
    ["evict", "--apply"],
    ["evict", "--apply", "--json"],
    ["pin", "claude:named"],
    ["unpin", "claude:named", "--json"],
    ["forget", "claude:named", "--yes", "--json"],
    ["verify"],
    ["verify", "--json"],
)
QUIET = ("forget", "verify")
"""Commands that name what the rules hide only where there is something to complain of."""


@pytest.fixture
def outdated(home: Path) -> Path:
    """A session full of a word that no rule knew when it was swept; the rule is there since."""
    write_session(
        home,
        UID,
        prompt("p1", "10:00:00", CUT, gitBranch=f"fix/{WORD}", cwd=f"/home/u/{WORD}"),
        call("c1", "10:00:01", "Read", "toolu_1", file_path=f"/home/u/{WORD}/a.py"),
        result("r1", "10:00:02", "toolu_1", f"Error: {WORD} is not there", failed=True),
        call("c2", "10:00:03", f"mcp__{WORD}__get", "toolu_2", path=WORD),
        b"no record " + WORD.encode() + b"\n",
        answer("a1", "10:00:04", f"the word is {WORD}", message="m1"),
        line(f"note-{WORD}", "n1", "10:00:05"),
    )
    write_session(home, f"claude:named-{WORD}", prompt("p2", "11:00:00", "hello"))
    with redirect_stdout(StringIO()):
        assert run(["sweep"]) == 0
    (home / "no-helix.toml").write_text(RULE)
    return home


def shown(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert run(list(command)) == 0
    told = capsys.readouterr()
    return told.out + told.err


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_no_reader_shows_what_new_rules_hide(
    outdated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "1")
    (outdated / "no-helix.toml").write_text("")
    assert "--apply" in command or command[0] in QUIET or WORD in shown(capsys, *command)
    (outdated / "no-helix.toml").write_text(RULE)
    text = shown(capsys, *command)
    assert WORD not in text
    assert "quokkawo" not in text


def test_digest_of_an_evicted_session_is_shown_by_new_rules(
    outdated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (outdated / "no-helix.toml").write_text("")
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "1")
    assert run(["evict", "--apply"]) == 0
    capsys.readouterr()
    (outdated / "no-helix.toml").write_text(RULE)
    for command in (["show", UID], ["show", UID, "--json"], ["digest", UID]):
        text = shown(capsys, *command)
        assert "house_word" in text
        assert WORD not in text


def test_status_shows_how_far_the_rescan_is(outdated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    redaction = json.loads(shown(capsys, "status", "--json"))["versions"]["redaction"]
    assert redaction["current"] not in redaction["sessions"]
    assert "0 of 2 sessions; sweeps do the rest" in shown(capsys, "status")
    shown(capsys, "sweep")
    redaction = json.loads(shown(capsys, "status", "--json"))["versions"]["redaction"]
    assert redaction["sessions"] == {redaction["current"]: 2}
    assert "sweeps do the rest" not in shown(capsys, "status")


def test_restore_says_that_new_rules_do_not_reach_what_it_leaves(
    outdated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "restore", "--yes")
    (folder,) = (outdated / "data" / "set-aside").iterdir()
    assert f"{folder}. New redaction rules do not reach it" in text
    shown(capsys, "sweep")
    assert run(["verify", "--secrets"]) == 1
    assert f"set-aside/{folder.name}/helix.db" in capsys.readouterr().out


def test_sessions_that_may_be_meant_are_named_by_new_rules(outdated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(outdated, f"claude:named-{WORD}-too", prompt("p3", "12:00:00", "hello"))
    (outdated / "no-helix.toml").write_text("")
    assert run(["sweep"]) == 0
    for rule, is_shown in (("", True), (RULE, False)):
        (outdated / "no-helix.toml").write_text(rule)
        capsys.readouterr()
        assert run(["show", "named"]) == 2
        assert (WORD in capsys.readouterr().err) is is_shown
        assert look_up(["named"]) == MISUSED
        assert (WORD in capsys.readouterr().err) is is_shown


def test_restore_names_lost_sessions_by_new_rules(outdated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (outdated / "no-helix.toml").write_text("")
    shown(capsys, "backup")
    rmtree(outdated / "data" / "raw")
    (outdated / "no-helix.toml").write_text(RULE)
    text = shown(capsys, "restore", "--yes", "--json")
    assert any("named-[redacted:house_word:" in uid for uid in json.loads(text)["lost"])
    assert WORD not in text


def test_errors_are_redacted_by_the_rules_in_force(outdated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in (outdated / "data" / "raw").rglob("*.parquet"):
        part.write_bytes(b"damaged")
    for command in (
        ["show", "claude:named"],
        ["verify"],
        ["sql", "select * from events"],
        ["search", "hello"],
    ):
        run(command)
        told = capsys.readouterr()
        assert "house_word" in told.out + told.err
        assert WORD not in told.out + told.err


def test_error_names_no_path_with_a_secret(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "data").mkdir(mode=0o700)
    (home / "data" / "helix.db").symlink_to(home / "none")
    (home / "no-helix.toml").write_text(RULE)
    assert run(["backup", "--json"]) != 0
    assert run(["restore", "--from", WORD]) != 0
    told = capsys.readouterr()
    assert "house_word" in told.err
    assert WORD not in told.out + told.err
