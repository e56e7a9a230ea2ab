"""`helix forget` asks, erases, and says what went."""

import json
import sys
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets_tests.cli.conftest import UID


class Terminal:
    """Standard input as a terminal at which somebody types one line."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._line


def is_known(capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    assert run(["sessions", "--json"]) == 0
    return bool(json.loads(capsys.readouterr().out))


def test_forget_says_what_went(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["forget", UID, "--yes", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["session_uids"], done["digests"], done["is_finished"]) == ([UID], 1, True)
    assert not is_known(capsys)


def test_sweep_does_not_bring_it_back(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["forget", "11111111", "--yes"]) == run(["sweep"]) == 0
    assert not is_known(capsys)


def test_whole_repository_is_forgotten(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["forget", "--repo", "shop", "--yes"]) == 0
    assert not is_known(capsys)


def test_unknown_repository_is_named(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["forget", "--repo", "elsewhere", "--yes"]) == 1
    assert "elsewhere" in capsys.readouterr().err


def test_nothing_goes_unasked_where_nobody_can_answer(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["forget", UID]) == 2
    assert "--yes" in capsys.readouterr().err
    assert is_known(capsys)


@pytest.mark.parametrize(("line", "code"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_answer_at_the_terminal_decides(
    swept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, code: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(line))
    assert run(["forget", UID]) == code
    assert is_known(capsys) == bool(code)


@pytest.mark.parametrize("arguments", [[], [UID, "--repo", "shop"]])
def test_one_of_session_and_repository_is_wanted(swept: Path, arguments: list[str]) -> None:
    assert run(["forget", *arguments, "--yes"]) == 2
