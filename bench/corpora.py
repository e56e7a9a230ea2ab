"""The homes that are measured on, made by the project's own generator: the same arguments give the same bytes.

python -m bench.corpora NAME FOLDER [SEED] [SCALE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

from helix_assets.demo import append, make_home

_SMALL_FILES = 12_000
_YEARS_FILES, _YEARS_DAYS = 12_862, 3 * 365
_SMALL_BYTES = (2_000, 12_000)


def claude(out: Path, seed: int, scale: float) -> None:
    """Claude Code alone: about 200 MB, half the files below 34 kB, one of 30 MB."""
    make_home(out, seed=seed, megabytes=200 * scale, agents=("claude",))


def mixed(out: Path, seed: int, scale: float) -> None:
    """All three agents: about 200 MB."""
    make_home(out, seed=seed, megabytes=200 * scale)


def small(out: Path, seed: int, scale: float) -> None:
    """12,000 small files of Claude Code."""
    rng = Random(seed)
    sizes = [rng.randint(*_SMALL_BYTES) for _ in range(int(_SMALL_FILES * scale))]
    make_home(out, seed=seed, sizes=sizes, days=365, agents=("claude",))


def years(out: Path, seed: int, scale: float) -> None:
    """12,862 small files of Claude Code over three years of days."""
    rng = Random(seed)
    sizes = [rng.randint(*_SMALL_BYTES) for _ in range(int(_YEARS_FILES * scale))]
    make_home(out, seed=seed, sizes=sizes, days=_YEARS_DAYS, agents=("claude",))


def large(out: Path, seed: int, scale: float) -> None:
    """One session of 500 MB."""
    make_home(out, seed=seed, sizes=[int(500e6 * scale)], agents=("claude",))


CORPORA: dict[str, Callable[[Path, int, float], None]] = {
    "claude": claude,
    "mixed": mixed,
    "small": small,
    "years": years,
    "large": large,
}

if __name__ == "__main__":
    if sys.argv[1] == "make":
        name, out, seed, scale = sys.argv[2:]
        CORPORA[name](Path(out), int(seed), float(scale))
    else:
        append(Path(sys.argv[2]), seed=int(sys.argv[3]))
