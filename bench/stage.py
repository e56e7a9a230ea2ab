"""Where a run of the bench happens: its folder, corpora made when first asked for, and state that goes afterwards."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Bench:
    """One run: where it works, how often it repeats, whom it can compare with."""

    folder: Path
    rounds: int
    seed: int
    scale: float
    agentsview: str | None
    counters: dict[str, dict[str, Any]]

    def corpus(self, name: str) -> Path:
        """The home of that name, made in a process of its own when first asked for."""
        home = self.folder / "corpora" / name
        if not home.exists():
            note(f"making the {name} corpus")
            arguments = ["make", name, str(home), str(self.seed), str(self.scale)]
            subprocess.run([sys.executable, "-m", "bench.corpora", *arguments], check=True)
        return home

    @contextmanager
    def fresh(self, name: str) -> Iterator[Path]:
        """A state folder that does not exist yet, and no more afterwards."""
        state = self.folder / "state" / name
        shutil.rmtree(state, ignore_errors=True)
        state.parent.mkdir(parents=True, exist_ok=True)
        yield state
        shutil.rmtree(state, ignore_errors=True)


def note(text: str) -> None:
    """Say on stderr what goes on."""
    print(text, file=sys.stderr, flush=True)
