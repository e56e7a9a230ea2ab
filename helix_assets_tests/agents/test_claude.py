"""Claude transcripts: the table of fixtures/claude/README.md, swept for real."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from helix_assets.agents.claude.adapter import ClaudeAdapter
from helix_assets.model.event import EventKind
from helix_assets_tests.agents.reading import FIXTURES, feed_all
from helix_assets_tests.home import Memory, line

CASES = sorted(path.name for path in (FIXTURES / "claude").iterdir() if path.is_dir())


class Swept:
    """A fixture home after a sweep."""

    def __init__(self, case: str, folder: Path) -> None:
        shutil.copytree(FIXTURES / "claude" / case, folder / "home" / "claude")
        memory = Memory(folder)
        self.report = memory.sweep()
        self._rows = [orjson.loads(line) for line in memory.exported().splitlines()]
        with memory.store.catalog.reading() as connection:
            self.facts = connection.column("SELECT facts FROM sessions")
        memory.close()
        self.digests: list[dict[str, Any]] = [row["digest"] for row in self._rows if "digest" in row]

    def rows(self, **wanted: Any) -> list[dict[str, Any]]:
        return [row for row in self._rows if all(row.get(name) == value for name, value in wanted.items())]

    def summaries(self, **wanted: Any) -> list[str]:
        return [row.get("summary", "") for row in self.rows(**wanted)]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Swept]:
    return {case: Swept(case, tmp_path_factory.mktemp(case)) for case in CASES}


def four(tokens: dict[str, int]) -> tuple[int, int, int, int]:
    return tokens["input"], tokens["output"], tokens["cache_read"], tokens["cache_write"]


@pytest.mark.parametrize(
    ("case", "number", "main", "subagent"),
    [
        ("agents-inline", 0, (17, 50, 250, 40), (11, 110, 200, 0)),
        ("agents-beside", 0, (21, 29, 0, 0), (12, 56, 0, 0)),
        ("agents-folder", 0, (35, 47, 0, 0), (18, 148, 0, 0)),
        ("progress-chain", 0, (33, 63, 0, 0), (2, 30, 0, 0)),
        ("compaction", 0, (35, 65, 6700, 0), (0, 0, 0, 0)),
        ("resumed", 0, (33, 63, 0, 0), (0, 0, 0, 0)),
        ("resumed", 1, (13, 23, 0, 0), (0, 0, 0, 0)),
        ("queued", 0, (33, 63, 0, 0), (0, 0, 0, 0)),
        ("trouble", 0, (75, 145, 0, 0), (0, 0, 0, 0)),
        ("injected", 0, (21, 41, 0, 300), (0, 0, 0, 0)),
        ("unknown", 0, (10, 20, 0, 0), (0, 0, 0, 0)),
    ],
)
def test_tokens_are_those_of_the_table(
    swept: dict[str, Swept], case: str, number: int, main: tuple[int, ...], subagent: tuple[int, ...]
):
    digest = swept[case].digests[number]
    assert (four(digest["tokens_main"]), four(digest["tokens_subagent"])) == (main, subagent)
    assert four(digest["tokens"]) == tuple(a + b for a, b in zip(main, subagent, strict=True))


@pytest.mark.parametrize(
    ("case", "number", "tools", "expected"),  # prompts, interrupts, errors, denied, cancelled, records, unparsed
    [
        ("agents-inline", 0, {"Task": 1, "Grep": 1}, (1, 0, 0, 0, 0, 10, 0)),
        ("agents-beside", 0, {"Task": 1, "Read": 1}, (1, 0, 0, 0, 0, 9, 0)),
        ("agents-folder", 0, {"Task": 1, "Workflow": 1, "Read": 1, "Bash": 1}, (1, 0, 0, 0, 0, 20, 0)),
        ("progress-chain", 0, {"Bash": 2, "Task": 1}, (1, 0, 1, 0, 0, 12, 0)),
        ("compaction", 0, {}, (2, 0, 0, 0, 0, 8, 0)),
        ("resumed", 0, {"Write": 1}, (2, 0, 0, 0, 0, 6, 0)),
        ("resumed", 1, {}, (1, 0, 0, 0, 0, 4, 0)),
        ("queued", 0, {"Bash": 1}, (3, 0, 0, 0, 0, 15, 0)),
        ("trouble", 0, {"Bash": 5, "Edit": 1, "Read": 1, "BashOutput": 1}, (4, 2, 3, 1, 2, 31, 0)),
        ("injected", 0, {}, (2, 0, 0, 0, 0, 14, 0)),
        ("unknown", 0, {}, (1, 0, 0, 0, 0, 17, 2)),
    ],
)
def test_counts_are_those_of_the_table(
    swept: dict[str, Swept], case: str, number: int, tools: dict[str, int], expected: tuple[int, ...]
):
    digest = swept[case].digests[number]
    names = ("user_prompts", "interrupts", "tool_errors", "tool_denied", "tool_cancelled", "record_count")
    assert digest["tool_histogram"] == tools
    assert (*(digest[name] for name in names), digest["unparsed_lines"]) == expected


def test_every_case_is_in_the_table():
    table = (FIXTURES / "claude" / "README.md").read_text()
    assert [case for case in CASES if f"| {case} |" not in table] == []


@pytest.mark.parametrize(
    ("case", "texts"),
    [
        ("agents-inline", ["List the callers", "Two callers:", "a.py and b.py."]),
        ("agents-folder", ["Review it", "Looks good.", "Run the tests", "All pass."]),
        ("progress-chain", ["Check it"]),
    ],
)
def test_subagents_words_are_told_once_and_apart(swept: dict[str, Swept], case: str, texts: list[str]):
    rows = [row for row in swept[case].rows(is_sidechain=True) if row.get("kind") in ("user_msg", "assistant_msg")]
    said = [row["summary"] for row in sorted(rows, key=lambda row: (row["ts"], row["seq"]))]
    assert sorted(set(said)) == sorted(texts)
    assert len([text for text in said if text in texts[1:]]) == len(texts) - 1


def test_agents_bear_their_ids(swept: dict[str, Swept]):
    ids = {row.get("agent_id") for row in swept["agents-folder"].rows(kind="tool_call", is_sidechain=True)}
    assert ids == {"a11ce000", "b0b00000"}


def test_progress_lines_keep_the_chain_whole(swept: dict[str, Swept]):
    rows = {row["seq"]: row for row in swept["progress-chain"].rows() if "seq" in row}
    at = next(row for row in rows.values() if row.get("summary", "").startswith("Built"))
    chain = [at["record_id"]]
    while "parent_seq" in at:
        at = rows[at["parent_seq"]]
        chain.append(at["record_id"])
    assert len(dict.fromkeys(chain)) == 12


def test_what_follows_a_compaction_hangs_on_what_was_before(swept: dict[str, Swept]):
    (boundary,) = swept["compaction"].rows(status="compaction")
    (before,) = swept["compaction"].rows(summary="Half is done.")
    assert (boundary["parent_seq"], swept["compaction"].digests[0]["compactions"]) == (before["seq"], 1)


def test_edit_of_copied_history_is_made_once(swept: dict[str, Swept]):
    old, new = swept["resumed"].digests
    assert old["edits"] == {"count": 1, "lines_added": 2, "lines_removed": 0}
    assert (new["edits"]["count"], new["started_at"]) == (0, "2026-02-01T11:00:00.000Z")


def test_prompts_that_came_through_the_queue_are_told_once(swept: dict[str, Swept]):
    assert swept["queued"].summaries(kind="user_msg") == [
        "Refactor the store",
        "and keep the API",
        "what about tests?",
    ]
    assert swept["queued"].summaries(kind="human_intervention") == ["and keep the API"]


def test_trouble_is_told_as_what_it_was(swept: dict[str, Swept]):
    told = swept["trouble"]
    assert [row["status"] for row in told.rows(kind="retry")] == ["api", "api", "tool"]
    assert [row.get("detail", {}).get("error") for row in told.rows(kind="error")] == [
        None, None, "hook", "hook", "hook", "api",
    ]  # fmt: skip
    assert [row["status"] for row in told.rows(kind="human_intervention")] == ["denied", "interrupt", "interrupt"]


def test_exit_codes_are_told_where_the_log_knows_them(swept: dict[str, Swept]):
    codes = {row["call_id"]: row.get("exit_code") for row in swept["trouble"].rows(kind="tool_result")}
    assert [codes[f"toolu_8{name}"] for name in ("make", "lint", "again", "grep", "bg")] == [2, None, 0, 0, 1]


def test_spilled_output_is_known_by_its_size_alone(tmp_path: Path):
    secret = tmp_path / "elsewhere.txt"
    secret.write_text("not Claude's")
    preview = "<persisted-output>\nOutput too large (1.2MB). Full output saved to: ...\n</persisted-output>"
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": preview, "is_error": False}
    outcome = {"stdout": "head", "stderr": "", "persistedOutputPath": str(secret), "persistedOutputSize": 1234567}
    memory = Memory(tmp_path)
    memory.write("s1", line("user", "r1", "10:00:00", message={"content": [block]}, toolUseResult=outcome))
    memory.sweep()
    (row,) = [row for row in map(orjson.loads, memory.exported().splitlines()) if row.get("kind") == "tool_result"]
    memory.close()
    assert row["detail"]["spilled_bytes"] == 1234567
    assert "not Claude's" not in str(row)


def test_blanked_tool_name_is_unknown():
    (event,) = feed_all(ClaudeAdapter(), [tool_use("[trimmed for fixture]")]).of(EventKind.TOOL_CALL)
    assert event.tool is None


def tool_use(name: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t1", "name": name, "input": {}}]}}


def test_synthetic_is_a_message_but_no_model(swept: dict[str, Swept]):
    digest = swept["trouble"].digests[0]
    assert digest["models"] == ["claude-opus-4-5-20251101"]
    assert "No response requested." in swept["trouble"].summaries(kind="assistant_msg")


def test_injected_texts_are_kept_but_are_no_prompts(swept: dict[str, Swept]):
    assert len(swept["injected"].rows(status="injected")) == 10
    assert swept["injected"].summaries(kind="user_msg") == ["What is in this picture?", ""]


def test_unknown_is_kept_counted_and_stops_nothing(swept: dict[str, Swept]):
    (facts,) = swept["unknown"].facts
    assert facts["unknown_types"] == {
        "hologram": 2, "telepathy": 1, "(no type)": 1, "attachment/crystal_ball": 1, "system/seance": 1,
        "block/mind_block": 1,
    }  # fmt: skip
    assert len([row for row in swept["unknown"].rows(native_type="hologram") if "raw" in row]) == 2
    assert [reason.partition(":")[0] for _, reason in swept["unknown"].report.problems] == ["line 11", "line 12"]


def test_title_given_by_the_person_wins_and_a_foreign_summary_is_the_last_resort(swept: dict[str, Swept]):
    assert swept["unknown"].digests[0]["title"] == "Mine"
    assert swept["agents-beside"].digests[0]["title"] == "Another session's title"
