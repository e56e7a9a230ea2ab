"""Outcomes against labels: ours and, from the same rows, those of a peer's published rules.

    python -m bench.outcomes [--corpus FOLDER] [--generated FOLDER ...]

`--corpus` holds the real sessions whose labels the project keeps, `--generated` a home of the reference generator with
its truth.json. The hand-made sessions are always measured. Everything is swept into a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from helix_assets.ask.reading import open_session
from helix_assets.derive.outcome.closing import is_automated
from helix_assets.model.digest_text import whole_digest
from helix_assets.model.event import EventKind, Row
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.outcomes.all_sessions import HAND_MADE
from helix_assets_tests.outcomes.writers import uid, write

CLASSES = ("success", "fail", "abandoned", "unknown")
LABELS = Path(__file__).parents[1] / "helix_assets_tests" / "fixtures" / "outcomes" / "real_labels.json"
MARGIN = 0.10
"""By how much our macro-F1 must be above the peer's over the combined set."""
AGREEMENT = 0.95
_Z = 1.96
_STREAK = 3
_INTERRUPTED = "[Request interrupted"


class Judged(NamedTuple):
    """One session's outcome by our rules, with the rule, and by the peer's."""

    ours: str
    reason: str
    peers: str


def judged(home: Path, folder: Path) -> dict[str, Judged]:
    """Every session of a home, swept into `folder`."""
    folder.mkdir(parents=True)
    environ = {
        "HOME": str(folder / "empty"),
        "HELIX_DATA_DIR": str(folder / "data"),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CODEX_HOME": str(home / "codex"),
        "GROK_HOME": str(home / "grok"),
    }
    store = open_store(load_settings(environ))
    sweep(store)
    with store.catalog.reading() as connection:
        known = connection.tuples("SELECT session_uid, digest FROM sessions LEFT JOIN digests USING (session_uid)")
    found = {}
    for each, text in known:
        digest = whole_digest(text) if text else None
        with open_session(store, each) as session:
            peers = peer_outcome(list(session.rows(raw=False)))
        found[each] = (
            Judged(digest.outcome, digest.outcome_reason, peers) if digest else Judged("unknown", "none", peers)
        )
    store.close()
    return found


def peer_outcome(rows: Sequence[Row]) -> str:
    """agentsview's rules as its documents state them; its errored is our fail, its completed our success.

    Its rule for sessions active in the last ten minutes is left out: none of these is.
    """
    main = [row for row in rows if row.kind and not row.is_sidechain]
    said = [row for row in main if _speaker(row)]
    prompts = [row for row in main if row.kind == EventKind.USER_MSG]
    if prompts and is_automated(prompts[0].summary or ""):
        return "unknown"
    replies = [row.summary or "" for row in main if row.kind == EventKind.ASSISTANT_MSG]
    if replies and replies[-1].lower().startswith("api error:"):
        return "fail"
    count = len({row.message_id or row.seq for row in said})
    ends_on_agent = bool(said) and _speaker(said[-1]) == "agent"
    if count == 2 and ends_on_agent:
        return "success"
    if count < 3:
        return "unknown"
    if not ends_on_agent:
        return "abandoned"
    results = [row.status for row in main if row.kind == EventKind.TOOL_RESULT]
    failed = len(results) >= _STREAK and all(status == "error" for status in results[-_STREAK:])
    return "fail" if failed else "success"


def _speaker(row: Row) -> str | None:
    """Whose message the row is part of. An interrupt counts as a person's message if the log writes it as one."""
    if row.kind in (EventKind.ASSISTANT_MSG, EventKind.TOOL_CALL):
        return "agent"
    is_interrupt = row.kind == EventKind.HUMAN_INTERVENTION and (row.summary or "").startswith(_INTERRUPTED)
    return "person" if row.kind == EventKind.USER_MSG or is_interrupt else None


class Score(NamedTuple):
    """How outcomes agree with labels; `cells` counts (label, outcome)."""

    cells: Counter[tuple[str, str]]

    @property
    def accuracy(self) -> float:
        return sum(self.cells[name, name] for name in CLASSES) / max(1, self.cells.total())

    def recall(self, name: str) -> tuple[int, int]:
        """How many of a class were found, of how many."""
        return self.cells[name, name], sum(self.cells[name, other] for other in CLASSES)

    @property
    def macro_f1(self) -> float:
        """The mean of F1 over the classes that have a label."""
        present = [name for name in CLASSES if self.recall(name)[1]]
        return sum(self._f1(name) for name in present) / max(1, len(present))

    def _f1(self, name: str) -> float:
        found, labelled = self.recall(name)
        called = sum(self.cells[other, name] for other in CLASSES)
        return 2 * found / (labelled + called) if labelled + called else 0.0


def score(labels: Mapping[str, str], outcomes: Mapping[str, str]) -> Score:
    """Outcomes against labels; a session without an outcome is unknown."""
    return Score(Counter((label, outcomes.get(each, "unknown")) for each, label in labels.items()))


def wilson(found: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not of:
        return 0.0, 1.0
    share, spread = found / of, _Z * _Z / of
    middle = share + spread / 2
    half = _Z * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return (middle - half) / (1 + spread), (middle + half) / (1 + spread)


def show(title: str, labels: Mapping[str, str], found: Mapping[str, Judged]) -> tuple[float, float]:
    """Print both scores over one set; the macro-F1 of ours and of the peer's."""
    print(f"\n## {title}: {len(labels)} sessions\n")
    totals = []
    for name, field in (("ours", "ours"), ("agentsview's rules", "peers")):
        result = score(labels, {each: getattr(verdict, field) for each, verdict in found.items()})
        totals.append(result.macro_f1)
        print(f"{name}: accuracy {result.accuracy:.3f}, macro-F1 {result.macro_f1:.3f}")
        print(f"  {'label':<10}" + "".join(f"{column:>11}" for column in CLASSES) + "    recall (95 %)")
        for label in CLASSES:
            right, of = result.recall(label)
            if of:
                low, high = wilson(right, of)
                cells = "".join(f"{result.cells[label, column]:>11}" for column in CLASSES)
                print(f"  {label:<10}{cells}    {right / of:.2f} ({low:.2f}-{high:.2f})")
        print()
    for each in sorted(labels):
        verdict = found.get(each)
        if verdict is None or verdict.ours != labels[each]:
            print(f"  {each}: label {labels[each]}, ours {verdict.ours if verdict else 'none'}"
                  f" by {verdict.reason if verdict else '-'}")  # fmt: skip
    return totals[0], totals[1]


def measure(options: argparse.Namespace, folder: Path) -> bool:
    """Measure what was asked for. Returns whether all bars are reached."""
    home = folder / "hand-made"
    for session in HAND_MADE:
        write(session, home)
    made = {uid(session): session.label for session in HAND_MADE}
    found = judged(home, folder / "made")
    show("hand-made", made, found)
    good = True
    if options.corpus:
        found |= judged(options.corpus, folder / "real")
        readers = json.loads(LABELS.read_text("utf-8"))["readers"]
        agreed = {each: label["a"] for each, label in readers.items() if label["a"] == label["b"]}
        for reader in ("a", "b"):
            show(f"real, reader {reader}", {each: label[reader] for each, label in readers.items()}, found)
        ours, peers = show("real, readers agreeing", agreed, found)
        good &= ours >= peers
        ours, peers = show("combined", agreed | made, found)
        good &= ours - peers >= MARGIN
        print(f"\ncombined macro-F1: {ours:.3f}, {ours - peers:+.3f} over agentsview's rules (bar {MARGIN:+.2f})")
    for number, generated in enumerate(options.generated):
        good &= _agrees(generated, folder / f"generated-{number}")
    return good


def _agrees(home: Path, folder: Path) -> bool:
    planted = {
        each["session_uid"]: each["outcome"] for each in json.loads((home / "truth.json").read_bytes())["sessions"]
    }
    found = judged(home, folder)
    wrong = [each for each, outcome in planted.items() if each not in found or found[each].ours != outcome]
    share = 1 - len(wrong) / max(1, len(planted))
    print(f"\n{home.name}: {share:.4f} of {len(planted)} planted outcomes (bar {AGREEMENT})")
    for each in wrong:
        print(f"  {each}: planted {planted[each]}, ours {found[each].ours if each in found else 'none'}"
              f" by {found[each].reason if each in found else '-'}")  # fmt: skip
    return share >= AGREEMENT


def main() -> int:
    """Measure and report; 0 when every bar is reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--generated", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    os.umask(0o077)
    with tempfile.TemporaryDirectory(prefix="helix-outcomes-") as folder:
        return int(not measure(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
