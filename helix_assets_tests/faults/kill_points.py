"""Strikes at every changing system call of each phase of a store's life, and looks at the store after each strike.

    python -m helix_assets_tests.faults.kill_points [--sessions 1] [--error EIO] [--stays] [--kinds] [PHASE...]

What must hold right after the strike and again after a run that is left alone: `prove.verify` finds nothing; the
export is for each session that of before or of after, never something between; and in the end it is that of an
undisturbed run.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import click
import orjson

from helix_assets.ask.reports.all_reports import make_report
from helix_assets.keep import evict
from helix_assets.keep.backup import copies, make_copy, wrong_in_copy
from helix_assets.keep.forget import forget
from helix_assets.keep.report_files import write_report
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.keep.writing import writing
from helix_assets.model.errors import HelixError, WithheldError
from helix_assets.prove.verify import verify
from helix_assets.store import fact_merge
from helix_assets.store.catalog import live_files, meta
from helix_assets.sweep import plan
from helix_assets.sweep.in_thread import look
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.faults.injection import Fault, run, turning_points
from helix_assets_tests.home import Memory, conversation, prompt

REPORT = "test_report"
Action = Callable[[Memory], object]


@dataclass(frozen=True)
class Phase:
    """A part of a store's life: what was there before, and what is done to it under fire."""

    before: tuple[Action, ...]
    under_fire: Action
    rules: str | None = None
    """New redaction rules under fire. Until all is redacted by them, readers may withhold sessions."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The settings under fire and after it."""
        return {"HELIX_REDACTION_RULES": self.rules} if self.rules else {}


@dataclass
class Tally:
    """Strikes made and promises broken."""

    strikes: int = 0
    broken: list[str] = field(default_factory=list)


def _write(sessions: int, memory: Memory) -> None:
    for number in range(sessions):
        memory.write(f"session-{number}", *conversation(3, session=f"s{number}-"))


def _grow(sessions: int, memory: Memory) -> None:
    for number in range(sessions):
        memory.write(f"session-{number}", *conversation(2, start=3, session=f"s{number}-"), append=True)


def _begin_anew(sessions: int, memory: Memory) -> None:
    for number in range(sessions):
        memory.write(f"session-{number}", *conversation(2, start=3, session=f"s{number}-"))


def _rewrite(sessions: int, memory: Memory) -> None:
    for number in range(sessions):
        memory.write(
            f"session-{number}", prompt(f"n{number}", "09:00:00", "earlier"), *conversation(4, session=f"s{number}-")
        )


def _sweep(memory: Memory) -> None:
    report = memory.sweep()
    if report.sessions_failed:
        raise RuntimeError("a session failed")


def _take_in(memory: Memory) -> None:
    """As a server's thread does, and as the sweep that gets what it leaves, such as what it was killed with."""
    news = look(memory.store, memory.now)
    if sweep(memory.store, clock=lambda: memory.now, small=news).sessions_failed:
        raise RuntimeError("a session failed")
    if news.left:
        _sweep(memory)


def _grow_more(sessions: int, memory: Memory) -> None:
    for number in range(sessions):
        memory.write(f"session-{number}", *conversation(1, start=5, session=f"s{number}-"), append=True)


def _sweep_and_fold(memory: Memory) -> None:
    """A sweep that keeps recent facts apart and folds parts, where so little of them is much."""
    with mock.patch.object(plan, "MAX_SMALL_PARTS", 2), mock.patch.object(fact_merge, "SETTLED_BYTES", 1):
        _sweep(memory)


def _evict(memory: Memory) -> None:
    caps = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=1 << 40, max_age_days=45, distilled_cap_bytes=1 << 40)
    evict.apply(memory.store, clock=lambda: memory.now, policy=caps)


def _overflow(memory: Memory) -> None:
    caps = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=45, distilled_cap_bytes=1 << 40)
    evict.apply(memory.store, clock=lambda: memory.now, policy=caps, analyze=lambda: None)


def _lighten(memory: Memory) -> None:
    """Under nine tenths of what is there at first; who takes this up again is held to the same cap."""
    told = memory.folder / "cap"
    if not told.exists():
        told.write_text(str(memory.raw_usage() * 9 // 10))
    caps = RetentionPolicy(
        soft_cap_bytes=int(told.read_text()), hard_cap_bytes=1 << 40, max_age_days=45, distilled_cap_bytes=1 << 40
    )
    evict.apply(memory.store, clock=lambda: memory.now, policy=caps)


def _copy(memory: Memory) -> None:
    with writing(memory.store, "backup"):
        make_copy(memory.store, memory.now)


def _report(memory: Memory) -> None:
    write_report(memory.store, REPORT, lambda: make_report(memory.store, REPORT))


def _forget(memory: Memory) -> None:
    with memory.store.catalog.reading() as connection:
        uids = set(connection.column("SELECT session_uid FROM sessions"))
    forget(memory.store, uids, now=memory.now)


def _downgrade(memory: Memory) -> None:
    """Back to the first version: tables of later ones that are empty go, and pages are given back by no step."""
    with memory.store.catalog.writing() as connection:
        for table in ("forgotten", "retries"):
            connection.execute(f"DROP TABLE {table}")
        meta.put(connection, "catalog_version", "1")


def _open(_: Memory) -> None:
    """Opening is all it takes: it upgrades."""


def _uncover(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("DELETE FROM digests")
        files = live_files.fact_files(connection)  # what was never derived has no facts either
        live_files.put_fact_files(connection, [], files)
        connection.execute(
            "UPDATE sessions SET derived_generation = NULL, analyzed_at = NULL, analyze_order = NULL, "
            "failure = 'made up', failures = 1, retry_at = '2999-01-01T00:00:00.000Z'"
        )
    for file in files:
        memory.store.facts.remove(file.name)


def _outdate(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET parser_version = -1")


def phases(count: int) -> dict[str, Phase]:
    """Every phase by name."""
    write, grow, rewrite = (partial(step, count) for step in (_write, _grow, _rewrite))
    return {
        "first-start": Phase((write,), _sweep),
        "append": Phase((write, _sweep, grow), _sweep),
        "small-news": Phase((write, _sweep, grow), _take_in),
        "fold": Phase((write, _sweep_and_fold, grow, _sweep_and_fold, partial(_grow_more, count)), _sweep_and_fold),
        "rewrite": Phase((write, _sweep, rewrite), _sweep),
        "derive-again": Phase((write, _sweep, _outdate), _sweep),
        "evict": Phase((write, _sweep), _evict),
        "grow-after-eviction": Phase((write, _sweep, _evict, grow), _sweep),
        "overflow": Phase((write, _sweep, _uncover), _overflow),
        "drop-texts": Phase((write, _sweep), _lighten),
        "grow-without-texts": Phase((write, _sweep, _lighten, grow), _sweep),
        "merge": Phase((write, _sweep, _evict, partial(_begin_anew, count)), _sweep),
        "migration": Phase((write, _sweep, _downgrade), _open),
        "backup": Phase((write, _sweep), _copy),
        "report": Phase((write, _sweep, _report), _report),
        "forget": Phase((write, _sweep, _report), _forget),
        "new-rules": Phase((write, _sweep), _sweep, "[{name = 'steps', pattern = 'do step [0-9]'}]"),
    }


def strike_all(
    phase: Phase, *, error: str | None = None, stays: bool = False, every: int = 1, kinds: bool = False
) -> Tally:
    """Strike at every changing call of the phase (every so many, or every kind of them), one run for each."""
    with tempfile.TemporaryDirectory() as scratch:
        ground = _Ground(Path(scratch), phase)
        numbers = ground.turning_points() if kinds else itertools.count(1)
        for number in itertools.islice(numbers, 0, None, every):
            if not ground.strike(Fault(number, error, stays)):
                break
        return ground.tally


class _Ground:
    """The logs and the store of a phase, and what its export is before and after."""

    def __init__(self, scratch: Path, phase: Phase) -> None:
        self._folder, self._start, self._phase = scratch / "work", scratch / "start", phase
        self.tally = Tally()
        _prepare(self._folder, phase)
        if (self._folder / "data").exists():
            shutil.copytree(self._folder / "data", self._start)  # before the export, which upgrades
        self._before = _exported(self._folder)
        self._do = partial(_do, self._folder, phase.under_fire, phase.environ)
        self._do()
        self._after = _exported(self._folder, phase.environ)

    def turning_points(self) -> list[int]:
        """The calls to strike at for one of each kind."""
        self._reset()
        return turning_points(self._do)

    def strike(self, fault: Fault) -> bool:
        """One strike and what comes of it; False when the phase was through before it."""
        self._reset()
        if not run(self._do, fault).happened:
            return False
        struck = (self._after, b"") if self._phase.rules else (self._before, self._after)
        broken = [f"struck: {what}" for what in _wrong(self._folder, struck, self._phase.environ)]
        try:
            self._do()
        except Exception as exc:  # noqa: BLE001 - the next run must go well, whatever it finds
            broken.append(f"the next run fails with {exc!r}")
        broken += [f"resumed: {what}" for what in _wrong(self._folder, (self._after,), self._phase.environ)]
        self.tally.strikes += 1
        self.tally.broken += [f"call {fault.number}, {what}" for what in broken]
        return True

    def _reset(self) -> None:
        """Put the store back as it was; the logs stay as they are, down to their inodes."""
        shutil.rmtree(self._folder / "data", ignore_errors=True)
        if self._start.exists():
            shutil.copytree(self._start, self._folder / "data")


def _prepare(folder: Path, phase: Phase) -> None:
    """What went before; a phase with one step meets a folder that no store was ever opened in."""
    for number, step in enumerate(phase.before):
        if number:
            _do(folder, step)
        else:
            memory = Memory.__new__(Memory)
            memory.folder = folder
            step(memory)


def _do(folder: Path, action: Action, environ: Mapping[str, str] | None = None) -> None:
    memory = Memory(folder, environ or {})
    action(memory)
    memory.close()


def _exported(folder: Path, environ: Mapping[str, str] | None = None) -> bytes:
    if not (folder / "data" / "helix.db").exists():
        return b""
    memory = Memory(folder, environ or {})
    try:
        return memory.exported()
    finally:
        memory.close()


def _wrong(folder: Path, right: tuple[bytes, ...], environ: Mapping[str, str]) -> list[str]:
    """What is wrong with the store: each violation, and an export that is none of the right ones."""
    if not (folder / "data" / "helix.db").exists():
        return [] if b"" in right else ["the store is gone"]
    memory = Memory(folder, environ)
    try:
        wrong = [f"{v.check}: {v.what} {v.path or ''}" for v in verify(memory.store)]
        root = memory.store.settings.backup_dir
        wrong += [what for copy in copies(memory.store.settings) for what in wrong_in_copy(root / copy.generation)]
        wrong += _wrong_reports(memory)
        return [*wrong, *_neither(memory.exported(), right)]
    except WithheldError as exc:
        return [] if b"" in right else [str(exc)]
    except HelixError as exc:
        return [str(exc)]
    finally:
        memory.close()


def _neither(exported: bytes, right: tuple[bytes, ...]) -> list[str]:
    """Sessions of which the export is none of the right ones."""
    found, *rest = (_by_session(one) for one in (exported, *right))
    uids = sorted({uid for one in (found, *rest) for uid in one})
    return [f"the export of {uid} is none of the right ones" for uid in uids
            if found.get(uid) not in [one.get(uid) for one in rest]]  # fmt: skip


def _by_session(exported: bytes) -> dict[str, list[bytes]]:
    lines: dict[str, list[bytes]] = {}
    for line in exported.splitlines():
        lines.setdefault(orjson.loads(line)["session_uid"], []).append(line)
    return lines


def _wrong_reports(memory: Memory) -> list[str]:
    """A report that is there is whole, and tells of no session that is forgotten to the end."""
    folders = [path for path in (memory.store.data_dir / "reports").glob("*") if not path.name.startswith(".")]
    wrong = [f"{path.name} is torn" for path in folders if not (path / f"{path.name}.md").is_file()]
    with memory.store.catalog.reading() as connection:
        told = connection.value("SELECT count(*) FROM sessions")
        left = connection.value("SELECT count(*) FROM forgotten WHERE unfinished IS NOT NULL")
    return [*wrong, "what is forgotten is reported"] if folders and not told and not left else wrong


@click.command()
@click.argument("names", nargs=-1, metavar="PHASE...")
@click.option("--sessions", "count", default=1, help="Sessions in the store.")
@click.option("--error", help="Fail the call with this errno (EIO, ENOSPC, EDQUOT) instead of killing.")
@click.option("--stays", is_flag=True, help="Let all later calls fail too, as on a full disk.")
@click.option("--every", default=1, help="Strike at every so many calls.")
@click.option("--kinds", is_flag=True, help="Leave out the middle of a row of equal calls on one file.")
def main(names: tuple[str, ...], count: int, error: str | None, **how: Any) -> None:
    """Strike at every changing system call; exit code 1 when a promise breaks."""
    broken = 0
    for name, phase in phases(count).items():
        if names and name not in names:
            continue
        begin = time.monotonic()
        tally = strike_all(phase, error=error, **how)
        broken += len(tally.broken)
        click.echo(f"{name}: {tally.strikes} strikes, {len(tally.broken)} broken, {time.monotonic() - begin:.0f} s")
        for line in tally.broken[:20]:
            click.echo(f"  {line}")
    raise SystemExit(bool(broken))


if __name__ == "__main__":
    main()
