"""Which part of a failure's text says what is wrong, and the class of the failure: the first matching rule decides.

Not here: whether a call failed at all (`agents`), or what failures in a row mean (`signals`).
"""

from __future__ import annotations

import re2

from helix_assets.model.digest import OTHER
from helix_assets.model.event import shorten

_CLASSIFIED = 400
_SEARCHED = 1 << 16
_BEFORE = 80
"""How much of a long line to keep before the words that say what is wrong."""
_RULES: tuple[tuple[str, str], ...] = (
    ("timeout", r"\btimed? ?out\b|deadline exceeded|\betimedout\b"),
    ("rate_limit", r"rate.?limit|too many requests|\b429\b|overloaded|quota exceeded"),
    ("authentication", r"unauthori[sz]ed|authentication|invalid (?:api )?key|\b40[13]\b|forbidden|not logged in"),
    ("permission", r"permission denied|operation not permitted|\beacces\b|\beperm\b|read-only file system|sandbox"),
    ("stale_edit", r"string to replace|old_string|has (?:not )?been (?:read|modified)|failed to find (?:con|exp)"
                   r"|patch (?:does not apply|failed)|hunk #?\d+ failed|no match(?:es)? found for"),
    ("missing_dependency", r"no module named|modulenotfounderror|cannot find (?:module|package)|importerror"
                           r"|unresolved import|could not resolve|no matching distribution"),
    ("missing_command", r"command not found|not recognized as|executable file not found|exit code:? 127\b"),
    ("missing_file", r"no such file|file not found|\benoent\b|does not exist|cannot (?:open|access|stat)"),
    ("test_failure", r"\b\d+ (?:failed|failures?|failing)\b|assertionerror|\bassert(?:ion)? failed|tests? failed"),
    ("syntax", r"syntaxerror|syntax error|unexpected token|parse error|indentationerror|unterminated"),
    ("type", r"typeerror|type error|is not assignable|mismatched types|\berror ts\d+|incompatible type"),
    ("build", r"compilation failed|could not compile|build failed|undefined reference|\bmake(?:\[\d+\])?: \*\*\*"),
    ("network", r"connection (?:refused|reset|error)|could not resolve host|econnrefused|enotfound|\b50[0234]\b"),
    ("git", r"\bfatal: |merge conflict|conflict \(|non-fast-forward|failed to push"),
    ("too_large", r"exceeds? (?:the )?maximum|too (?:large|long)|token limit|out of memory|context length"),
    ("invalid_input", r"inputvalidationerror|invalid (?:argument|option|input|parameter)|unrecognized (?:arg|opt)"
                      r"|unknown (?:option|flag)|usage: |tool_use_error|missing required"),
    ("exception", r"traceback \(most recent|exception|panicked at|unhandled|\berror: "),
)  # fmt: skip


def _compiled() -> re2.Set:
    """All rules as one automaton, which reads a text once, whatever the number of rules."""
    options = re2.Options()
    options.case_sensitive = False
    rules = re2.Set.SearchSet(options)
    for _, pattern in _RULES:
        rules.Add(pattern)
    rules.Compile()
    return rules


_COMPILED = _compiled()
_SAYS_WHAT = re2.compile(
    r"(?im)\b(?:error|exception|fatal|panic)(?:\[\w+\]| \w+\d+)?: \S|\w(?:error|exception): \S|^E  +\w|<tool_use_error>"
    r"|\b(?:cannot|can't|could not|couldn't|unable to|failed to|must) \w|no such \w|not found\b"
    r"|\b(?:is|are|was|does|did|has|have)(?: not|n't) \w|already (?:in use|exists|defined|borrowed|running)|undefined"
    r"|denied|refused|timed out|exceeded|expected\b|unexpected|invalid|missing|unknown|conflict\b|mismatch"
)


def meaningful_part(text: str, beginning: str) -> str:
    """The part of a failure's text that says what is wrong: its beginning, or else from the first such words on."""
    if _SAYS_WHAT.search(beginning):
        return beginning
    found = _SAYS_WHAT.search(text[:_SEARCHED])
    if not found:
        return beginning
    first = found.start()
    start = text.rfind("\n", 0, first) + 1
    if first - start > _BEFORE:
        start = text.find(" ", first - _BEFORE, first) + 1 or first
    return shorten(text[start:])


def error_class(text: str, exit_code: int | None = None) -> str:
    """The class of a failure by its text, else by its exit code, else `other`."""
    fitting: list[int] = _COMPILED.Match(text[:_CLASSIFIED].encode("utf-8", "replace"))
    if fitting:
        return _RULES[min(fitting)][0]
    return {124: "timeout", 126: "permission", 127: "missing_command", 137: "killed", 143: "killed"}.get(
        exit_code or 0, "nonzero_exit" if exit_code else OTHER
    )
