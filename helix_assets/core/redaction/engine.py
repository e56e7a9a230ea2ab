"""The regular-expression engine: google-re2 (linear time), or the standard library for our own bounded patterns.

Belongs here: how a pattern is compiled and refused. What the patterns look for is in `rules.py`.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Protocol

from helix_assets.core.errors import HelixError

try:
    import re2
except ImportError:  # no wheel for this platform: built-in rules run on `re`, user rules are refused
    re2 = None

# Room for the DFA of the trigger, a union of all rules; the default of 8 MiB makes it start over again and again.
_MAX_MEMORY = 256 << 20
# Texts in which a pattern that can match nothing does so.
_SAMPLES = (b"", b"a 1\nb")
_NOT_LINEAR = re.compile(r"\(\?(?:=|!|<=|<!|P=|>|\()|\\[1-9]|[+*?}]\+")


class RuleError(HelixError, ValueError):
    """A user's rule or allow-list entry cannot be used; says which, where and why."""


class Found(Protocol):
    """What we use of a match object."""

    def group(self, which: int | str = 0, /) -> bytes | None: ...
    def span(self, which: int | str = 0, /) -> tuple[int, int]: ...
    def start(self, which: int | str = 0, /) -> int: ...
    def end(self, which: int | str = 0, /) -> int: ...


class Pattern(Protocol):
    """What we use of a compiled pattern, in both engines."""

    @property
    def groups(self) -> int: ...
    def search(self, text: bytes, pos: int = 0) -> Found | None: ...
    def match(self, text: bytes, pos: int = 0) -> Found | None: ...
    def fullmatch(self, text: bytes) -> Found | None: ...
    def finditer(self, text: bytes) -> Iterator[Found]: ...


def compile_pattern(pattern: str, *, never_capture: bool = False, within_lines: bool = False) -> Pattern:
    """Compile one of our own patterns; they work on bytes and stay linear in either engine.

    `within_lines` keeps a pattern from matching over the end of a line, where the engine can.
    """
    encoded = pattern.encode("utf-8")
    if re2 is None:
        return re.compile(encoded)  # type: ignore[return-value]
    compiled: Pattern = re2.compile(encoded, _options(never_capture=never_capture, never_nl=within_lines))
    return compiled


def _options(*, never_capture: bool = False, never_nl: bool = False) -> "re2.Options":
    options = re2.Options()
    options.never_nl = never_nl
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.never_capture = never_capture
    return options


class PatternSet:
    """Says which of many patterns occur in a text, in one pass; without google-re2 in as many as there are."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._one_by_one = [compile_pattern(pattern) for pattern in patterns] if re2 is None else []
        if re2 is None:
            return
        self._set = re2.Set.SearchSet(_options())
        for pattern in patterns:
            self._set.Add(pattern.encode("utf-8"))
        self._set.Compile()

    def occurring(self, text: bytes) -> list[int]:
        """Return the indexes of the patterns that occur in the text."""
        if self._one_by_one:
            return [index for index, pattern in enumerate(self._one_by_one) if pattern.search(text)]
        return sorted(self._set.Match(text) or ())


def compile_user_pattern(name: str, pattern: str) -> Pattern:
    """Compile a user's pattern, or raise RuleError with the rule's name, the position and the reason."""
    if re2 is None:
        raise RuleError(f"rule {name!r}: own rules need the google-re2 package, which is not installed here")
    try:
        with warnings.catch_warnings(action="ignore"):  # of what may mean something else one day
            re.compile(pattern)
    except re.error as error:
        where = "" if error.pos is None else f" at position {error.pos}"
        raise RuleError(f"rule {name!r}: bad pattern{where}: {error.msg}") from error
    if odd := _NOT_LINEAR.search(pattern):
        raise RuleError(
            f"rule {name!r}: bad pattern at position {odd.start()}: {odd.group()!r} cannot run in linear time "
            "(no look-around, back-references or possessive repeats)"
        )
    try:
        compiled = compile_pattern(pattern)
    except re2.error as error:
        raise RuleError(f"rule {name!r}: bad pattern{_reason(pattern, error)}") from error
    if any(found.start() == found.end() for text in _SAMPLES for found in compiled.finditer(text)):
        raise RuleError(f"rule {name!r}: bad pattern at position 0: it matches the empty text, so it would everywhere")
    return compiled


def _reason(pattern: str, error: Exception) -> str:
    """Position and reason of a refusal; the engine names the piece of the pattern that it stumbled over."""
    told = error.args[0] if error.args else error
    reason = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
    at = pattern.find(reason.rpartition(": ")[2])
    return f": {reason}" if at < 0 else f" at position {at}: {reason}"
