"""`helix report` prints Markdown, JSON or CSV, writes files, and says what is wrong with a question."""

import json
from pathlib import Path

import pytest

from helix_assets.ask.reports.all_reports import REPORTS
from helix_assets.cli.main import run


@pytest.mark.usefixtures("swept")
def test_without_a_name_it_lists_the_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in REPORTS)
    assert run(["report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == REPORTS.keys()


@pytest.mark.usefixtures("swept")
def test_markdown_holds_figures_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "test_report"]) == 0
    out = capsys.readouterr().out
    assert "| runs | 3 |" in out
    assert "## By framework" in out


@pytest.mark.usefixtures("swept")
def test_json_and_csv_hold_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "tool_report", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert run(["report", "tool_report", "--csv", "by_tool"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split(",") == list(tables["by_tool"][0])
    assert len(lines) == len(tables["by_tool"])


def test_files_are_written_into_the_data_folder(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "usage_report", "--since", "2026-06-01", "--until", "2026-06-30", "--files"]) == 0
    folder = Path(capsys.readouterr().out.removeprefix("written to ").strip())
    assert folder.is_relative_to(swept)
    assert "2026-06-01 to 2026-06-30" in (folder / "usage_report.md").read_text()


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["usage"], "there is no report 'usage'; there are usage_report"),
        (["usage_report", "--since", "2026-06-05", "--until", "2026-06-01"], "the first day comes first"),
        (["usage_report", "--since", "yesterday"], "--since 'yesterday' is not a day"),
        (["usage_report", "--until", "2026-02-30"], "write it like 2026-01-31"),
        (["usage_report", "--csv", "by_moon"], "it has by_day, by_agent"),
        (["weekly_retro", "--since", "2026-06-05"], "one week"),
    ],
)
def test_bad_questions_are_answered_in_plain_words(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", *arguments]) == 64
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("swept")
def test_one_form_at_a_time() -> None:
    assert run(["report", "usage_report", "--json", "--files"]) == 2


def test_without_a_memory_it_says_what_to_do(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "usage_report"]) != 0
    assert "helix sweep" in capsys.readouterr().err
