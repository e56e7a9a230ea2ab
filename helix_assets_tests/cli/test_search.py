"""`helix search` prints sessions with their passages, and mends the index where it has to."""

import json
from pathlib import Path
from shutil import rmtree

import pytest

from helix_assets.cli.main import run
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import prompt

pytestmark = pytest.mark.usefixtures("swept")


def test_session_is_shown_with_its_passages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", '"please do" step*']) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{UID}  2026-06-05 10:00  shop")
    assert "user_msg: please do step" in second


def test_json_has_hits_and_what_is_lacking(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "pytest", "--kind", "tool_call", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [hit["session_uid"] for hit in found["hits"]] == [UID]
    assert {"is_complete", "unindexed", "left_out"} < found.keys()


def test_nothing_found_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "zebra"]) == 0
    assert "Nothing found" in capsys.readouterr().err


def test_malformed_query_is_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", '"open']) == 64
    assert "quote is not closed" in capsys.readouterr().err


def test_dates_the_wrong_way_round_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "step", "--since", "2026-06-05", "--until", "2026-06-01"]) == 64
    assert "before it begins" in capsys.readouterr().err


def test_an_agent_that_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "step", "--agent", "cluade"]) == 2
    assert "there are claude, codex, grok" in capsys.readouterr().err


def test_the_last_day_is_searched_with_all_of_its_hours(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "step", "--until", "2026-06-05"]) == 0
    assert UID in capsys.readouterr().out


def test_missing_index_is_rebuilt_and_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rmtree(home / "data" / "search")
    assert run(["search", "step"]) == 0
    told = capsys.readouterr()
    assert "they were read from the raw cache" in told.err
    assert UID in told.out


def test_damaged_index_is_rebuilt_and_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (home / "data" / "search").glob("*.words")
    data = path.read_bytes()
    path.write_bytes(data[:-50] + bytes(50))
    assert run(["search", "step"]) == 0
    told = capsys.readouterr()
    assert "they were read from the raw cache" in told.err
    assert UID in told.out


def test_switched_off_search_says_how_to_have_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIX_SEARCH_INDEX", "off")
    assert run(["search", "step"]) == 2
    assert 'index = "on"' in capsys.readouterr().err


def test_hostile_text_drives_no_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(home, UID.replace("1", "2"), prompt("h", "12:00:00", "evil \x1b]0;title\x07 word\u202e"))
    assert run(["sweep"]) == 0
    capsys.readouterr()
    assert run(["search", "evil"]) == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(capsys.readouterr().out)
