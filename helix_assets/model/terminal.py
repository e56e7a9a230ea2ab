"""Text without what could control a terminal. All that is shown to a person goes through here: logs are not ours.

Belongs here: the one list of such characters, and how to remove or escape them. Not here: printing.
"""

import re

# Control characters except newline and tab, surrogates, and what reverses the direction of writing.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def terminal_safe(text: str) -> str:
    """The text without what could control a terminal."""
    return _CONTROLS.sub("", text)


def cell(text: str) -> str:
    """The text on one line, safe for the terminal."""
    return terminal_safe(text.replace("\n", " ").replace("\t", " "))


def json_safe(text: str) -> str:
    """The same JSON value, safe for the terminal: such characters are escaped."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
