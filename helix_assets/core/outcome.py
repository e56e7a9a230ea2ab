"""How a session ended: rules in order, each with the name that shows up as the reason.

Belongs here: the verdict. What counts as a failed call or a test run is decided before (`link`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_STILL_BROKEN = re.compile(
    r"\b(?:still (?:fails?|failing|broken|not working|doesn'?t work)|does ?n[o']t work|didn'?t work|that'?s wrong|revert (?:it|this|that))\b",
    re.I,
)
_GAVE_UP = re.compile(
    r"\b(?:i (?:was|am) (?:unable|not able) to|i could ?n[o']t|i cannot (?:complete|finish|proceed)|giving up)\b", re.I
)
_STREAK = 3


class Verdict(NamedTuple):
    """success, fail, abandoned or unknown; the rule that said so; high, medium or low."""

    outcome: str
    reason: str
    confidence: str


@dataclass
class Ending:
    """The last state of everything that tells how a session ended."""

    last: str = ""
    last_text: str = ""
    replies: int = 0
    edits: int = 0
    open_calls: dict[str, None] = field(default_factory=dict)
    last_test: tuple[str | None, bool | None] | None = None
    streak: int = 0

    def prompt(self, text: str) -> None:
        self.last, self.last_text, self.streak = "prompt", text, 0

    def reply(self, text: str) -> None:
        self.last, self.last_text = "reply", text
        self.replies += 1

    def call(self, call_id: str | None) -> None:
        self.last = "call"
        if call_id:
            self.open_calls[call_id] = None

    def result(self, call_id: str | None, status: str) -> None:
        self.last = "result"
        self.streak = self.streak + 1 if status == "error" else 0
        if call_id:
            self.open_calls.pop(call_id, None)

    def test(self, call_id: str | None, success: bool | None) -> None:
        """One run; of several runs of one call all must have passed."""
        if self.last_test and self.last_test[0] == call_id and self.last_test[1] is False:
            return
        self.last_test = (call_id, success)

    def edit(self) -> None:
        self.edits += 1

    def interrupt(self) -> None:
        self.last = "interrupt"

    def api_error(self) -> None:
        self.last = "api_error"


def judge(end: Ending, overruled: Mapping[str, str]) -> Verdict:
    """The first rule that fits decides."""
    tests_passed = _last_tests(end, overruled)
    rules = (
        (end.replies == 0 and end.last != "api_error", Verdict("unknown", "nothing_was_answered", "high")),
        (end.last == "api_error", Verdict("fail", "ended_on_api_error", "high")),
        (end.last == "interrupt", Verdict("abandoned", "ended_on_interrupt", "high")),
        (end.last == "call" and bool(end.open_calls), Verdict("abandoned", "cut_in_a_tool_call", "medium")),
        (
            end.last == "prompt" and bool(_STILL_BROKEN.search(end.last_text)),
            Verdict("fail", "person_says_it_fails", "high"),
        ),
        (end.last == "prompt", Verdict("abandoned", "ended_on_a_prompt", "medium")),
        (tests_passed is False, Verdict("fail", "last_tests_failed", "high")),
        (end.streak >= _STREAK, Verdict("fail", "ended_in_a_failure_streak", "medium")),
        (end.last == "reply" and bool(_GAVE_UP.search(end.last_text)), Verdict("fail", "agent_gave_up", "low")),
        (tests_passed is True, Verdict("success", "last_tests_passed", "high")),
        (end.last == "reply", Verdict("success", "answered_last", "medium" if end.edits else "low")),
    )
    return next((verdict for holds, verdict in rules if holds), Verdict("unknown", "no_rule_fits", "low"))


def _last_tests(end: Ending, overruled: Mapping[str, str]) -> bool | None:
    """Whether the last tests passed; where their output does not tell, the end of their call may."""
    if end.last_test is None:
        return None
    call_id, success = end.last_test
    said = overruled.get(call_id or "")
    return said == "ok" if success is None and said is not None else success
