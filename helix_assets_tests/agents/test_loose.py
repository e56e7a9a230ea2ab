"""What several adapters read alike."""

import pytest

from helix_assets.agents.loose import line_count


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("a\x0cb\u2028c\n", 1)])
def test_lines_end_with_a_line_feed_and_nothing_else(text: str, lines: int) -> None:
    assert line_count(text) == lines
