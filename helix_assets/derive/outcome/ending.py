"""How a session ended: rules in order, each with the name that is shown as the reason (docs/outcome.md).

Belongs here: the last state of what shows how a session ended, and the verdict. Takes only light rows of the main
thread. Not here: what last words say (`saying`, `closing`), what counts as a failed call or a test run (`link`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import orjson

from helix_assets.derive.outcome import closing, saying
from helix_assets.derive.vocabulary import Vocabulary
from helix_assets.model.event import EventKind, Row

_STREAK = 3
_NOBODY = "<synthetic>"
"""The model of replies that the agent's program writes itself, such as those to a resumed session."""
_NO_CHANGE = "nothing to commit"
_UNKNOWN = "unknown"
"""Status of a test run whose output does not show how it went; the status of its call may."""


class Verdict(NamedTuple):
    """success, fail, abandoned or unknown; the rule that decided; high, medium or low."""

    outcome: str
    reason: str
    confidence: str


class _Check(NamedTuple):
    """The last run of one kind of check: its call, how it ended, and how many calls came before its end."""

    call_id: str | None
    status: str
    step: int


@dataclass
class _Turn:
    """What happened since the person's last prompt."""

    calls: int = 0
    edits: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    last_edit: int = 0
    checks: dict[str, _Check] = field(default_factory=dict)
    results: deque[tuple[str | None, str]] = field(default_factory=lambda: deque(maxlen=_STREAK))


@dataclass
class Ending:
    """The last state of everything that shows how a session ended; takes rows in `seq` order."""

    words: Vocabulary
    last: str = ""
    prompts: int = 0
    replies: int = 0
    calls: int = 0
    has_task: bool = False
    prompt: str = ""
    first_prompt: str = ""
    last_reply: tuple[str | None, str | None] = (None, None)
    after_error: bool = False
    is_open: bool = False
    is_closed: bool = False
    last_call: tuple[str | None, str | None] = (None, None)
    open_calls: dict[str, tuple[str | None, bool, list[str]]] = field(default_factory=dict)
    turn: _Turn = field(default_factory=_Turn)

    @property
    def reply(self) -> str:
        """The agent's last words."""
        return words_of(*self.last_reply)

    def add(self, row: Row) -> None:
        """Take in the next row of the main thread."""
        handler = _BY_KIND.get(row.kind)
        if handler is not None:
            handler(self, row)

    def _on_prompt(self, row: Row) -> None:
        text = words_of(row.summary, row.detail)
        if row.status != "queued":  # a queued prompt belongs to the running turn
            self.turn = _Turn()
            self.open_calls.clear()
            self.is_closed = False
        self.after_error = self.last == "api_error"
        self.last, self.prompt = "prompt", text
        self.first_prompt = self.first_prompt or text
        self.prompts += 1
        self.has_task |= not closing.is_greeting(text)

    def _on_reply(self, row: Row) -> None:
        if row.summary and row.model != _NOBODY:
            self.last, self.last_reply, self.after_error = "reply", (row.summary, row.detail), False
            self.replies += 1

    def _on_call(self, row: Row) -> None:
        self.calls += 1
        self.turn.calls += 1
        self.is_closed = False
        self.last_call = (row.call_id, row.tool)
        self._go_on("call")
        if row.call_id:
            is_edit = row.tool in self.words.edits or row.lines_added is not None
            self.open_calls[row.call_id] = (row.tool, is_edit, _purposes(row))
            if is_edit and row.file_path:
                self.turn.files.add(row.file_path.replace("\\", "/").rpartition("/")[2])

    def _on_result(self, row: Row) -> None:
        status, turn = row.status or "ok", self.turn
        self._go_on("denied" if status == "denied" else "result")
        turn.results.append((row.call_id, status))
        _, is_edit, purposes = self.open_calls.pop(row.call_id or "", (None, False, []))
        if is_edit and row.call_id:
            turn.edits[row.call_id] = status
            turn.last_edit = turn.calls
        if status in ("ok", "error") and _NO_CHANGE not in (row.summary or ""):
            for purpose in purposes:
                turn.checks[purpose] = _Check(row.call_id, status, turn.calls)

    def _go_on(self, last: str) -> None:
        """Note the last event, but keep an interrupt: what follows it is only flushed late."""
        if self.last != "interrupt":
            self.last = last

    def _on_test(self, row: Row) -> None:
        held = self.turn.checks.get("test")
        if held and held.call_id == row.call_id and held.status == "error":
            return  # all runs of one call must have passed
        self.turn.checks["test"] = _Check(row.call_id, row.status or _UNKNOWN, self.turn.calls)

    def _on_person(self, row: Row) -> None:
        if row.status == "interrupt":
            self.last, self.is_open = "interrupt", False

    def _on_error(self, row: Row) -> None:
        if row.role == "assistant" or (row.role == "system" and '"api"' in (row.detail or "")):
            self.last, self.is_open = "api_error", False

    def _on_retry(self, row: Row) -> None:
        if row.status == "api":
            self.last = "api_error"

    def _on_completion(self, row: Row) -> None:
        self.is_open, self.is_closed = False, True

    def _on_life(self, row: Row) -> None:
        if row.summary == "turn started":
            self.is_open = True


_BY_KIND: dict[str | None, Callable[[Ending, Row], None]] = {
    EventKind.USER_MSG.value: Ending._on_prompt,
    EventKind.ASSISTANT_MSG.value: Ending._on_reply,
    EventKind.TOOL_CALL.value: Ending._on_call,
    EventKind.TOOL_RESULT.value: Ending._on_result,
    EventKind.TEST_RUN.value: Ending._on_test,
    EventKind.HUMAN_INTERVENTION.value: Ending._on_person,
    EventKind.ERROR.value: Ending._on_error,
    EventKind.RETRY.value: Ending._on_retry,
    EventKind.COMPLETION.value: Ending._on_completion,
    EventKind.LIFECYCLE.value: Ending._on_life,
}


def words_of(summary: str | None, detail: str | None) -> str:
    """The text of a message. Rows of earlier versions have only the end of a long one."""
    kept = orjson.loads(detail) if detail and ('"text"' in detail or '"end"' in detail) else {}
    text = kept.get("text") or "\n".join(part for part in (summary, kept.get("end")) if isinstance(part, str))
    return str(text).replace("’", "'")  # noqa: RUF001 - the apostrophe of typesetters


def _purposes(row: Row) -> list[str]:
    """The purposes of a command in the call's detail: build, lint, commit, push."""
    does = orjson.loads(row.detail).get("does") if row.detail and '"does"' in row.detail else None
    return [purpose for purpose in does if isinstance(purpose, str)] if isinstance(does, list) else []


class _Facts:
    """The ending in the terms of the rules. `overruled` are the statuses that an agent's later record corrects.

    Texts are read when a rule first needs them, because most endings are decided before.
    """

    def __init__(self, end: Ending, overruled: Mapping[str, str]) -> None:
        self.end, self._overruled = end, overruled
        turn = end.turn
        self.last = end.last
        if end.last == "result" and self._said(end.last_call[0], "") == "denied":
            self.last = "denied"
        self.replied = end.last == "reply"
        self.is_last_word = self.replied or self.last == "prompt"
        self.no_work_since = turn.calls == 0
        edits = [self._said(call, status) for call, status in turn.edits.items()]
        self.edited = "ok" in edits
        self.edits_refused = bool(edits) and not self.edited
        results = [self._said(call, status) for call, status in turn.results]
        self.has_failures = not {"error", "denied"}.isdisjoint(results)
        self.streak = len(results) == _STREAK and set(results) == {"error"}

    @cached_property
    def done(self) -> bool:
        return saying.says_done(self.end.reply)

    @cached_property
    def not_ours(self) -> bool:
        return saying.says_not_ours(self.end.reply)

    @cached_property
    def wants_words(self) -> bool:
        return closing.asks_for_words(self.end.prompt)

    @cached_property
    def not_done(self) -> bool:
        """Whether the agent says that it failed. An answer about failures is not itself a failure."""
        said = self.end.reply
        if self.done:
            return not self.wants_words and saying.ends_on_failure(said)
        if self.wants_words:
            return saying.gives_up(said)
        return saying.says_not_done(said, has_failures=self.has_failures)

    @property
    def is_automated(self) -> bool:
        prompt = self.end.first_prompt
        return closing.is_automated(prompt) or self.end.words.is_own_prompt(prompt)

    @property
    def announces(self) -> bool:
        """Whether the last words begin a next step. After a result only a colon shows that more was to come."""
        said = self.end.reply
        return saying.announces(said) and (not self.done or said.endswith((":", "…")))

    @property
    def names_its_edit(self) -> bool:
        return self.edited and any(name and name in self.end.reply for name in self.end.turn.files)

    @property
    def asks_before_work(self) -> bool:
        if not self.replied or self.done or self.wants_words or self.edited:
            return False
        return saying.asks_back(self.end.reply)

    def _said(self, call_id: str | None, status: str) -> str:
        return self._overruled.get(call_id or "", status)

    def _checked(self, kind: str) -> _Check | None:
        """The last check of a kind, unless something was edited after it."""
        check = self.end.turn.checks.get(kind)
        return check if check and (check.step >= self.end.turn.last_edit or kind in ("commit", "push")) else None

    def passed(self, kind: str) -> bool:
        check = self._checked(kind)
        return check is not None and self._ended(kind, check) == "ok"

    def _ended(self, kind: str, check: _Check) -> str:
        """How a check ended; what a test run printed counts more than how its command ended."""
        is_known = kind == "test" and check.status != _UNKNOWN
        return check.status if is_known else self._said(check.call_id, check.status)

    def failed(self, kind: str) -> bool:
        """Whether the last check of the kind failed, and was the last call or the agent reports on its work."""
        check = self._checked(kind)
        if check is None or self._ended(kind, check) != "error":
            return False
        return self.done or self.not_done or check.step == self.end.turn.calls

    @property
    def is_proven(self) -> bool:
        """Whether the turn edited and ended with passing tests or a build, or committed, whatever the reply says."""
        turn = self.end.turn
        if any(self.passed(kind) and turn.checks[kind].step >= turn.last_edit for kind in ("commit", "push")):
            return True
        last = {kind for kind, check in turn.checks.items() if check.step == turn.calls and self.passed(kind)}
        return self.edited and not last.isdisjoint(("test", "build")) and not self.failed("lint")

    def passed_and_said(self, kind: str) -> bool:
        """Whether the last check of the kind passed and the agent says it is done, or replies in another language."""
        return self.passed(kind) and self.replied and (self.done or closing.is_foreign(self.end.reply))

    def outdated(self, kind: str) -> bool:
        """Whether the last check of the kind failed, and was not run again after an edit."""
        check = self.end.turn.checks.get(kind)
        return check is not None and check.status == "error" and check.step < self.end.turn.last_edit


class Rule(NamedTuple):
    """One rule. The first whose `holds` is true decides."""

    name: str
    outcome: str
    confidence: str
    holds: Callable[[_Facts], bool]


RULES: tuple[Rule, ...] = (
    # nothing to judge
    Rule("nothing_was_asked", "unknown", "high",
         lambda f: not f.end.prompts and not f.end.replies and f.last not in ("api_error", "interrupt")),
    Rule("automated", "unknown", "high", lambda f: f.is_automated),
    Rule("only_a_greeting", "unknown", "high",
         lambda f: f.replied and bool(f.end.prompts) and not f.end.has_task and not f.end.calls),
    # how it was cut
    Rule("ended_on_api_error", "fail", "high",
         lambda f: f.last == "api_error" or (f.last == "prompt" and f.end.after_error)),
    Rule("ended_on_interrupt", "abandoned", "high", lambda f: f.last == "interrupt"),
    Rule("plan_was_rejected", "abandoned", "high",
         lambda f: f.last == "denied" and f.end.last_call[1] in f.end.words.approvals),
    Rule("waits_for_the_person", "abandoned", "high",
         lambda f: f.last == "call" and f.end.last_call[1] in f.end.words.asks),
    Rule("ended_on_a_refusal", "abandoned", "medium", lambda f: f.last == "denied"),
    # the person's last words
    Rule("person_had_it_undone", "fail", "medium",
         lambda f: f.is_last_word and closing.has_it_undone(f.end.prompt)),
    Rule("person_says_it_fails", "fail", "high",
         lambda f: f.last == "prompt" and closing.complains(f.end.prompt)),
    Rule("complaint_not_met", "fail", "medium",
         lambda f: f.replied and f.no_work_since and not f.wants_words and closing.complains(f.end.prompt)),
    Rule("person_is_content", "success", "high",
         lambda f: f.is_last_word and f.no_work_since and closing.is_content(f.end.prompt)),
    Rule("person_drops_it", "abandoned", "high",
         lambda f: f.is_last_word and f.no_work_since and closing.drops_it(f.end.prompt)),
    Rule("ended_on_a_prompt", "abandoned", "medium", lambda f: f.last == "prompt"),
    # cut between two steps
    Rule("cut_in_a_tool_call", "abandoned", "medium",
         lambda f: f.last in ("call", "result") and bool(f.end.open_calls)),
    Rule("ended_on_a_result", "abandoned", "medium",
         lambda f: f.last in ("call", "result") and not f.end.is_closed),
    Rule("turn_never_ended", "abandoned", "medium", lambda f: f.replied and f.end.is_open and not f.done),
    Rule("announced_and_stopped", "abandoned", "medium",
         lambda f: f.replied and not f.end.is_closed and f.announces),
    # what the machines and the agent's last words say
    Rule("old_failures_remain", "success", "medium",
         lambda f: f.failed("test") and f.not_ours and f.done),
    Rule("last_tests_failed", "fail", "high", lambda f: f.failed("test")),
    Rule("commit_refused", "fail", "medium", lambda f: f.failed("commit") or f.failed("push")),
    Rule("last_build_failed", "fail", "medium",
         lambda f: (f.failed("build") or (f.failed("lint") and not f.done)) and not f.not_ours),
    Rule("no_edit_went_through", "fail", "medium", lambda f: f.edits_refused and (f.done or f.not_done)),
    Rule("agent_says_it_failed", "fail", "medium",
         lambda f: f.replied and f.not_done and not f.is_proven and not (f.done and f.edited and f.passed("test"))),
    Rule("ended_in_failures", "fail", "low", lambda f: f.replied and f.streak and not f.done),
    Rule("tests_passed", "success", "high", lambda f: f.passed_and_said("test")),
    Rule("committed", "success", "high", lambda f: f.passed_and_said("commit") or f.passed_and_said("push")),
    Rule("proven_without_a_word", "success", "medium", lambda f: f.replied and f.is_proven),
    Rule("question_unanswered", "abandoned", "medium", lambda f: f.asks_before_work),
    Rule("done_but_not_tested_again", "success", "low", lambda f: f.replied and f.done and f.outdated("test")),
    Rule("says_done_after_edits", "success", "medium", lambda f: f.replied and f.done and f.edited),
    Rule("question_answered", "success", "medium",
         lambda f: f.replied and (f.wants_words or saying.answers(f.end.reply))),
    Rule("says_done", "success", "low", lambda f: f.replied and f.done),
    Rule("names_what_it_edited", "success", "low", lambda f: f.replied and f.names_its_edit),
    Rule("answered_in_words", "success", "low", lambda f: f.replied and f.no_work_since and bool(f.end.prompts)),
    Rule("report_given", "success", "low", lambda f: f.replied and saying.is_report(f.end.reply)),
    Rule("answered_in_another_language", "success", "low", lambda f: f.replied and closing.is_foreign(f.end.reply)),
    Rule("nothing_tells", "unknown", "low", lambda f: True),
)  # fmt: skip


def judge(end: Ending, overruled: Mapping[str, str]) -> Verdict:
    """The verdict of the first rule that holds; `overruled` corrects the status of calls by their id."""
    facts = _Facts(end, overruled)
    rule = next(rule for rule in RULES if rule.holds(facts))
    return Verdict(rule.outcome, rule.name, rule.confidence)
