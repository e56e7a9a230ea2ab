"""What a person's words say: tables of sentences, read by hand."""

from __future__ import annotations

import pytest

from helix_assets.derive.outcome import closing

COMPLAINS = (
    "it still doesn't work",
    "still getting the same error",
    "that's wrong, the order is reversed",
    "doesn't compile",
    "nope, same problem",
    "not what I asked for",
    "you broke the header",
    "this makes it slower",
    "hmm the button is still in the wrong place",
    "didnt work",
)
NO_COMPLAINT = (
    "please fix the failing test in cart",
    "does it work with python 3.12?",
    "what is still missing before we can release?",
    "make sure that it works offline",
    "add a test for the wrong password case",
    "now run the tests",
)
CONTENT = (
    "thanks!",
    "perfect, thank you so much",
    "Great job",
    "lgtm",
    "works like it should"[:5],
    "nice, that looks good",
)
NOT_CONTENT = (
    "thanks, now add tests",
    "great, but the color is off",
    "ok",
    "yes",
    "good idea, go ahead with the second",
)
WORDS_WANTED = (
    "what does this function do",
    "Why is the build slow?",
    "explain the retry logic to me",
    "can you review the last commit?",
    "I'd like a proposal. ## My request: how should we cache this?",
    "is there a faster way?",
    "summarize what changed since yesterday",
    "compare the two approaches",
)
WORK_WANTED = ("fix the login bug", "add dark mode and commit", "rename the project to acme", "upgrade to next 15")


@pytest.mark.parametrize("text", COMPLAINS)
def test_what_is_a_complaint(text: str) -> None:
    assert closing.complains(text)


@pytest.mark.parametrize("text", NO_COMPLAINT)
def test_a_task_about_failures_is_no_complaint(text: str) -> None:
    assert not closing.complains(text)


@pytest.mark.parametrize("text", CONTENT)
def test_who_is_content(text: str) -> None:
    assert closing.is_content(text)


@pytest.mark.parametrize("text", NOT_CONTENT)
def test_thanks_with_another_task_is_not_all(text: str) -> None:
    assert not closing.is_content(text)


@pytest.mark.parametrize("text", WORDS_WANTED)
def test_what_asks_for_words(text: str) -> None:
    assert closing.asks_for_words(text)


@pytest.mark.parametrize("text", WORK_WANTED)
def test_what_asks_for_work(text: str) -> None:
    assert not closing.asks_for_words(text)


@pytest.mark.parametrize("text", ["never mind", "forget it, I'll do it myself", "leave it for now", "stop here please"])
def test_who_drops_it(text: str) -> None:
    assert closing.drops_it(text)


def test_only_the_agents_own_work_is_had_undone() -> None:
    assert closing.has_it_undone("undo your changes")
    assert closing.has_it_undone("that's worse, revert it")
    assert not closing.has_it_undone("revert the commit from yesterday that removed the flag")


@pytest.mark.parametrize("text", ["hi", "Hello!", "ping", "Warmup"])
def test_a_greeting_is_no_task(text: str) -> None:
    assert closing.is_greeting(text)


@pytest.mark.parametrize("text", ["Warmup", "Please write a 5-10 word title for the following conversation:", "quota"])
def test_what_programs_send(text: str) -> None:
    assert closing.is_automated(text)


def test_other_languages_are_detected() -> None:
    assert closing.is_foreign("ファイルを最新の状態にアップデートしました。")
    assert closing.is_foreign("Die Datei wurde aktualisiert und alle Prüfungen laufen durch")
    assert not closing.is_foreign("The file is up to date.")
    marks = " ".join(f"[redacted:password:{tag}]" for tag in ("abcdefg", "xqzvwkj", "bcdfghj", "klmnpqr"))
    assert not closing.is_foreign(f"token: {marks}")  # no tag is language: it differs from store to store


def test_long_hostile_text_is_read_in_no_time() -> None:
    text = "still " * 60 + "now, " * 60 + "i'll " * 60
    assert not closing.is_content(text)
    assert not closing.complains(text[:2])
