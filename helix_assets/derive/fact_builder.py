"""Facts: what a session did, a row per call, file, test run, API message and message. They outlive the raw bytes.

Belongs here: how a session's rows become facts. The only transcript text in them is redacted file paths and program
names. Not here: the tables (`model.facts`), their files (`store.fact_files`), what messages cost (`derive.prices`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from helix_assets.derive.failures import error_class
from helix_assets.derive.vocabulary import Vocabulary
from helix_assets.model.event import EventKind, Row, light
from helix_assets.model.facts import FileOperation, Message, SessionFactRows, TestRunFact, TokenUsage, ToolCall

MAX_NAME = 200
MAX_PATH = 1024


# Programs whose name alone says what they do to files. `cat` and `sed` may read or write, so they say nothing.
_BY_PROGRAM = {"rg": "grep", "grep": "grep", "egrep": "grep", "ag": "grep", "find": "glob", "fd": "glob", "ls": "glob",
               "tree": "glob", "rm": "delete", "unlink": "delete"}  # fmt: skip
_LANGUAGES = {
    "python": "py pyi pyx ipynb", "javascript": "js jsx mjs cjs", "typescript": "ts tsx mts cts", "go": "go",
    "rust": "rs", "java": "java", "kotlin": "kt kts", "c": "c h", "c++": "cc cpp cxx hpp hh hxx", "c#": "cs",
    "ruby": "rb rake", "php": "php", "swift": "swift", "scala": "scala sc", "shell": "sh bash zsh fish",
    "powershell": "ps1 psm1", "sql": "sql", "html": "html htm", "css": "css scss sass less", "vue": "vue",
    "svelte": "svelte", "markdown": "md mdx", "text": "txt rst adoc", "json": "json jsonl json5", "yaml": "yml yaml",
    "toml": "toml", "xml": "xml xsd", "ini": "ini cfg conf", "lua": "lua", "r": "r rmd", "julia": "jl", "dart": "dart",
    "elixir": "ex exs", "erlang": "erl hrl", "haskell": "hs", "clojure": "clj cljs", "perl": "pl pm", "zig": "zig",
    "nix": "nix", "terraform": "tf tfvars", "protobuf": "proto", "graphql": "graphql gql", "csv": "csv tsv",
}  # fmt: skip
_BY_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}
_BY_NAME = {"dockerfile": "docker", "makefile": "make", "gnumakefile": "make", "cmakelists.txt": "cmake",
            "jenkinsfile": "groovy", "gemfile": "ruby", "rakefile": "ruby", "go.mod": "go"}  # fmt: skip


def language_of(path: str | None) -> str | None:
    """The language of a file, by its name; None if the name does not show it."""
    if not path:
        return None
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    return _BY_NAME.get(name) or (_BY_SUFFIX.get(name.rsplit(".", 1)[1]) if "." in name else None)


@dataclass(slots=True)
class _Call:
    """A call, and what later rows say about it."""

    row: Row
    detail: dict[str, Any]
    result: Row | None = None
    overruled: Row | None = None
    decision: str | None = None


class FactBuilder:
    """Collects one session's rows in `seq` order; `finish` may be called at any time and again after more rows."""

    def __init__(self, words: Vocabulary) -> None:
        self._by_tool = words.operations
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._messages: list[Message] = []
        self._tests: list[TestRunFact] = []

    def add(self, rows: Iterable[Row]) -> None:
        """Take in rows in `seq` order."""
        for row in rows:
            handler = _BY_KIND.get(row.kind)
            if handler is not None:
                handler(self, row)

    def _on_message(self, row: Row) -> None:
        role = row.role or ("user" if row.kind == EventKind.USER_MSG else "assistant")
        self._messages.append(
            Message(row.record_key, row.ts_us, row.is_sidechain, row.agent_id, role, row.size, _name(row.model))
        )

    def _on_call(self, row: Row) -> None:
        call = _Call(light(row), orjson.loads(row.detail) if row.detail else {})
        self._calls.append(call)
        if row.call_id:
            self._by_id[row.call_id] = call

    def _on_result(self, row: Row) -> None:
        call = self._by_id.get(row.call_id) if row.call_id else None
        if call is not None:
            call.result = light(row)

    def _on_lifecycle(self, row: Row) -> None:
        """Note a later record that corrects how a call ended, or a person's decision, which names only the tool."""
        if row.call_id:
            call = self._by_id.get(row.call_id)
            if call is not None:
                call.overruled = light(row)
        elif row.detail and '"decision"' in row.detail:
            detail = orjson.loads(row.detail)
            decision = _DECISIONS.get(str(detail.get("decision")))
            waiting = (
                call for call in reversed(self._calls) if call.row.tool == detail.get("tool") and not call.decision
            )
            if decision and (call := next(waiting, None)) is not None:
                call.decision = decision

    def _on_test(self, row: Row) -> None:
        run = orjson.loads(row.detail) if row.detail else {}
        passed, failed, skipped, total = (_count(run.get(name)) for name in ("passed", "failed", "skipped", "total"))
        self._tests.append(
            TestRunFact(
                row.record_key, row.ts_us, row.is_sidechain, row.agent_id, _name(run.get("framework")), passed, failed,
                skipped, total, _number(run.get("duration_s")), _truth(run.get("success")),
            )
        )  # fmt: skip

    def finish(self, usage: Iterable[tuple[Row, bool]], signals: Sequence[tuple[Any, ...]] = ()) -> SessionFactRows:
        """The facts of what was added so far, with usage and signals from the digest's builder.

        `usage` are the rows whose tokens count, and whether they are a subagent's. `signals` are rows of their table.
        """
        calls = [_tool_call(call) for call in self._calls]
        operations = [
            operation
            for call, fact in zip(self._calls, calls, strict=True)
            for operation in _operations(call, fact, self._by_tool)
        ]
        found: Mapping[str, Sequence[tuple[Any, ...]]] = {
            "tool_calls": calls,
            "file_operations": operations,
            "test_runs": self._tests,
            # By place, so that what a session gains comes last.
            "token_usage": [_usage(row, is_sidechain) for row, is_sidechain in sorted(usage, key=_place)],
            "messages": self._messages,
            "signals": signals,
        }
        # plain tuples: sending them from a worker to its parent takes a third of the time
        return {name: list(map(tuple, rows)) for name, rows in found.items() if rows}


_DECISIONS = {"allow": "accepted", "allow_once": "accepted", "allow_always": "accepted", "approve": "accepted",
              "approved": "accepted", "accept": "accepted", "reject": "denied", "rejected": "denied", "deny": "denied",
              "denied": "denied", "reject_once": "denied", "reject_always": "denied"}  # fmt: skip


def _tool_call(call: _Call) -> ToolCall:
    row, result, better = call.row, call.result, call.overruled
    status = (better and better.status) or (result and (result.status or "ok")) or "open"
    path = _path((result and result.file_path) or row.file_path)
    failed = status == "error"
    last = result or row
    return ToolCall(
        record_key=row.record_key,
        ts=row.ts_us,
        is_sidechain=row.is_sidechain,
        agent_id=row.agent_id,
        tool=_name(row.tool),
        status=status,
        error_class=error_class((result and result.summary) or "", last.exit_code) if failed else None,
        decision="denied" if status == "denied" else call.decision,
        duration_ms=(better and better.duration_ms) or last.duration_ms,
        program=_name(call.detail.get("program")),
        exit_code=last.exit_code,
        file_path=path,
        language=language_of(path),
        lines_added=last.lines_added,
        lines_removed=last.lines_removed,
    )


def _operations(call: _Call, fact: ToolCall, by_tool: Mapping[str, str]) -> list[FileOperation]:
    """The files that a call was about. Of a patch of several files the first row has the lines of all."""
    name = (call.row.tool or "").lower()
    operation = by_tool.get(name) or ("edit" if fact.lines_added is not None else None)
    operation = operation or _BY_PROGRAM.get(fact.program or "")
    if operation is None:
        return []
    files = call.detail.get("files")
    paths = [_path(path) for path in files if isinstance(path, str)] if isinstance(files, list) else [fact.file_path]
    return [
        FileOperation(
            fact.record_key, fact.ts, fact.is_sidechain, fact.agent_id, operation, fact.tool, fact.status,
            path, language_of(path),
            fact.lines_added if place == 0 else None, fact.lines_removed if place == 0 else None,
        )
        for place, path in enumerate(paths)
    ]  # fmt: skip


def _place(counted: tuple[Row, bool]) -> int:
    return counted[0].seq


def _usage(row: Row, is_sidechain: bool) -> TokenUsage:
    return TokenUsage(
        row.record_key, row.ts_us, is_sidechain, row.agent_id, _name(row.model),
        row.input_tokens or 0, row.output_tokens or 0, row.cache_read_tokens or 0, row.cache_write_5m_tokens or 0,
        row.cache_write_1h_tokens or 0, row.reasoning_tokens, row.cost_usd, None if row.cost_usd is None else "agent",
    )  # fmt: skip


def _name(value: Any) -> str | None:
    return value[:MAX_NAME] if isinstance(value, str) and value else None


def _path(value: str | None) -> str | None:
    """The path; a very long one keeps its end, which says more."""
    return value if value is None or len(value) <= MAX_PATH else "…" + value[-MAX_PATH:]


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_BY_KIND: dict[str | None, Callable[[FactBuilder, Row], None]] = {
    EventKind.USER_MSG.value: FactBuilder._on_message,
    EventKind.ASSISTANT_MSG.value: FactBuilder._on_message,
    EventKind.TOOL_CALL.value: FactBuilder._on_call,
    EventKind.TOOL_RESULT.value: FactBuilder._on_result,
    EventKind.TEST_RUN.value: FactBuilder._on_test,
    EventKind.LIFECYCLE.value: FactBuilder._on_lifecycle,
}
