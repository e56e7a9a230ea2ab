"""`helix show` prints a session's events in order, and the line behind any of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from helix_assets.cli.main import run
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import conversation, prompt

OTHER = UID[:-1] + "2"


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    assert run(["show", UID, "--json", *options]) == 0
    events: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["events"]
    return events


def test_events_come_in_order(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = shown(capsys)
    assert [event["kind"] for event in events[:6]] == [
        "user_msg", "tool_call", "tool_result", "test_run", "assistant_msg", "user_msg",
    ]  # fmt: skip
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)


@pytest.mark.parametrize(
    ("wanted", "numbers"), [("2..4", [2, 3, 4]), ("3", [3]), ("..1", [0, 1]), ("15..", [15, 16]), ("99..", [])]
)
def test_range_of_events(swept: Path, capsys: pytest.CaptureFixture[str], wanted: str, numbers: list[int]) -> None:
    assert [event["seq"] for event in shown(capsys, "--events", wanted)] == numbers


@pytest.mark.parametrize("wanted", ["x", "..", "1-2", ""])
def test_malformed_range_is_refused(swept: Path, capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    assert run(["show", UID, "--events", wanted]) == 2
    assert "write 10..20" in capsys.readouterr().err


def test_events_of_a_kind(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = shown(capsys, "--kind", "user_msg", "--kind", "error")
    assert [event["kind"] for event in events] == ["user_msg", "user_msg", "error", "user_msg"]


def test_payload_is_the_source_line(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = conversation(1)[0].decode()
    assert run(["show", UID, "--payload", "0"]) == 0
    assert capsys.readouterr().out == line
    assert run(["show", UID, "--payload", json.loads(line)["uuid"]]) == 0
    assert capsys.readouterr().out == line


def test_payload_of_a_derived_event_is_that_of_its_record(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", UID, "--payload", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seq"] == 2


def test_payload_ref_leads_to_the_line_and_is_the_same_in_sql(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refs = [event["payload_ref"] for event in shown(capsys)]
    assert run(["sql", "select payload_ref from events order by seq", "--json"]) == 0
    assert [row["payload_ref"] for row in json.loads(capsys.readouterr().out)] == refs
    assert run(["show", UID, "--payload", refs[0]]) == 0
    assert capsys.readouterr().out == conversation(1)[0].decode()


@pytest.mark.parametrize("wanted", ["999", "9" * 30, "blob://x/1"])
def test_unknown_payload_is_reported(swept: Path, capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    assert run(["show", UID, "--payload", wanted]) == 1
    assert f"record '{wanted}' is not in this session" in capsys.readouterr().err


@pytest.mark.parametrize("name", [UID[:20], UID.removeprefix("claude:")[:8]])
def test_first_characters_of_a_uid_will_do(swept: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(["show", name]) == 0
    assert UID in capsys.readouterr().out


def test_ambiguous_name_lists_the_sessions(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(swept, OTHER, prompt("y1", "12:00:00", "hello"))
    assert run(["sweep"]) == 0
    capsys.readouterr()
    assert run(["show", "claude:1111"]) == 2
    said = capsys.readouterr()
    assert said.err.splitlines()[1:] == [f"  {UID}", f"  {OTHER}"]
    assert said.out == ""


@pytest.mark.parametrize("name", ["nothing", "%", "claude:_", "", "'; drop table sessions; --"])
def test_unknown_name_is_reported(swept: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(["show", name]) == 1
    assert "`helix sessions` lists them" in capsys.readouterr().err


def test_missing_store_is_reported_and_not_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", UID]) == 1
    assert "run `helix sweep` first" in capsys.readouterr().err
    assert not (home / "data").exists()


def test_long_session_is_cut_on_paper_and_whole_in_json(
    swept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("helix_assets.cli.show._SHOWN_AT_ONCE", 5)
    assert run(["show", UID]) == 0
    assert "12 more events: --events 5.. shows them." in capsys.readouterr().out
    assert len(shown(capsys)) == 17


def test_evicted_session_shows_its_digest(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store(load_settings())
    with store.catalog.writing() as connection:
        connection.execute("DELETE FROM raw_files")
        connection.execute("UPDATE sessions SET evicted_at = '2026-07-01T00:00:00.000Z', raw_bytes = 0")
    store.close()
    assert run(["show", UID]) == 0
    said = capsys.readouterr().out
    assert "were evicted at 2026-07-01" in said
    assert "please do step 0" in said


def test_damaged_file_is_no_silently_shorter_answer(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (swept / "data" / "raw").glob("flavor=*/day=*/*.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    assert run(["show", UID]) == 65
    said = capsys.readouterr()
    assert f"a file of {UID} is damaged" in said.err
    assert said.out == ""
