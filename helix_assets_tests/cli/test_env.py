"""`helix env` hands a closed session to other programs, quoted safely whatever a folder is called."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from helix_assets.ask.closing_env import SHELLS
from helix_assets.cli.main import run
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import call, conversation, prompt

NASTY = [
    "plain",
    "",
    "two words",
    "it's",
    '"$(touch /tmp/x)`id`"',
    "a\\b",
    "-n",
    "ä€",
    "line\nbreak",
    "\x1b[31mred\x07",
]


def values(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    assert run(["env", *arguments, "--shell", "json"]) == 0
    found: dict[str, str] = json.loads(capfd.readouterr().out)
    return found


def test_json_is_the_shell_of_that_name(swept: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["env", UID, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == values(capfd, UID)


def test_the_six_variables_are_those_of_the_digest(swept: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_session(home, UID, *conversation(3), call("m", "11:00:00", "mcp__hub__post", "toolu_m"))
    assert run(["sweep"]) == 0
    capfd.readouterr()
    assert values(capfd, UID) == {
        "HELIX_SESSION_UID": UID,
        "HELIX_REPO": "shop",
        "HELIX_FLAVOR": "claude",
        "HELIX_TOKENS": str(3 * (1 + 5 + 3) + 10 + 11 + 12 + 1 + 5),
        "HELIX_INFRA_OVERHEAD_SHARE": "0.25",
        "HELIX_STORE_DB": os.environ["HELIX_DATA_DIR"] + "/helix.db",
    }


def test_the_bucket_is_a_setting(
    swept: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_INFRA_TOOLS", "Bash")
    assert values(capfd, UID)["HELIX_INFRA_OVERHEAD_SHARE"] == "1.0"


def test_latest_is_the_one_that_ended_last(swept: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    later = UID[:-1] + "2"
    write_session(home, later, *(line.replace(b"2026-06-05", b"2026-06-06") for line in conversation(1, session="b")))
    assert run(["sweep"]) == 0
    capfd.readouterr()
    assert values(capfd, "--latest")["HELIX_SESSION_UID"] == later


def test_cwd_is_a_folder_or_one_above_it(swept: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = prompt("x", "23:00:00", "elsewhere").replace(b"/home/u/shop", b"/home/u/shopping")
    write_session(home, UID[:-1] + "2", line)
    assert run(["sweep"]) == 0
    capfd.readouterr()
    assert values(capfd, "--cwd", "/home/u/shop")["HELIX_SESSION_UID"] == UID
    assert values(capfd, "--cwd", "/home/u")["HELIX_SESSION_UID"] == UID[:-1] + "2"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "name one session"),
        (["--latest", UID], 2, "name one session"),
        (["nobody"], 1, "no session begins with"),
        (["--cwd", "/nowhere"], 1, "no session of /nowhere"),
    ],
)
def test_what_names_no_session_is_refused(
    swept: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run(["env", *arguments]) == code
    out, err = capfd.readouterr()
    assert not out
    assert said in err


def test_a_prefix_of_several_lists_them(swept: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_session(home, UID[:-1] + "2", *conversation(1, session="b"))
    assert run(["sweep"]) == 0
    capfd.readouterr()
    assert run(["env", "claude:1111"]) == 2
    out, err = capfd.readouterr()
    assert not out
    assert UID in err


def test_without_a_store_nothing_is_printed(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["env", "--latest"]) == 1
    assert not capfd.readouterr().out


@pytest.mark.parametrize("value", NASTY)
def test_bash_reads_back_what_was_written(value: str) -> None:
    script = 'eval "$1"; printf %s "$HELIX_REPO"'
    command = ["bash", "-c", script, "bash", SHELLS["bash"]({"HELIX_REPO": value})]
    assert subprocess.run(command, capture_output=True, check=True).stdout.decode() == value


@pytest.mark.parametrize("value", ["\n'; touch x; '", "\n\\'; touch x; \\'", "\t$(touch x)"])
def test_a_shell_without_bash_quotes_runs_nothing(tmp_path: Path, value: str) -> None:
    command = ["sh", "-c", 'eval "$1"', "sh", SHELLS["bash"]({"HELIX_REPO": value})]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("value", NASTY)
def test_no_shell_is_given_a_control_character_or_a_line_of_its_own(value: str) -> None:
    for write in (SHELLS["bash"], SHELLS["fish"], SHELLS["dotenv"]):
        text = write({"HELIX_REPO": value})
        assert text.count("\n") == 1
        assert text.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("value", "written"),
    [("it's", r"'it\'s'"), ("a\\b", r"'a\\b'"), ("$(id)", "'$(id)'"), ("a\nb'", r"a\X0ab\X27")],
)
def test_fish_gets_its_own_quotes(value: str, written: str) -> None:
    assert SHELLS["fish"]({"HELIX_REPO": value}) == f"set -gx HELIX_REPO {written}\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a b", "'a b'"),
        ('$x`"', """'$x`"'"""),
        ("it's", '"it\'s"'),
        ('$x`"\\', r'"\$x\`\"\\"'),
        ("a\nb", r'"a\nb"'),
        ("\N{WOMAN}\u200d\N{GIRL}", "'\N{WOMAN}\u200d\N{GIRL}'"),
        ("a\tb", "'a b'"),
    ],
)
def test_dotenv_expands_nothing(value: str, written: str) -> None:
    assert SHELLS["dotenv"]({"HELIX_REPO": value}) == f"HELIX_REPO={written}\n"
