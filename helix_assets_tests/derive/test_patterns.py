"""When a text is specific, and what is gathered into a pattern."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from helix_assets.derive.patterns import (
    MAX_EVIDENCE,
    Pattern,
    Sighting,
    find_patterns,
    key_of_hex,
    sightings,
    specific_part,
)

DAY = date(2026, 6, 1)
GENERIC = [
    "exit code 1",
    "Exit code 1",
    "Error",
    "FAIL",
    "",
    "Command failed with exit code 1",
    "Error: Process completed with exit code 1.",
    "The command returned a non-zero exit status 2",
    "Chunk ID: 8ab3 Wall time: 0.0 seconds Process exited with code 1 Original token count: 0 Output: ",
    "<tool_use_error>File does not exist.</tool_use_error>",
    "No such file or directory",
    "Request failed with status code 404",
    "Permission denied",
    "Command timed out after 2m 0.0s",
    "Tests failed",
    "error: something went wrong, please try again",
    "npm ERR! code ELIFECYCLE",
    "Traceback (most recent call last):",
    "unknown error occurred (os error 2)",
    'npm warn Unknown env config "store-dir". This will stop working in the next major version of npm.',
    "> @shop/web@0.1.0 check-types /home/u/shop/apps/web > tsc --noEmit",
    "=== RUN   TestCart_AddsLine Created cart branch 'shop/0a1b' and committed changes 2026/01/23 INFO saved",
    "Usage: shopctl [command] Available Commands: activity Show your activity catalog Manage the catalog",
    "search failed: calling search service: Get https://shop.example/v1/search?limit=10",
]
SPECIFIC = [
    "File has not been read yet. Read it first before writing to it.",
    "error TS2322: Type 'string' is not assignable to type 'CartLine'",
    "sed: packages/ui/hooks/use-api-list.ts: No such file or directory",
    "fatal: unable to auto-detect email address",
    "ERROR: could not open extension control file pgvector.control",
    "Exit code 1 src/cart.py:12:5: F821 undefined name `total_price`",
    "EISDIR: illegal operation on a directory, read",
]


@pytest.mark.parametrize("text", GENERIC)
def test_what_only_says_that_something_failed_is_not_specific(text: str) -> None:
    assert specific_part(text) is None


@pytest.mark.parametrize("text", SPECIFIC)
def test_what_names_something_is_specific(text: str) -> None:
    assert specific_part(text) is not None


def test_numbers_hashes_and_folders_do_not_tell_two_texts_apart() -> None:
    one = specific_part("Exit code 1 /home/a/shop/cart.py:12: cannot lock refund_batch 0x7f31 after 3 tries")
    other = specific_part("Exit code 2 /srv/b/shop/cart.py:99: cannot lock refund_batch 0x11aa after 7 tries")
    assert one == other is not None


def test_another_name_is_another_trouble() -> None:
    assert specific_part("no column named 'price' in cart.csv") != specific_part("no column named 'total' in cart.csv")


def test_what_follows_a_specific_sentence_does_not_count() -> None:
    text = "String to replace not found in file. String: {}"
    assert specific_part(text.format("Alpha = 1")) == specific_part(text.format("Beta(2, 3)"))


def digest(uid: str = "claude:a", **more: Any) -> dict[str, Any]:
    plain = {"session_uid": uid, "repo": "shop", "cwd": "/home/u/shop", "started_at": "2026-06-01T10:00:00.000Z"}
    return plain | {"signals": [], "error_snippets": []} | more


def signal(name: str, sample: str, *evidence: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "count": 2, "sample": sample, "evidence": list(evidence), "tool": "Bash", **more}


def snippet(text: str, mark: str, kind: str = "other") -> dict[str, Any]:
    return {"fingerprint": mark, "sample": text, "count": 3, "tool": "Bash", "error_class": kind}


def test_an_error_is_told_by_the_digests_sample_of_it() -> None:
    text = "cannot lock refund_batch of ledger.db"
    made = digest(
        signals=[signal("error", "other: cannot lock", "00000000000000ff")],
        error_snippets=[snippet(text, "cannot lock refund_batch")],
    )
    (seen,) = sightings(made)
    assert (seen.text, seen.error_class, seen.record_keys) == (text, "other", ("00000000000000ff",))


def test_an_error_without_a_signal_is_seen_without_a_record() -> None:
    (seen,) = sightings(digest(error_snippets=[snippet("cannot lock refund_batch of ledger.db", "x")]))
    assert (seen.record_keys, seen.times) == ((), 3)


def test_a_missing_dependency_is_told_once() -> None:
    made = digest(
        signals=[signal("missing_dependency", "libpq", "0a"), signal("error", "missing_dependency: no libpq", "0a")],
        error_snippets=[snippet("cannot find module libpq-fe.h anywhere", "no libpq", "missing_dependency")],
    )
    assert [seen.kind for seen in sightings(made)] == ["missing_dependency"]


def test_churn_is_of_a_file_within_its_checkout() -> None:
    marks = {
        next(
            sightings(digest(cwd=cwd, signals=[signal("churn", f"{cwd}/cart.py", "0a", file_path=f"{cwd}/cart.py")]))
        ).mark
        for cwd in ("/home/a/shop", "/home/b/code/shop")
    }
    assert len(marks) == 1


@pytest.mark.parametrize("name", ["context_pressure", "permission_denied", "compaction_mid_task"])
def test_other_signals_are_no_sightings(name: str) -> None:
    assert not list(sightings(digest(signals=[signal(name, "Bash", "0a")])))


def test_a_session_without_any_time_is_passed_over() -> None:
    assert not list(sightings(digest(started_at=None, error_snippets=[snippet("cannot lock refund_batch", "x")])))


def sighting(uid: str, days: int = 0, **more: Any) -> Sighting:
    made: dict[str, Any] = {"repo": "shop", "kind": "error", "mark": "m", "text": f"seen in {uid}", "times": 1}
    made |= {"tool": "Bash", "file_path": None, "error_class": "other", "record_keys": ("0a",)}
    return Sighting(**(made | {"session_uid": uid, "day": DAY + timedelta(days)} | more))


def found(*seen: Sighting, newest: int = 0) -> list[Pattern]:
    return find_patterns(seen, b"key", DAY + timedelta(newest))


def test_three_sessions_make_a_pattern_and_two_do_not() -> None:
    assert not found(sighting("a"), sighting("b"), sighting("b", text="twice"))
    (pattern,) = found(sighting("a"), sighting("b"), sighting("c", 2, repo="mill", times=4))
    assert (pattern.sessions, pattern.days, pattern.repos, pattern.times) == (3, 2, 2, 6)
    assert (pattern.first_seen, pattern.last_seen) == (DAY, DAY + timedelta(2))


def test_other_kinds_and_marks_are_other_patterns() -> None:
    seen = [sighting(uid, mark=mark, kind=kind) for uid in "abc" for mark in "xy" for kind in ("error", "churn")]
    assert len({pattern.pattern_id for pattern in found(*seen)}) == 4


def test_a_pattern_can_be_looked_at_somewhere() -> None:
    assert not found(*(sighting(uid, record_keys=()) for uid in "abc"))
    (pattern,) = found(sighting("a", record_keys=()), sighting("b", 1), sighting("c", 2))
    assert [seen.session_uid for seen in pattern.evidence] == ["c", "b", "a"]


def test_evidence_is_bounded() -> None:
    (pattern,) = found(*(sighting(f"s{number}") for number in range(30)))
    assert (pattern.sessions, len(pattern.evidence)) == (30, MAX_EVIDENCE)


@pytest.mark.parametrize(
    ("days", "newest", "trend"),
    [
        ((0, 1, 2), 2, "new"),
        ((0, 1, 2), 40, "quiet"),
        ((0, 16, 30, 31), 31, "rising"),
        ((0, 16, 17, 31), 31, "falling"),
        ((0, 16, 31), 31, "steady"),
    ],
)
def test_the_trend_is_told_by_the_last_two_weeks(days: tuple[int, ...], newest: int, trend: str) -> None:
    (pattern,) = found(*(sighting(f"s{day}", day) for day in days), newest=newest)
    assert pattern.trend == trend


def test_the_order_of_sessions_changes_nothing() -> None:
    seen = [sighting(uid, number, mark=mark) for number, uid in enumerate("abcd") for mark in "xy"]
    assert found(*seen) == found(*reversed(seen))


def test_a_record_key_is_as_the_facts_hold_it() -> None:
    assert (key_of_hex("00000000000000ff"), key_of_hex("ffffffffffffffff")) == (255, -1)
