"""`helix sessions` lists what the filters leave, newest first."""

import json
from pathlib import Path
from typing import Any

import pytest

from helix_assets.cli.main import run
from helix_assets.cli.sessions import _names
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import answer, prompt

LATER = "claude:22222222-aaaa-4aaa-8aaa-000000000002"


@pytest.fixture
def two(swept: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A second session, later the same day, in another folder, that ends on a prompt."""
    lines = [
        prompt("x1", "15:00:00", "\x1b[31mhello", cwd="/home/u/bank"),
        answer("x2", "15:00:05", "hi", message="m1"),
    ]
    write_session(swept, LATER, *lines, prompt("x3", "15:01:00", "and then?"))
    assert run(["sweep"]) == 0
    capsys.readouterr()
    return swept


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    assert run(["sessions", "--json", *options]) == 0
    answer: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [LATER, UID]),
        (["--agent", "claude"], [LATER, UID]),
        (["--agent", "codex"], []),
        (["--repo", "bank"], [LATER]),
        (["--day", "2026-06-05"], [LATER, UID]),
        (["--day", "2026-06-06"], []),
        (["--since", "2026-06-05T12:00"], [LATER]),
        (["--until", "2026-06-05T12:00:00"], [UID]),
        (["--until", "2026-06-05"], [LATER, UID]),
        (["--until", "2026-06-04"], []),
        (["--outcome", "abandoned"], [LATER]),
        (["--limit", "1"], [LATER]),
    ],
)
def test_filters(two: Path, capsys: pytest.CaptureFixture[str], options: list[str], expected: list[str]) -> None:
    assert [item["session_uid"] for item in listed(capsys, *options)] == expected


def test_unknown_agent_is_refused_with_the_known_ones(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "--agent", "cdex"]) == 2
    assert "there are claude, codex, grok" in capsys.readouterr().err


def test_dates_the_wrong_way_round_are_refused(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "--since", "2026-06-05", "--until", "2026-06-04"]) == 64
    assert "the time ends (2026-06-04) before it begins (2026-06-05)" in capsys.readouterr().err


def test_row_shows_the_figures(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (item,) = listed(capsys, "--repo", "shop")
    assert (item["repo"], item["events"], item["tokens"]["output"]) == ("shop", 17, 48)


def test_what_the_limit_hides_is_counted(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "--limit", "1"]) == 0
    assert "1 more; --limit shows them." in capsys.readouterr().out


def test_terminal_is_not_driven_by_a_title(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_no_session_says_what_to_do(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions"]) == 0
    assert "helix sweep" in capsys.readouterr().out
    assert not (home / "data").exists()


def test_malformed_day_is_refused(home: Path) -> None:
    assert run(["sessions", "--day", "yesterday"]) == 2


def test_a_terminal_shows_heads_of_ids_that_other_commands_take(
    two: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    assert run(["sessions"]) == 0
    out = capsys.readouterr().out
    assert "claude:22222222 " in out
    assert LATER not in out
    assert run(["show", "claude:22222222"]) == 0


def test_heads_that_two_sessions_share_are_given_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert _names(["codex:01a1-1", "codex:01a1-2", "codex:01a2-3"]) == ["codex:01a1-1", "codex:01a1-2", "codex:01a2"]
