"""What a row keeps of a message's text."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.model.event import CUT, MESSAGE_CHARS, PROMPT_CHARS, SUMMARY_CHARS, shorten, whole_text


def kept(text: str, limit: int = MESSAGE_CHARS) -> str | None:
    detail = whole_text(text, limit)
    return None if detail is None else str(orjson.loads(detail)["text"])


@pytest.mark.parametrize("text", ["", "Done.", "x" * SUMMARY_CHARS, "  spaces around  "])
def test_short_line_is_in_the_summary_already(text: str) -> None:
    assert kept(text) is None
    assert shorten(text) == text.strip()


@pytest.mark.parametrize("text", ["- one\n- two", "word " * 60, "line\n" * 400])
def test_other_message_is_kept_whole_with_its_lines(text: str) -> None:
    assert kept(text) == text.strip()


@pytest.mark.parametrize("limit", [PROMPT_CHARS, MESSAGE_CHARS])
def test_very_long_message_keeps_both_ends(limit: int) -> None:
    text = "".join(f"[redacted:password:{number:05}] " for number in range(1000))
    found = str(kept(text, limit))
    beginning, _, end = found.partition(f"\n{CUT}\n")
    assert len(found) <= limit + len(CUT) + 2
    assert text.startswith(beginning)
    assert text.strip().endswith(end)
    assert set(map(len, found.replace(CUT, "").split())) == {len("[redacted:password:00000]")}  # no mark is cut


@given(st.text(st.characters(codec=None), max_size=500), st.integers(1, 300))
def test_any_text_can_be_kept(text: str, limit: int) -> None:
    found = kept(text, limit)
    assert found is None or (len(found) <= max(limit, SUMMARY_CHARS) + 3 and "\0" not in found)
