"""Plans a sample home: how many sessions of which agent, how large, on which days.

Belongs here: sizes, dates, the mix of agents and what surrounds the sessions. Not here: what a session says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date, timedelta
from itertools import count, cycle
from pathlib import Path
from random import Random

from helix_assets.demo.bait import write_credentials
from helix_assets.demo.claude import ClaudeScribe
from helix_assets.demo.codex import CodexScribe
from helix_assets.demo.grok import GrokScribe
from helix_assets.demo.private import private_folder
from helix_assets.demo.scenery import REPOS
from helix_assets.demo.scribe import Desk
from helix_assets.demo.story import skewed
from helix_assets.demo.truth import Truth
from helix_assets.model.errors import StopRun

WRITERS: dict[str, type[ClaudeScribe | CodexScribe | GrokScribe]] = {
    "claude": ClaudeScribe,
    "codex": CodexScribe,
    "grok": GrokScribe,
}
_ROTA = ("claude", "codex", "grok", "claude", "claude", "codex", "claude", "claude", "codex", "claude")
LAST_DAY = date(2026, 1, 31)
_HOUR_MS = 3_600_000
_MEDIAN_BYTES = 34_000
_LEAST_BYTES = 4_000
_OUTLIER_FROM_BYTES = 50_000_000


def make_home(  # noqa: PLR0913 - independent options, all with a default and named at the call
    out: Path,
    *,
    seed: int = 1,
    sessions: int = 60,
    megabytes: float | None = None,
    sizes: Sequence[int] = (),
    days: int = 30,
    today: date = LAST_DAY,
    agents: Collection[str] = ("claude", "codex", "grok"),
    dirty: bool = True,
) -> Truth:
    """Write a sample home below `out` and return what was planted, which is also in `out/truth.json`.

    The same arguments give the same bytes on any machine. `megabytes` (of JSON lines) sets the size instead of the
    number of sessions, `sizes` the bytes of each one. Subagents with a rollout of their own are not counted in the
    number. `dirty` adds broken, blank and torn lines.
    """
    _prepare(out, agents)
    write_credentials(out, Random(f"{seed} credentials"), _midnight_ms(today - timedelta(days=days)))
    truth = Truth(seed)
    wanted_bytes = None if megabytes is None else int(megabytes * 1_000_000)
    rota = cycle([agent for agent in _ROTA if agent in agents])
    for number, target in enumerate(sizes or _targets(truth, sessions, wanted_bytes)):
        desk = Desk(out, truth, Random(f"{seed} {number}"), dirty=dirty)
        start_ms = _start(desk.rng, days, today)
        may_resume = not sizes and (wanted_bytes is not None or sessions > number + 1)
        _write_session(desk, next(rota), start_ms, target, may_resume=may_resume)
    truth.write(out / "truth.json")
    return truth


def _prepare(out: Path, agents: Collection[str]) -> None:
    unknown = sorted(set(agents) - set(_ROTA))
    if unknown or not agents:
        raise StopRun(f"no such agent: {', '.join(unknown) or 'none given'}; choose from claude, codex, grok")
    if out.exists() and any(out.iterdir()):
        raise StopRun(f"{out} is not empty: name a new folder for the sample home, or empty this one")
    for agent in ("claude", "codex", "grok"):
        private_folder(out / agent)


def _targets(truth: Truth, sessions: int, wanted_bytes: int | None) -> Iterator[int]:
    """Yield the size of each next session until the home is as large as asked for."""
    for number in count():
        size = max(_LEAST_BYTES, skewed(Random(f"{truth.seed} size {number}"), _MEDIAN_BYTES))
        if wanted_bytes is None:
            if sum(row.parent_uid is None for row in truth.sessions.values()) >= sessions:
                return
            yield size
            continue
        left = max(wanted_bytes - truth.jsonl_bytes, 0 if number else _LEAST_BYTES)  # never an empty home
        if left < _LEAST_BYTES:
            return
        is_outlier = number == 0 and wanted_bytes > _OUTLIER_FROM_BYTES
        yield wanted_bytes * 15 // 100 if is_outlier else min(size, left)


def _start(rng: Random, days: int, today: date) -> int:
    """Choose a time in the working hours of one of the last days."""
    return _midnight_ms(today - timedelta(days=rng.randrange(days))) + rng.randrange(6 * _HOUR_MS, 17 * _HOUR_MS)


def _midnight_ms(day: date) -> int:
    return (day - date(1970, 1, 1)).days * 24 * _HOUR_MS


def _write_session(desk: Desk, agent: str, start_ms: int, target: int, *, may_resume: bool) -> None:
    repo = desk.rng.choice(REPOS)
    scribe = WRITERS[agent](desk, repo, start_ms)
    scribe.write(target)
    if isinstance(scribe, ClaudeScribe) and scribe.is_resumable and may_resume and desk.rng.random() < 0.08:
        sequel = ClaudeScribe(desk, repo, scribe.now + desk.rng.randrange(600_000, 9_000_000))
        sequel.continue_from(scribe)
        sequel.write(sequel.size + skewed(desk.rng, 20_000))
