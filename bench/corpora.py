"""The homes to measure on, made by the project's own generator: the same arguments give the same bytes.

python -m bench.corpora make NAME FOLDER SEED SCALE
python -m bench.corpora append FOLDER SEED          1 % of the sessions gain a turn
python -m bench.corpora line FOLDER SEED            one log gains a line
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from random import Random

from helix_assets.demo import append, make_home
from helix_assets.model.time import FIRST_DAY

_SMALL_FILES = 12_862
_YEARS_LAST = date(2026, 11, 15)
_SMALL_BYTES = (2_000, 12_000)
LONG_MB = (1, 8, 64)


def claude(out: Path, seed: int, scale: float) -> None:
    """Claude Code alone: about 200 MB, half the files below 34 kB, one of 30 MB."""
    make_home(out, seed=seed, megabytes=200 * scale, agents=("claude",))


def mixed(out: Path, seed: int, scale: float) -> None:
    """All three agents: about 200 MB."""
    make_home(out, seed=seed, megabytes=200 * scale)


def huge(out: Path, seed: int, scale: float) -> None:
    """All three agents: about 2 GB."""
    make_home(out, seed=seed, megabytes=2000 * scale)


def small(out: Path, seed: int, scale: float) -> None:
    """12,862 small files of Claude Code."""
    rng = Random(seed)
    sizes = [rng.randint(*_SMALL_BYTES) for _ in range(int(_SMALL_FILES * scale))]
    make_home(out, seed=seed, sizes=sizes, days=365, agents=("claude",))


def years(out: Path, seed: int, scale: float) -> None:
    """12,862 small files of Claude Code over all days that have a partition, near three years of them."""
    rng = Random(seed)
    sizes = [rng.randint(*_SMALL_BYTES) for _ in range(int(_SMALL_FILES * scale))]
    days = (_YEARS_LAST - FIRST_DAY).days
    make_home(out, seed=seed, sizes=sizes, days=days, today=_YEARS_LAST, agents=("claude",))


def store(sessions: int, out: Path, seed: int, scale: float) -> None:
    """So many small sessions of Claude Code."""
    rng = Random(seed)
    sizes = [rng.randint(*_SMALL_BYTES) for _ in range(max(10, int(sessions * scale)))]
    make_home(out, seed=seed, sizes=sizes, days=365, agents=("claude",))


def long(megabytes: int, out: Path, seed: int, scale: float) -> None:
    """One session of so many megabytes."""
    make_home(out, seed=seed, sizes=[int(megabytes * 1e6 * scale)], agents=("claude",))


def append_line(home: Path, seed: int) -> None:
    """One more prompt in one log of Claude Code that ends with a whole line."""
    rng = Random(f"{seed} {time.time_ns()}")
    logs = sorted(path for path in (home / "claude").rglob("*.jsonl") if not path.name.startswith("agent-"))
    while True:
        path = rng.choice(logs)
        lines = path.read_bytes().splitlines(keepends=True)
        try:
            last = [record for line in lines[-20:] if (record := json.loads(line)).get("uuid")][-1]
        except (ValueError, IndexError):
            continue  # it ends in the middle of a line, or its last lines are not records
        if lines[-1].endswith(b"\n"):
            break
    fresh = {name: last[name] for name in ("cwd", "sessionId", "version", "timestamp", "gitBranch") if name in last}
    fresh |= {"type": "user", "uuid": str(uuid.UUID(int=rng.getrandbits(128))), "parentUuid": last["uuid"]}
    fresh["message"] = {"role": "user", "content": "and now the rest of it"}
    with path.open("a") as file:
        file.write(json.dumps(fresh) + "\n")


def large(out: Path, seed: int, scale: float) -> None:
    """One session of 500 MB."""
    make_home(out, seed=seed, sizes=[int(500e6 * scale)], agents=("claude",))


CORPORA: dict[str, Callable[[Path, int, float], None]] = {
    "claude": claude,
    "mixed": mixed,
    "huge": huge,
    "small": small,
    "years": years,
    "large": large,
    "long": partial(long, 50),
    **{f"long-{megabytes}": partial(long, megabytes) for megabytes in LONG_MB},
    **{f"store-{sessions}": partial(store, sessions) for sessions in (100, 1_000, 10_000)},
}

if __name__ == "__main__":
    if sys.argv[1] == "make":
        name, out, seed, scale = sys.argv[2:]
        CORPORA[name](Path(out), int(seed), float(scale))
    elif sys.argv[1] == "line":
        append_line(Path(sys.argv[2]), seed=int(sys.argv[3]))
    else:
        append(Path(sys.argv[2]), seed=int(sys.argv[3]))
