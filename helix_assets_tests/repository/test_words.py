"""Plain words in the package: the verb that is meant, and one word for one thing."""

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "helix_assets"
# Contains, reports; again; next to, in addition to; a skipped file, a failed session, a before-restore folder.
STUMBLES = re.compile(r"(?<![a-z])(?:tells|told|telling|anew|beside|set[ _]aside)(?![a-z])", re.IGNORECASE)
# Names that stores, exports and JSON contain stay.
KEPT = {
    "agents/codex/tokens.py": ('"told"',),
    "derive/outcome/ending.py": ('"nothing_tells"',),
    "cli/restore.py": ('"files_set_aside"',),
    "prove/drift.py": ('"(not told)"',),
    "prove/promises.py": ('"set_aside"',),
    "redaction/finder.py": ('check == "told"',),
    "store/catalog/connection.py": ('"told"',),
    "store/catalog/ledger.py": ('"told": keys', "row.told", '"told": left', "id, told FROM", "session_id, told FROM"),
    "store/catalog/schema.py": ("told JSON",),
}
# The text of a rule is part of the redaction version.
DATA = {"redaction/rules.py"}

TEXTS = {
    name: path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
    if (name := path.relative_to(PACKAGE).as_posix()) not in DATA
}


def stumbling_lines(name: str, text: str) -> list[str]:
    for kept in KEPT.get(name, ()):
        text = text.replace(kept, "")
    return [f"{name}:{n}: {line.strip()}" for n, line in enumerate(text.split("\n"), 1) if STUMBLES.search(line)]


def test_the_package_says_what_it_means() -> None:
    assert [line for name, text in TEXTS.items() for line in stumbling_lines(name, text)] == []


def test_every_name_that_is_kept_is_still_there() -> None:
    assert [kept for name, names in KEPT.items() for kept in names if kept not in TEXTS[name]] == []
