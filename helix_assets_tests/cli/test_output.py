"""How commands speak to people, pipes and terminals."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from helix_assets.cli.output import Column, Table, emit, human_count, human_size, print_table, progress, terminal_safe

TABLE = Table([Column("agent"), Column("size", "right")], [["claude", "1"], ["grok", "1000"]], title="Sessions")


@dataclass(frozen=True)
class Row:
    path: Path
    at: datetime


def test_piped_table_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(TABLE)
    assert capsys.readouterr().out == "Sessions\nagent   size\nclaude     1\ngrok    1000\n"


def test_piped_tables_have_room_between_them(capsys: pytest.CaptureFixture[str]) -> None:
    emit({}, False, [Table([Column("a")], [["1"]]), Table([Column("b")], [["2"]])])
    assert capsys.readouterr().out == "a\n1\n\nb\n2\n"


def test_empty_table_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table([Column("agent"), Column("size")]))
    assert capsys.readouterr().out == "agent  size\n"


def test_table_on_a_terminal_takes_brackets_as_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(Table([Column("name")], [["[red]x[/red]"]]))
    assert "[red]x[/red]" in capsys.readouterr().out


def test_table_on_a_terminal_cuts_no_long_path(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    print_table(Table([Column("file")], [["/a-folder" * 12 + "/log.jsonl:13"]]))
    assert "".join(capsys.readouterr().out.split()).endswith("/log.jsonl:13")


def test_table_cell_cannot_break_the_line_or_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table([Column("name")], [["a\nb\x1b]0;evil\x07\u202ec"]]))
    assert capsys.readouterr().out == "name\na b]0;evilc\n"


def test_json_wins_over_tables(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"n": Row(Path("/a"), datetime(2026, 1, 2, tzinfo=UTC)), "s": {"b", "a"}}, True, TABLE)
    assert json.loads(capsys.readouterr().out) == {
        "n": {"path": "/a", "at": "2026-01-02T00:00:00+00:00"},
        "s": ["a", "b"],
    }


def test_json_is_valid_utf8_whatever_the_log_held(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    emit({"text": "caf\u00e9 \ud800"}, True)
    assert json.loads(capfdbinary.readouterr().out.decode("utf-8")) == {"text": "caf\u00e9 ?"}


@pytest.mark.parametrize("char", ["\x00", "\x07", "\x08", "\r", "\x1b", "\x7f", "\x80", "\x9b", "\u202e", "\u2066"])
def test_control_character_is_dropped(char: str) -> None:
    assert terminal_safe(f"a{char}b") == "ab"


def test_ordinary_text_is_kept() -> None:
    text = "tab\there\nna\u00efve \u65e5\u672c \U0001f680"
    assert terminal_safe(text) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4 * 1024**3, "4.0 GiB"), (5 * 1024**5, "5120.0 TiB")],
)
def test_size_is_readable(size_bytes: int, text: str) -> None:
    assert human_size(size_bytes) == text


def test_count_is_readable() -> None:
    assert human_count(1234567) == "1,234,567"


def test_progress_is_silent_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("sweeping", total=2) as advance:
        advance(1)
        advance(2, total=3)
    assert capsys.readouterr() == ("", "")


def test_progress_is_drawn_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress("sweeping", total=2) as advance:
        advance(2)
    assert "sweeping" in capsys.readouterr().err
