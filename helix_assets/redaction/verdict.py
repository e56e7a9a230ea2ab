"""What test runners, compilers, caches and shells print as `pass: x`, `key: x` or `PWD=x`, which is not a secret.

Belongs here: the text around an assignment that shows that it is a report. Not here: judging values (`judge.py`).
"""

import re

from helix_assets.redaction.judge import is_test_name
from helix_assets.redaction.words import reads_as_words

_DURATION = re.compile(rb"[ \t]+[(\[][0-9#.]+ ?(?:ms|s|sec|seconds)[)\]]")
_TIMING = re.compile(rb"[ \t]+(?:[(\[]?[0-9#.]+ ?(?:ms|s|sec|seconds)\b|(?:took|ran|done|finished)\b)")
_MARK = re.compile(rb"(?:\xe2\x9c[\x85\x93-\x98]|\xe2\x88\x9a|\xc3\x97|\b(?i:not )?ok(?: \d+)?(?: -)?)[ \t]*\Z")
_CACHE = re.compile(rb"(?i)\b(?:cache|restored from|saved with)[ \t]*\Z")
_PERCENT = re.compile(rb"[0-9.]+%\Z")
_RESOURCE = re.compile(rb"\barn:(?:aws|\*)[\w:/*-]*:\Z")
_FOLDER = re.compile(rb"[/~]|[A-Za-z]:\\")
# Below these any name may be made by a machine.
_ROOT = re.compile(
    rb"/(?:tmp|var|private|home|Users|root|nix|builds|workspaces?|work|opt|usr|srv|mnt|media|data|run|proc|etc|dev|app|src)/"
    rb"|[A-Za-z]:\\+Users\\+"
)
_NO_FOLDER = re.compile(rb"[^\w/\\:~.@ +-]|[^/]~")
_SHORT_NAME = re.compile(rb"\.?[A-Za-z][a-z]{0,7}[0-9]{0,2}\Z")
_HARDWARE = re.compile(rb"(?i)(?:gpio|io|p[a-k]|[ad])_?(?:num_)?\d+\Z")
_BEFORE_PASS = re.compile(
    rb"(?i)(?:---|===|\xe2\x9c[\x85\x93-\x96]|\xe2\x88\x9a|\bok(?: \d+)?[ .-]*|^\s*\[|result[ =:]*"
    rb"|\b(?:running|compiler|optimi[sz]er|optimi[sz]ation|analysis|first|second|third|final|last|next|single|tests?"
    rb"|lint))[ \t]*\Z"
)
_ACCOUNT = re.compile(rb"(?i)user|login|account|e-?mail|host|server")
_MIXED = re.compile(rb"[0-9]{3}|[!@$^&*+=?]|[A-Za-z][0-9][A-Za-z]+[0-9]")


def is_report(view: bytes, name: tuple[int, int], value: tuple[int, int], *, quoted: bool) -> bool:
    """Whether a tool reports this: `✓ login: x (3 ms)`, `Cache restored from key: x`, `--- PASS: TestX`."""
    text, word = view[value[0] : value[1]], view[name[0] : name[1]].lower()
    if word in (b"pwd", b"oldpwd") and _is_folder(text):
        return True
    if quoted:
        return False
    if word.endswith(b"pin") and _HARDWARE.match(text):
        return True
    line = view[max(0, name[0] - 80) : name[0]].rpartition(b"\n")[2]
    if _DURATION.match(view, value[1]) or _RESOURCE.search(line) or (is_test_name(text) and _MARK.search(line)):
        return True
    if word == b"key":
        return _CACHE.search(line) is not None
    return word in (b"pass", b"xpass") and _is_verdict(view, name[1], line, text, value[1])


def _is_folder(text: bytes) -> bool:
    """Whether this is a working directory: it begins as these do, or the names of all its folders read as words."""
    if not _FOLDER.match(text) or _NO_FOLDER.search(text):
        return False
    names = text.removeprefix(b"~").replace(b"\\", b"/").split(b"/")
    return _ROOT.match(text) is not None or all(
        not name or _SHORT_NAME.match(name) or reads_as_words(name, perhaps=True) for name in names[text[1:2] == b":" :]
    )


def _is_verdict(view: bytes, name_end: int, line: bytes, text: bytes, end: int) -> bool:
    if is_test_name(text) or _PERCENT.match(text) or _TIMING.match(view, end) or _BEFORE_PASS.search(line):
        return True
    is_shouted = view.startswith(b"PASS:", name_end - 4)
    return is_shouted and not _ACCOUNT.search(line) and not _MIXED.search(text)
