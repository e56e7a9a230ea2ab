"""The regular-expression engines: google-re2 (linear time), or the standard library for our own bounded patterns; and
hyperscan, if it is installed, to skip most lines of long logs.

Belongs here: how a pattern is compiled and refused. Not here: the patterns (`rules.py`).
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import Protocol

from helix_assets.model.errors import HelixError

try:
    import re2
except ImportError:  # no wheel for this platform: built-in rules run on `re`, user rules are refused
    re2 = None

# Memory for the DFA of the trigger, a union of all rules. With the default of 8 MiB it would be rebuilt all the time.
_MAX_MEMORY = 256 << 20
# Texts in which a pattern that can match the empty text does so.
_SAMPLES = (b"", b"a 1\nb")
# Hits in one text; each is a call.
_MOST_HITS = 100_000
_NOT_LINEAR = re.compile(r"\(\?(?:=|!|<=|<!|P=|>|\()|\\[1-9]|[+*?}]\+")


_ANCHOR = re.compile(r"[\^$]|\\A")
_NO_ANCHOR = re.compile(r"\\[^A]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


class RuleError(HelixError, ValueError):
    """A user's rule or allow-list entry cannot be used. The message says which, where and why."""


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
    def search(self, text: bytes, pos: int = 0, endpos: int | None = None) -> Found | None: ...
    def match(self, text: bytes, pos: int = 0, endpos: int | None = None) -> Found | None: ...
    def fullmatch(self, text: bytes) -> Found | None: ...
    def finditer(self, text: bytes) -> Iterator[Found]: ...


def compile_pattern(pattern: str, *, never_capture: bool = False) -> Pattern:
    """Compile one of our own patterns. They work on bytes and are linear in both engines."""
    encoded = pattern.encode("utf-8")
    if re2 is None:
        return re.compile(encoded)  # type: ignore[return-value]
    compiled: Pattern = re2.compile(encoded, _options(never_capture=never_capture))
    return compiled


def _options(*, never_capture: bool = False, of_bytes: bool = True) -> "re2.Options":
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1 if of_bytes else re2.Options.Encoding.UTF8
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.never_capture = never_capture
    return options


class PatternSet:
    """Finds which of many patterns occur in a text, in one pass; without google-re2 in one pass per pattern."""

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


class Multiple:
    """Finds where any of many patterns hits: several times as fast as google-re2, which builds its automaton while it
    reads. Building it takes a quarter of a second, loading a saved one next to nothing."""

    def __init__(self, patterns: Sequence[str], built: bytes | None) -> None:
        import hyperscan  # loaded only here: most commands read little

        self._stopped = hyperscan.ScanTerminated
        self._one_by_one = Lock()  # a database has room for one scan
        self._count = len(patterns)
        self.is_new = built is None
        try:
            if built is not None:
                self._database = hyperscan.loadb(built, hyperscan.HS_MODE_BLOCK)
                self._database.scratch = hyperscan.Scratch(self._database)
            else:
                self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
                self._database.compile(expressions=[pattern.encode("utf-8") for pattern in patterns])
        except hyperscan.HyperscanError as error:
            raise ImportError("hyperscan does not work here") from error

    @classmethod
    def of(cls, patterns: Sequence[str], built: bytes | None = None) -> "Multiple | None":
        """One for these patterns, or None if hyperscan is not installed or does not support the processor.

        `built` is what `dump` returned for the same patterns. If it cannot be used, a new one is built.
        """
        for given in dict.fromkeys((built, None)):
            with suppress(ImportError):
                return cls(patterns, given)
        return None

    def dump(self) -> bytes:
        """Bytes from which this one can be loaded again, on the same kind of processor."""
        import hyperscan

        dumped: bytes = hyperscan.dumpb(self._database)
        return dumped

    def hits(self, text: bytes) -> list[int] | None:
        """Return where hits end, in order, or None if there are too many (hostile input)."""
        ends: list[int] = []

        def note(_pattern: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            ends.append(end)
            return len(ends) >= _MOST_HITS

        return sorted(ends) if self._scanned(text, note) else None

    def occurring(self, text: bytes) -> Collection[int]:
        """Return the indexes of the patterns that hit, or all indexes if there are too many hits."""
        left = _MOST_HITS
        indexes: set[int] = set()

        def note(pattern: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
            nonlocal left
            left -= 1
            indexes.add(pattern)
            return left <= 0

        return indexes if self._scanned(text, note) else range(self._count)

    def occurs_in(self, text: bytes) -> bool:
        """Whether one of the patterns hits."""
        return not self._scanned(text, lambda *_: True)

    def _scanned(self, text: bytes, note: Callable[[int, int, int, int, object], bool]) -> bool:
        try:
            with self._one_by_one:
                self._database.scan(text, match_event_handler=note)
        except self._stopped:
            return False
        return True


def compile_user_pattern(name: str, pattern: str) -> Pattern:
    """Compile a user's pattern, or raise RuleError with the rule's name, the position and the reason."""
    if re2 is None:
        raise RuleError(f"rule {name!r}: own rules need the google-re2 package, which is not installed here")
    try:
        with warnings.catch_warnings(action="ignore"):  # about syntax whose meaning may change
            re.compile(pattern)
    except re.error as error:
        where = "" if error.pos is None else f" at position {error.pos}"
        raise RuleError(f"rule {name!r}: bad pattern{where}: {error.msg}") from error
    if odd := _NOT_LINEAR.search(pattern):
        raise RuleError(
            f"rule {name!r}: bad pattern at position {odd.start()}: {odd.group()!r} cannot run in linear time "
            "(no look-around, back-references or possessive repeats)"
        )
    if anchor := _ANCHOR.search(_NO_ANCHOR.sub(lambda found: "." * len(found.group()), pattern)):
        raise RuleError(
            f"rule {name!r}: bad pattern at position {anchor.start()}: {anchor.group()!r} does not work in logs, where "
            "texts are inside JSON; use \\b or the text around the secret"
        )
    try:
        compiled: Pattern = re2.compile(pattern.encode(), _options(of_bytes=False))
    except re2.error as error:
        raise RuleError(f"rule {name!r}: bad pattern{_reason(pattern, error)}") from error
    if any(found.start() == found.end() for text in _SAMPLES for found in compiled.finditer(text)):
        raise RuleError(
            f"rule {name!r}: bad pattern at position 0: it matches the empty text, so it matches everywhere"
        )
    return compiled


def _reason(pattern: str, error: Exception) -> str:
    """Position and reason of a refusal. The engine names the piece of the pattern that it cannot read."""
    message = error.args[0] if error.args else error
    reason = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    at = pattern.find(reason.rpartition(": ")[2])
    return f": {reason}" if at < 0 else f" at position {at}: {reason}"
