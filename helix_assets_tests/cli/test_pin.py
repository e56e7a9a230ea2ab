"""`helix pin` keeps raw bytes within the hard cap, until `helix unpin`."""

import json
from pathlib import Path
from typing import Any

import pytest

from helix_assets.ask.reading import open_existing
from helix_assets.cli.main import run
from helix_assets.settings import load_settings
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import conversation


@pytest.fixture
def tight(swept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A soft cap of one byte, under which every covered session goes."""
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "1")
    capsys.readouterr()
    return swept


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_pinned_session_survives_the_soft_cap(tight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pin", UID]) == 0
    assert listed(capsys, "evict", "--apply")["gone"] == []


def test_pin_answers_in_json(tight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "pin", UID) == {"session_uid": UID, "is_pinned": True, "evicted_at": None}
    assert listed(capsys, "unpin", UID)["is_pinned"] is False


def test_unpinned_session_goes_like_any_other(tight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pin", UID]) == run(["unpin", UID]) == 0
    assert [gone["session_uid"] for gone in listed(capsys, "evict", "--apply")["gone"]] == [UID]


def test_pin_yields_to_the_hard_cap(
    tight: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIX_RAW_HARD_CAP_BYTES", "2")
    assert run(["pin", UID]) == 0
    assert [gone["reason"] for gone in listed(capsys, "evict", "--apply")["gone"]] == ["over_hard_cap"]


def test_pin_outlives_growth(tight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pin", UID]) == 0
    write_session(tight, UID, *conversation(5))
    assert run(["sweep"]) == 0
    assert listed(capsys, "show", UID)["is_pinned"]


def test_sessions_says_what_is_pinned(tight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pin", "11111111"]) == run(["sessions"]) == 0
    assert ", pinned" in capsys.readouterr().out
    assert listed(capsys, "sessions")[0]["is_pinned"]


def test_pin_of_an_evicted_session_says_that_its_bytes_are_gone(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_existing(load_settings())
    with store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET evicted_at = '2026-07-01T00:00:00.000Z'")
    store.close()
    assert run(["pin", UID]) == 0
    assert "were evicted at 2026-07-01" in capsys.readouterr().out


def test_pin_of_an_unknown_session_fails(swept: Path) -> None:
    assert run(["pin", "nothing"]) == 1


def test_pinning_what_is_not_there_leaves_no_sign_of_a_killed_writer(swept: Path) -> None:
    assert run(["pin", "nosuch"]) == 1
    assert (swept / "data" / "lock").read_bytes() == b""
