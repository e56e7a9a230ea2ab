"""Signs of trouble: tables of cases with the signals that a reader would see in them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from helix_assets.derive.signals import MAX_EVIDENCE, MAX_SIGNALS, VERSIONS, SignalBuilder
from helix_assets.model.digest import Signal
from helix_assets.model.event import EventKind, Row
from helix_assets.model.fingerprint import fingerprint
from helix_assets_tests.agents.reading import WORDS

DOCS = Path(__file__).parents[2] / "docs" / "signals.md"
_numbers = itertools.count(1)


def row(kind: EventKind | None, summary: str = "", **more: Any) -> Row:
    """A light row; each is a record of its own."""
    number = next(_numbers)
    values: dict[str, Any] = dict.fromkeys(Row._fields)
    values |= {"seq": number, "record_key": number, "kind": kind.value if kind else None, "summary": summary}
    return Row(**{**values, "is_sidechain": False, "native_type": "test", **more})


def run(command: str, status: str = "ok", says: str = "", *, test: bool = False, **more: Any) -> Iterator[Row]:
    """A shell command with its result; one that tests has a test run behind it."""
    call_id, key = f"c{next(_numbers)}", hash(command)
    detail = {"program": command.split(maxsplit=1)[0]} | ({"test": "pytest"} if test else {})
    shared = {"tool": "Bash", "call_id": call_id, "input_hash": key, **more}
    yield row(EventKind.TOOL_CALL, f"Bash {command}", detail=orjson.dumps(detail).decode(), **shared)
    yield row(EventKind.TOOL_RESULT, says, status=status, **shared)
    if test and status in ("ok", "error"):
        yield row(EventKind.TEST_RUN, "pytest: 1 failed", status=status, tool="Bash", call_id=call_id, **more)


def pytest_run(status: str, command: str = "pytest -q") -> Iterator[Row]:
    return run(command, status, "1 failed" if status == "error" else "3 passed", test=True)


def edit(path: str = "/w/a.py", status: str = "ok") -> Iterator[Row]:
    call_id = f"c{next(_numbers)}"
    shared = {"tool": "Edit", "call_id": call_id, "input_hash": next(_numbers), "file_path": path}
    yield row(EventKind.TOOL_CALL, f"Edit {path}", **shared)
    yield row(
        EventKind.TOOL_RESULT, "String to replace not found" if status == "error" else "", status=status, **shared
    )


def prompt() -> Iterator[Row]:
    yield row(EventKind.USER_MSG, "go on")


def compaction() -> Iterator[Row]:
    yield row(EventKind.LIFECYCLE, "compaction", status="compaction")


def request(held: int, model: str = "claude-opus-4-5") -> Iterator[Row]:
    yield row(None, model=model, tokens=held + 1, input_tokens=1, cache_read_tokens=held - 1, output_tokens=1)


def signals(*parts: Iterable[Row]) -> list[Signal]:
    builder = SignalBuilder(WORDS)
    for part in parts:
        for each in part:
            builder.add(each)
    return builder.finish()


def counts(*parts: Iterable[Row], but: str = "error") -> dict[str, int]:
    """How often each rule saw something; errors are in nearly every case and left out."""
    return {signal.name: signal.count for signal in signals(*parts) if signal.name != but}


RED, GREEN = "error", "ok"
CASES: dict[str, tuple[list[Iterable[Row]], dict[str, int]]] = {
    "a quiet session": ([prompt(), edit(), pytest_run(GREEN)], {}),
    "one retry is no loop": ([run("npm ci", RED), run("npm ci", RED)], {}),
    "two retries are a loop": ([run("npm ci", RED), run("npm ci", RED), run("npm ci", RED)], {"retry_loop": 2}),
    "the retry that works ends the loop": (
        [run("npm ci", RED), run("npm ci", RED), run("npm ci", GREEN), run("npm ci", RED), run("npm ci", RED)],
        {"retry_loop": 2},
    ),
    "another look between retries changes nothing": (
        [run("make", RED), run("cat log"), run("make", RED), run("ls"), run("make", RED)],
        {"retry_loop": 2},
    ),
    "after an edit the same call is no repetition": (
        [run("make", RED), edit("/w/a"), run("make", RED), edit("/w/b"), run("make", RED)],
        {},
    ),
    "another input is no repetition": ([run("make a", RED), run("make b", RED), run("make c", RED)], {}),
    "a prompt between retries begins anew": (
        [run("make", RED), run("make", RED), prompt(), run("make", RED)],
        {},
    ),
    "retries of a subagent are its own": (
        [
            run("make", RED),
            run("make", RED, is_sidechain=True, agent_id="s"),
            run("make", RED, is_sidechain=True, agent_id="t"),
        ],
        {},
    ),
    "four rounds on one file are churn": (
        [part for _ in range(4) for part in (edit(), run("cat a.py"))],
        {"churn": 4},
    ),
    "edits in a row are one round": ([edit() for _ in range(9)], {}),
    "rounds on several files are none": ([edit(f"/w/{n % 4}.py") for n in range(12)], {}),
    "notes between edits break no round": (
        [part for _ in range(6) for part in (edit(), [row(EventKind.TOOL_CALL, tool="TodoWrite")])],
        {},
    ),
    "rounds of several turns are no churn": (
        [part for _ in range(6) for part in (prompt(), edit(), run("cat a.py"))],
        {},
    ),
    "edit, red, edit, red is a loop": ([edit(), pytest_run(RED), edit(), pytest_run(RED)], {"edit_test_loop": 2}),
    "and grows": (
        [part for n in range(3) for part in (edit(f"/w/{n}"), pytest_run(RED))],
        {"edit_test_loop": 3},
    ),
    "red, edit, green is how it should be": ([pytest_run(RED), edit(), pytest_run(GREEN)], {}),
    "green between the red ones breaks the loop": (
        [edit(), pytest_run(RED), edit(), pytest_run(GREEN), edit(), pytest_run(RED)],
        {},
    ),
    "red twice over the same files, one edit": ([edit(), pytest_run(RED), pytest_run(RED)], {}),
    "the same tests red and green over the same files are flaky": (
        [pytest_run(RED), run("cat a.py"), pytest_run(GREEN)],
        {"flaky_test": 1},
    ),
    "green and then red as well": ([pytest_run(GREEN), pytest_run(RED)], {"flaky_test": 1}),
    "other tests are other tests": ([pytest_run(RED, "pytest a"), pytest_run(GREEN, "pytest b")], {}),
    "tests after an edit may change": ([pytest_run(RED), edit(), pytest_run(GREEN)], {}),
    "tests after any other command may change": ([pytest_run(RED), run("git checkout ."), pytest_run(GREEN)], {}),
    "tests of another turn may change": ([pytest_run(RED), prompt(), pytest_run(GREEN)], {}),
    "a refusal": ([run("rm -rf x", "denied")], {"permission_denied": 1}),
    "refusals of one tool are one signal": (
        [run("rm -rf x", "denied"), run("rm -rf y", "denied")],
        {"permission_denied": 2},
    ),
    "a permission that was never given": (
        [run("touch x", RED, "Claude requested permissions to write to /w/x, but you haven't granted it yet.")],
        {"permission_denied": 1},
    ),
    "a missing module": (
        [run("python a.py", RED, "ModuleNotFoundError: No module named 'torch'")],
        {"missing_dependency": 1},
    ),
    "a missing program, twice": (
        [run("jq .", RED, "bash: jq: command not found"), run("jq . a", RED, "bash: jq: command not found")],
        {"missing_dependency": 2},
    ),
    "any other failure is none": ([run("false", RED, "Exit code 1")], {}),
    "compaction with the task going on": (
        [prompt(), run("ls"), compaction(), run("ls -l")],
        {"compaction_mid_task": 1},
    ),
    "compaction between two tasks": ([prompt(), run("ls"), compaction(), prompt(), run("ls")], {}),
    "compaction before anything was done": ([prompt(), compaction(), run("ls")], {}),
    "a full window": ([request(171_000), request(180_000)], {"context_pressure": 2}),
    "a window with room": ([request(169_000)], {}),
    "a larger window than usual": ([request(180_000), request(600_000)], {}),
    "the larger window nearly full": ([request(900_000)], {"context_pressure": 1}),
    "a model whose window is not known": ([request(900_000, "mystery-1")], {}),
}


@pytest.mark.parametrize(("parts", "expected"), CASES.values(), ids=CASES.keys())
def test_case(parts: list[Iterable[Row]], expected: dict[str, int]) -> None:
    assert counts(*[list(part) for part in parts]) == expected


def test_errors_that_differ_by_numbers_and_paths_only_are_one() -> None:
    found = signals(run("a", RED, "cannot open /w/1/x.txt: line 3"), run("b", RED, "cannot open /tmp/y.txt: line 99"))
    assert [(signal.name, signal.count, signal.sample) for signal in found] == [
        ("error", 2, "missing_file: cannot open #: line #")
    ]


def test_a_fingerprint_keeps_the_words() -> None:
    assert fingerprint("KeyError: 'id' at 0xdeadbeef\n  in  line 7") == "keyerror: # at # in line #"


def test_evidence_names_the_records() -> None:
    rows = list(run("rm -rf x", "denied"))
    [signal] = signals(rows)
    assert signal.evidence == (f"{rows[1].record_key:016x}",)


def test_a_negative_record_key_is_shown_as_64_bits() -> None:
    [signal] = signals([row(EventKind.TOOL_RESULT, tool="Bash", status="denied", record_key=-1)])
    assert signal.evidence == ("f" * 16,)


def test_a_refusal_that_a_better_log_tells_of_counts() -> None:
    rows = list(edit(status="error"))
    better = row(EventKind.LIFECYCLE, "tool permission_rejected", status="denied", call_id=rows[0].call_id)
    assert counts(rows, [better]) == {"permission_denied": 1}


def test_missing_dependency_is_named() -> None:
    found = signals(run("node a", RED, "Error: Cannot find module 'vite'"))
    assert [signal.sample for signal in found if signal.name == "missing_dependency"] == ["vite"]


def test_churn_names_its_file() -> None:
    [signal] = signals(*[part for _ in range(5) for part in (edit("/w/b.py"), run("cat b.py"))])
    assert (signal.file_path, signal.count, len(signal.evidence)) == ("/w/b.py", 5, 5)


def test_signals_are_bounded() -> None:
    kinds = (run(f"do {'x' * n}", RED, f"{'word ' * n} failed") for n in range(1, 60))
    refusals = (run("x", "denied", tool=f"tool{n}") for n in range(60))
    found = signals(*kinds, *refusals)
    assert len(found) == MAX_SIGNALS
    assert all(len(signal.evidence) <= MAX_EVIDENCE for signal in found)


def test_finishing_twice_says_the_same_and_going_on_adds() -> None:
    builder = SignalBuilder(WORDS)
    for each in [*run("npm ci", RED), *run("npm ci", RED), *run("npm ci", RED)]:
        builder.add(each)
    first = builder.finish()
    assert builder.finish() == first
    for each in run("npm ci", RED):
        builder.add(each)
    assert [signal.count for signal in builder.finish() if signal.name == "retry_loop"] == [3]


def test_facts_tell_the_same_signals() -> None:
    builder = SignalBuilder(WORDS)
    for each in run("rm -rf x", "denied", ts_us=5):
        builder.add(each)
    [(key, ts_us, rule, version, times, tool, path)] = builder.facts()
    assert (key > 0, ts_us, rule, version, times, tool, path) == (True, 5, "permission_denied", 1, 1, "Bash", None)


def test_documents_name_every_rule() -> None:
    text = DOCS.read_text("utf-8")
    assert [name for name in VERSIONS if f"| `{name}` | {VERSIONS[name]} |" not in text] == []
