"""How many of the patterns that are found are good ones, against labels.

python -m bench.patterns [--corpus FOLDER]

Two samples: the hand-made groups of texts, through all of `derive.patterns`; and with `--corpus`, a folder with the
real sessions whose labels the project keeps, every distinct error that counts as specific: it would be a pattern as
soon as three sessions had it. The few real patterns across sessions are listed too.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

from helix_assets.ask.sql import ask
from helix_assets.derive.patterns import find_patterns, sightings, specific_part
from helix_assets.model.fingerprint import fingerprint
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets.sweep.sweep import sweep

FIXTURES = Path(__file__).parents[1] / "helix_assets_tests" / "fixtures" / "patterns"
_Z = 1.96


def interval(good: int, of: int) -> str:
    """A share with its 95 % Wilson interval."""
    share = good / of
    middle = (share + _Z**2 / (2 * of)) / (1 + _Z**2 / of)
    half = _Z * math.sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2)) / (1 + _Z**2 / of)
    return f"{good} of {of}: {share:.2f} (95 %: {middle - half:.2f} to {middle + half:.2f})"


def hand_made() -> tuple[list[str], list[str], list[str]]:
    """Names of groups: found rightly, found wrongly, missed. Every text is a session of its own."""
    right, wrong, missed = [], [], []
    for group in json.loads((FIXTURES / "hand_made.json").read_text(encoding="utf-8")):
        seen = [one for place, text in enumerate(group["texts"]) for one in sightings(_digest(f"s{place}", text))]
        is_found = bool(find_patterns(seen, b"bench", date(2026, 6, 1)))
        if is_found:
            (right if group["is_pattern"] else wrong).append(group["name"])
        elif group["is_pattern"]:
            missed.append(group["name"])
    return right, wrong, missed


def _digest(uid: str, text: str) -> dict[str, Any]:
    line = " ".join(text.split())
    mark = fingerprint(line)
    signal = {"name": "error", "count": 1, "sample": f"other: {mark}", "evidence": ["0a"], "tool": "Bash"}
    snippet = {"fingerprint": mark, "sample": line, "count": 1, "tool": "Bash", "error_class": "other"}
    about = {"session_uid": uid, "repo": "shop", "cwd": "/home/a/shop", "started_at": "2026-06-01T10:00:00.000Z"}
    return about | {"signals": [signal], "error_snippets": [snippet]}


def real(corpus: Path, folder: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Ids of the distinct specific errors of the real sessions, and the patterns across these."""
    homes = {"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "GROK_HOME": "grok"}
    environ = {name: str(corpus / place) for name, place in homes.items()}
    settings = load_settings(environ | {"HOME": str(folder), "HELIX_DATA_DIR": str(folder / "data")})
    with closing(open_store(settings)) as store:
        sweep(store)
        errors = ask(store, "select session_uid, seq, summary from events where kind = 'error' order by all").rows
        found = ask(store, "select kind, sessions, snippet from patterns").rows
    first: dict[str, str] = defaultdict(str)
    for uid, seq, summary in errors:
        mark = specific_part(summary or "")
        if mark is not None:
            first[mark] = first[mark] or f"{uid}#{seq}"
    return sorted(first.values()), found


def main() -> None:
    """Print precision on both samples, with intervals and what the two readers disagree on."""
    parser = argparse.ArgumentParser(prog="python -m bench.patterns", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="the folder with the real sessions that are labelled")
    options = parser.parse_args()
    right, wrong, missed = hand_made()
    print(f"hand-made, precision {interval(len(right), len(right) + len(wrong))}")
    print(f"  found wrongly: {', '.join(wrong) or 'none'}")
    print(f"  recall {interval(len(right), len(right) + len(missed))}; missed: {', '.join(missed) or 'none'}")
    if options.corpus:
        with tempfile.TemporaryDirectory(prefix="helix-bench-") as folder:
            ids, found = real(options.corpus, Path(folder))
        _print_labels(ids)
        print(f"real, patterns in three sessions or more: {len(found)}")
        for kind, sessions, snippet in found:
            print(f"  {kind}, {sessions} sessions: {snippet[:80]}")


def _print_labels(ids: Sequence[str]) -> None:
    labels = {row["id"]: row for row in json.loads((FIXTURES / "real_labels.json").read_text(encoding="utf-8"))}
    known = [labels[one] for one in ids if one in labels]
    for reader in ("a", "b"):
        print(f"real errors, reader {reader}: precision {interval(sum(row[reader] for row in known), len(known))}")
        good = sum(row[reader] for row in labels.values())
        print(f"  of {good} good ones that are labelled {sum(row[reader] for row in known)} are found")
    unlike = [row["id"] for row in known if row["a"] != row["b"]]
    print(f"  the readers disagree on {len(unlike)} of {len(known)}: {', '.join(unlike) or 'none'}")
    if len(known) < len(ids):
        print(f"  {len(ids) - len(known)} are not labelled")


if __name__ == "__main__":
    main()
