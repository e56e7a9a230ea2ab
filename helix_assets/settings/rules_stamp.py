"""Whether the redaction rules may have changed since a sweep: a stamp of the files and variables that define them.

For readers that must answer in milliseconds: computing the rules' version takes longer than their whole answer. The
standard library only. Belongs here: where the rules come from. Not here: their version (`Redactor.version`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from helix_assets import __version__

_MOST = 1 << 20
_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def _contents(paths: Iterable[str]) -> list[tuple[str, bytes]]:
    """Path and content of those files that can be read, each once."""
    found = {}
    for path in map(os.path.realpath, paths):
        try:
            with open(path, "rb") as file:
                found[path] = file.read(_MOST)
        except OSError:
            continue
    return sorted(found.items())


def _states(paths: Iterable[str]) -> list[tuple[str, int, int]]:
    """Path, size and time of change of those files that exist, each once."""
    found = set()
    for path in map(os.path.realpath, paths):
        try:
            state = os.stat(path)
        except OSError:
            continue
        found.add((path, state.st_size, state.st_mtime_ns))
    return sorted(found)


_RULES = os.path.join(_PACKAGE, "redaction")
# Read at import: after an upgrade a process that still runs has the old rules. A package may have been installed with
# times that mean nothing, so its version counts, too.
_CODE = _states(os.path.join(_RULES, name) for name in os.listdir(_RULES) if name.endswith(".py"))


def rules_stamp(environ: Mapping[str, str]) -> str:
    """A stamp that changes with the rules' modules, each helix.toml that may be read, and the variables."""
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "~"), ".config")
    files = [os.path.join(folder, "helix.toml") for folder in (os.path.dirname(_PACKAGE), f"{config}/helix_assets")]
    if named := environ.get("HELIX_CONFIG"):
        files.append(os.path.expanduser(named))
    variables = sorted(item for item in environ.items() if item[0].startswith("HELIX_REDACTION_"))
    return blake2b(repr((__version__, _CODE, _contents(files), variables)).encode(), digest_size=12).hexdigest()
