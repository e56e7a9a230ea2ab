"""What goes wrong again and again: the same specific trouble in several sessions, with the records that show it.

Belongs here: turning a session's signals into sightings, deciding when a text is specific enough to be recognized, and
grouping sightings into patterns. Pure: digests in, patterns out; the same digests always give the same patterns.
Not here: what a signal is (`signals`), the view (`ask.views`), the report (`ask.reports.recurring`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any

MIN_SESSIONS = 3
"""A pattern is seen in at least this many sessions. A session has one day, on which it began, and one repository, so
whatever is seen on three days, or in three repositories, is seen in three sessions."""
MIN_WEIGHT = 4
"""The weight that a text needs to be recognized: see `weight`."""
MAX_EVIDENCE = 10
TREND_DAYS = 14
_KEY_WORDS = 16
# The same few failures occur again and again.
_REMEMBERED = 8192
SEEN_IN = ("session_uid", "repo", "cwd", "started_at", "signals", "error_snippets")
"""The fields of a digest that sightings are made of."""
KINDS = ("error", "missing_dependency", "retry_loop", "edit_test_loop", "flaky_test", "churn")

# What agents' tools print around the output of a failed command, and what npm and its like print before a script.
_AROUND = re.compile(
    r"</?[a-z_]+>|^chunk id: .{0,200}?output: |^exit code:? \d+|\[redacted:[^\]]*\]|\x1b?\[[\d;]*m|[─-╿⎯]+"
    r"|^failed in sandbox \w+ with execution error: sandbox denied exec error, exit code: \d+, stdout: .{0,80}?"
    r", stderr:|(?:^| )> (?:@[\w./-]+|[\w.-]+)@\d[\w.-]* [\w:-]+(?: /\S+)?(?= > )",
    re.I,
)
_TERM = re.compile(
    r"`(?P<tick>[^`]{2,60})`|(?<![\w'])'(?P<quoted>[^']{2,60})'(?!\w)|\"(?P<double>[^\"]{2,60})\""
    r"|(?P<path>[\w.@+~()\[\]#-]{0,60}(?:/[\w.@+()\[\]#-]{1,80})+/?)|(?P<word>--?[a-z][\w-]+|[\w#](?:[\w.#-]*[\w#])?)"
)
_NUMBER = re.compile(r"0x[0-9a-f]+|\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b|(?<![a-z\d])\d+", re.I)
_NAMED = re.compile(r"[a-z]\.[a-z]|[a-z]_[a-z]|[a-z]-[a-z]|[a-z][A-Z]|^[A-Z]{1,6}\d{2,6}$|^[A-Z]{5,}$|^E[A-Z]{3,}$|^--")
_SENTENCE = re.compile(r"(?<=[\w)'\"`][.!?;])\s+(?=[A-Z])")
_WARNS = re.compile(r"(?:\w+ )?warn(?:ing)?\b", re.I)
"""A text that begins like this is about warnings before it comes to a failure."""
_CLASSES = ("error", "exception")
"""How names end that only name a kind of failure."""
_WRONG = re.compile(
    r"\b(?:not|cannot|nothing|never|(?:\w+n|can) t|only|but|must|out of|no (?:such|space|module|rule|\S+ named)"
    r"|missing|undefined|undeclared|unused|unexpected|unresolved|unsupported|unreachable|unauthori[sz]ed|unterminated"
    r"|unrecogni[sz]ed|unknown|invalid|illegal|malformed|denied|refused|rejected|forbidden|required|exceeds|exceeded"
    r"|exhausted|overloaded|overflow|expired|conflicts?|mismatch(?:ed)?|duplicated?|already|ambiguous|corrupt(?:ed)?"
    r"|expected|insufficient|deadlock|(?:unable|failed) to \S+ \S+)\b"
    r"|=(?:\w+(?:error|exception)|\w*notfound|[a-z]{1,6}\d{2,6}"
    r"|e(?:acces|addrinuse|connrefused|exist|isdir|mfile|noent|nospc|notdir|notempty|perm|timedout))\b"
)
"""Words that say what is wrong, not only that something is: a denial, a defect, an exception's name, a code."""
_FILE = re.compile(r"[a-z#]\.[a-z]\w{0,7}$", re.I)
# Words that say that something failed, not what; and words that say nothing.
_FAILING = frozenset({
    "abort", "aborted", "an", "api", "call", "called", "cannot", "code", "command", "completed", "could", "details",
    "did", "directory", "elifecycle", "err", "error", "errors", "exception", "execution", "exit", "exited", "fail",
    "failed", "failing", "failure", "fatal", "file", "files", "finished", "found", "go", "info", "information",
    "internal", "interrupted", "invalid", "issue", "job", "killed", "last", "line", "lines", "log", "logs",
    "message", "most", "no", "non", "nonzero", "occurred", "operation", "output", "permission", "please", "problem",
    "process", "program", "recent", "request", "response", "result", "returned", "returning", "run", "running",
    "script", "sigabrt", "sigint", "sigkill", "signal", "sigsegv", "sigterm", "something", "status", "stderr",
    "stdout", "step", "task", "terminated", "test", "tests", "timed", "timeout", "tool", "traceback", "try",
    "unable", "unexpected", "unknown", "unsuccessful", "warn", "warning", "went", "wrong", "zero",
})  # fmt: skip
_EMPTY = frozenset({
    "a", "about", "after", "again", "all", "also", "am", "and", "any", "are", "as", "at", "be", "because", "been",
    "but", "by", "can", "do", "does", "doing", "for", "from", "had", "has", "have", "if", "in", "into", "is", "it",
    "its", "just", "like", "may", "more", "must", "new", "not", "of", "on", "once", "only", "or", "other", "our",
    "out", "over", "own", "same", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "to", "too", "under", "until", "up", "use", "used", "using", "very",
    "was", "we", "were", "what", "when", "where", "which", "while", "who", "why", "will", "with", "would", "yet",
    "you", "your",
})  # fmt: skip


@dataclass(frozen=True)
class Sighting:
    """A sign of trouble in one session. `text` shows it, redacted; `mark` identifies it.

    `record_keys` are empty for an error without a signal in the digest."""

    session_uid: str
    repo: str | None
    day: date
    kind: str
    mark: str
    text: str
    times: int
    tool: str | None
    file_path: str | None
    error_class: str | None
    record_keys: tuple[str, ...]


@dataclass(frozen=True)
class Pattern:
    """The same trouble in several sessions. `evidence` are sightings, those with a record first, then the newest first.
    `recent` counts the sessions of the last two weeks up to the newest session in the memory, `before` those of the two
    weeks before."""

    pattern_id: str
    kind: str
    error_class: str | None
    tool: str | None
    file_path: str | None
    snippet: str
    sessions: int
    days: int
    repos: int
    times: int
    first_seen: date
    last_seen: date
    recent: int
    before: int
    trend: str
    evidence: tuple[Sighting, ...]


def key_of_hex(text: str) -> int:
    """A record key as facts and rows contain it, from its hexadecimal form in digests."""
    key = int(text, 16)
    return key - (1 << 64) if key >= 1 << 63 else key


# -- what a session saw ----------------------------------------------------------------------------------------------


def sightings(digest: Mapping[str, Any]) -> Iterator[Sighting]:
    """The signals and errors of a digest that are specific enough to be recognized in another session."""
    try:
        day = date.fromisoformat(str(digest["started_at"])[:10])
    except ValueError:
        return  # a session without any time
    signals = [signal for signal in (digest.get("signals") or ()) if signal["name"] in KINDS]
    missing = {key for signal in signals if signal["name"] == "missing_dependency" for key in signal["evidence"]}
    # A digest has more errors than signals. An error that is also a missing dependency yields only the latter.
    snippets = {snippet["fingerprint"]: snippet for snippet in (digest.get("error_snippets") or ())}
    for signal in signals:
        snippet = _snippet(signal, snippets)
        if snippet is not None:
            del snippets[snippet["fingerprint"]]
        if signal["name"] != "error":
            yield from _sighting(digest, day, signal, signal["sample"], None)
        elif not missing.issuperset(signal["evidence"]):
            kind, _, body = signal["sample"].partition(": ")
            yield from _sighting(digest, day, signal, snippet["sample"] if snippet else body, kind)
    for snippet in snippets.values():
        as_signal = {"name": "error", "count": snippet["count"], "tool": snippet["tool"], "evidence": ()}
        yield from _sighting(digest, day, as_signal, snippet["sample"], snippet["error_class"])


def _snippet(signal: Mapping[str, Any], snippets: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The digest's error that a signal is about, which has more of its text."""
    if signal["name"] != "error":
        return None
    kind, _, body = signal["sample"].partition(": ")
    body = body.removesuffix("…")
    fitting = (s for mark, s in snippets.items() if mark.startswith(body) and s["error_class"] == kind)
    return next(fitting, None)


def _sighting(
    digest: Mapping[str, Any], day: date, signal: Mapping[str, Any], text: str, error_class: str | None
) -> Iterator[Sighting]:
    mark = _mark(signal["name"], text, digest, signal)
    if mark is not None:
        yield Sighting(
            digest["session_uid"], digest.get("repo"), day, signal["name"], mark, text, signal["count"],
            signal.get("tool"), signal.get("file_path"), error_class, tuple(signal["evidence"]),
        )  # fmt: skip


def _mark(kind: str, text: str, digest: Mapping[str, Any], signal: Mapping[str, Any]) -> str | None:
    """What identifies the trouble, None if nothing in it is specific."""
    if kind == "error":
        return specific_part(text)
    if kind == "missing_dependency":
        return None if text in ("missing_dependency", "missing_command") else text.lower()
    place = digest.get("repo") or digest.get("cwd")
    if place is None:
        return None
    if kind == "churn":
        return f"{place} {_within(signal.get('file_path') or text, digest.get('cwd'))}"
    if kind == "retry_loop":  # a command of one repository is specific as soon as it names a program
        terms = list(islice(_terms(_plainly(text)), _KEY_WORDS))
        return f"{place} {' '.join(terms)}" if weight(terms) else None
    return f"{place} {text.partition(':')[0]}"  # only the tests' tool has a name


def _within(path: str, cwd: str | None) -> str:
    """The path relative to the session's folder, because checkouts of one repository are in many places."""
    if cwd and path.startswith(cwd.rstrip("/") + "/"):
        return path[len(cwd.rstrip("/")) + 1 :]
    return path


# -- what is specific ------------------------------------------------------------------------------------------------


@lru_cache(_REMEMBERED)
def specific_part(text: str) -> str | None:
    """The fewest sentences at the start of a text that name enough to be recognized and say what is wrong.

    None if there are none. Only the first words count. Numbers, hashes, warnings and what is printed around a failure
    do not.
    """
    plain = _plainly(_AROUND.sub(" ", text))
    held: list[str] = []
    for sentence in () if _WARNS.match(plain) else _SENTENCE.split(plain):
        held += islice(_terms(sentence), _KEY_WORDS - len(held))
        if weight(held) >= MIN_WEIGHT and _WRONG.search(part := " ".join(held)):
            return part
        if len(held) == _KEY_WORDS:
            break
    return None


def weight(terms: Iterable[str]) -> int:
    """How much words name: three for each file, two for each other name (an identifier, a code, a flag, a quoted text),
    one for the name of an exception and for each other word that says more than that something failed. Every word
    counts once."""
    return sum(map(_weight, set(terms)))


def _weight(term: str) -> int:
    if term.startswith("="):
        return 1 if term.endswith(_CLASSES) else 3 if _FILE.search(term) else 2
    return int(len(term) > 2 and term not in _FAILING and term not in _EMPTY and not term.startswith("#"))


def _plainly(text: str) -> str:
    """The text on one line, with `#` for what varies from run to run."""
    return _NUMBER.sub("#", " ".join(text.removesuffix("…").split()))


def _terms(sentence: str) -> Iterator[str]:
    """The words of a plain sentence, names with a `=` before them."""
    for found in _TERM.finditer(sentence):
        kind = found.lastgroup or 0
        value = found[kind]
        if kind == "word" and value.isalpha() and value.islower():
            yield value  # most words, which are not names
            continue
        if kind == "path":
            value = "/".join(value.rstrip("/").split("/")[-2:])  # checkouts are anywhere, but README is in every folder
        lowered = value.lower()
        is_name = kind != "word" or _NAMED.search(value) is not None
        is_specific = lowered != value.upper() and not _FAILING.issuperset(lowered.split("-"))
        yield f"={lowered}" if is_name and is_specific else lowered


# -- gathering -------------------------------------------------------------------------------------------------------


def find_patterns(seen: Iterable[Sighting], key: bytes, newest: date) -> list[Pattern]:
    """Patterns among sightings, those in most sessions first. `newest` is the day of the newest session. The ids are
    hashed with `key`, so that they reveal nothing."""
    groups: dict[tuple[str, str], list[Sighting]] = defaultdict(list)
    for sighting in seen:
        groups[sighting.kind, sighting.mark].append(sighting)
    found = [
        _pattern(kind, mark, group, key, newest)
        for (kind, mark), group in groups.items()
        if len({sighting.session_uid for sighting in group}) >= MIN_SESSIONS
        and any(sighting.record_keys for sighting in group)
    ]
    return sorted(found, key=lambda pattern: (-pattern.sessions, -pattern.times, pattern.pattern_id))


def _pattern(kind: str, mark: str, group: Sequence[Sighting], key: bytes, newest: date) -> Pattern:
    group = sorted(group, key=lambda one: (bool(one.record_keys), one.day, one.session_uid), reverse=True)
    days = {sighting.session_uid: sighting.day for sighting in group}
    turn, start = newest - timedelta(TREND_DAYS), newest - timedelta(2 * TREND_DAYS)
    recent = sum(day > turn for day in days.values())
    before = sum(start < day <= turn for day in days.values())
    first, last = min(days.values()), max(days.values())
    return Pattern(
        pattern_id=blake2b(f"{kind}\n{mark}".encode(), key=key, digest_size=8).hexdigest(),
        kind=kind,
        error_class=group[0].error_class,
        tool=_common(sighting.tool for sighting in group),
        file_path=group[0].file_path,
        snippet=group[0].text,
        sessions=len(days),
        days=len(set(days.values())),
        repos=len({sighting.repo for sighting in group if sighting.repo}),
        times=sum(sighting.times for sighting in group),
        first_seen=first,
        last_seen=last,
        recent=recent,
        before=before,
        trend=_trend(first > turn, recent, before),
        evidence=tuple(group[:MAX_EVIDENCE]),
    )


def _common(values: Iterable[str | None]) -> str | None:
    """The value, if all have the same."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _trend(is_new: bool, recent: int, before: int) -> str:
    if not recent:
        return "quiet"
    if is_new:
        return "new"
    return "rising" if recent > before else "falling" if recent < before else "steady"
