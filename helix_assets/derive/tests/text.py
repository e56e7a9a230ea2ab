"""An output prepared for reading: without colours and carriage returns, in short lines.

Everything here is linear in the output's length, whatever it contains. Later stages see only short lines.
"""

from __future__ import annotations

import re

HEAD_CHARS = 16 << 10
TAIL_CHARS = 496 << 10
LINE_CHARS = 1000
_COLOURS = re.compile(
    r"(?:\x1b|\^\[)?\[\d{0,3}(?:;\d{1,3}){0,6}m|\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|[()][0-9A-B]|[=>78c])"
)
_BARE_COLOUR = re.compile(r"\[\d{0,3}(?:;\d{1,3}){0,6}m")
_PREFIX = re.compile(
    r"^(?:\[[^\]\n]{1,80}\]: {0,4}"  # yarn workspaces
    r"|@?[\w./-]{1,80}:[\w:-]{0,40}test[\w:-]{0,40}: "  # turbo, nx
    r"|@?[\w./-]{1,80} test[\w:-]{0,40}[:$] "  # pnpm -r
    r"|[\w.-]{1,60} {0,40}\| )",  # docker compose
    re.M,
)
_CUT = re.compile(r"\[[^\]\n]{0,60}(?:truncated|omitted)[^\]\n]{0,30}\]|…\d{1,12} (?:\w{1,10} )?truncated…")


def readable(output: str) -> tuple[str, bool]:
    """The output as plain short lines, and whether some of it is missing. A huge one keeps its head and tail."""
    cut = len(output) > HEAD_CHARS + TAIL_CHARS
    if cut:
        output = output[:HEAD_CHARS] + "\n" + output[-TAIL_CHARS:]
    if "\r" in output:
        output = output.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in output or (("[3" in output or "[1m" in output) and _BARE_COLOUR.search(output)):
        output = _COLOURS.sub("", output)
    lines = output.split("\n")
    if " \n" in output or "\t\n" in output or output[-1:].isspace() or len(max(lines, key=len)) > LINE_CHARS:
        output = "\n".join([line[:LINE_CHARS].rstrip() for line in lines])
    cut = cut or (any(word in output for word in ("truncated", "omitted")) and _CUT.search(output) is not None)
    return output, cut


def without_prefixes(text: str) -> str:
    """The lines without the name that monorepo tools and containers put before each."""
    return _PREFIX.sub("", text)
