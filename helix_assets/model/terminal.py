"""Text without what could drive a terminal. Whatever a person is shown goes through here: logs are written by others.

Belongs here: the one list of such characters, and the ways to do without them. Not here: writing anything.
"""

import re

# Control characters but newline and tab, halves of characters, and what turns the direction of writing around.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def terminal_safe(text: str) -> str:
    """The text without what a terminal would obey."""
    return _CONTROLS.sub("", text)


def cell(text: str) -> str:
    """The text on one line, safe for the terminal."""
    return terminal_safe(text.replace("\n", " ").replace("\t", " "))


def json_safe(text: str) -> str:
    """A JSON document of the same value, safe for the terminal: such characters as their escapes."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
