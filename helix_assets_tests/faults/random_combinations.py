"""Everything that can happen to a store and its logs, in random order, some of it killed or out of room.

    python -m helix_assets_tests.faults.random_combinations [--seeds 20] [--from 1] [--steps 60]

Logs grow, are torn, copied, cut, moved, packed and deleted; texts and files are evicted, sessions lost, forgotten and
pinned; rules, prices, parser, exclusions, index and clock change; copies are made and put back; deriving fails.
`prove.verify` judges each step, `reckoning` the whole every few steps.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from pathlib import Path
from traceback import format_exception
from unittest import mock

import click

from helix_assets.agents import ADAPTERS
from helix_assets.ask import coverage, status
from helix_assets.derive import digest_builder, link, merge
from helix_assets.hooks.hook import write_note
from helix_assets.hooks.inbox import inbox_of
from helix_assets.keep import evict
from helix_assets.keep.backup import copies, make_copy
from helix_assets.keep.forget import forget
from helix_assets.keep.restore import restore
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.keep.writing import writing
from helix_assets.model.errors import HelixError
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.store import fact_merge
from helix_assets.store.catalog import sessions
from helix_assets.store.catalog.catalog import CATALOG, index_bytes
from helix_assets.store.key import KEY_BYTES
from helix_assets.store.words import hashing
from helix_assets.sweep import commit, plan, pricing, rounds, sweep, workers
from helix_assets.sweep.in_thread import LeftError, look
from helix_assets.sweep.warm import Warm
from helix_assets_tests.faults.moving_logs import PROJECTS, Log, Logs
from helix_assets_tests.faults.reckoning import Books, reckon, sound
from helix_assets_tests.faults.strikes import KILLED, fill_disk, in_child, kill, struck
from helix_assets_tests.home import NOW, Memory, ask
from helix_assets_tests.store.consumer import Consumer

_DERIVING = (commit, rounds, coverage, status)
_RULES = "[{name = 'house-word', pattern = 'quokkaword1234'}]"
_PRICES = ("{}", '{"claude-opus-4-5" = {input = 1.0, output = 2.0}}')
_BOUNDLESS = 1 << 40
Work = Callable[[Memory], object]


@dataclass
class Campaign:
    """One store that goes through it all; `done` tells what, `wrong` what came of it."""

    folder: Path
    seed: int
    done: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._now, self._newer = NOW, 0
        backups = self._random.choice(["off", "daily"])
        self._environ = {"HELIX_BACKUP_SCHEDULE": backups}
        days = [f"2026-06-{self._random.choice([3, 4, 5, 6]):02d}" for _ in range(6)]
        self._logs, self._books = Logs(self.folder / "home", days), Books()
        self._consumer = Consumer(self.folder / "data" / CATALOG)
        self._warm = Warm(sessions=3)
        self._settled, self._parts = self._random.choice([(1, 3), (1 << 10, 6), (8 << 10, 12)])

    def run(self, steps: int) -> None:
        """So many steps, and the reckoning; ends at the first thing that is wrong."""
        moves = [move for move, weight in _MOVES.items() for _ in range(weight)]
        for _ in range(steps):
            self._now += timedelta(minutes=self._random.choice([1, 5, 60, 2 * 24 * 60]))
            move = self._random.choice(moves)
            try:
                move(self)
            except HelixError as exc:
                self.done.append(f"{move.__name__}: {exc}")
            except Exception as exc:  # noqa: BLE001 - whatever it is, it is told
                self.wrong.append(f"{move.__name__}: {''.join(format_exception(exc)[-6:])}")
                return
            self._look(sound)
            if not self.wrong and self._random.random() < 0.12:
                self._reckon()
            if self.wrong:
                return
        self._environ.pop("HELIX_EXCLUDE_PATHS", None)
        self._reckon()

    def _look(self, judge: Callable[..., Iterator[str]]) -> None:
        with self._opened() as memory:
            self.wrong += islice(judge(memory.store), 5)

    def _reckon(self) -> None:
        self.done.append("reckon")
        for _ in range(3):
            self._now += timedelta(days=2)
            with self._opened() as memory:
                memory.sweep()
        with self._opened() as memory:
            self.wrong += islice(reckon(memory, self._logs, self._books), 5)

    @contextmanager
    def _opened(self) -> Iterator[Memory]:
        """The store under the settings and versions in force."""
        key = self.seed.to_bytes(KEY_BYTES, "big")  # so that a seed gives the same files each time
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(secrets, "token_bytes", return_value=key))
            for module in _DERIVING:
                stack.enter_context(mock.patch.object(module, "DIGEST_VERSION", DIGEST_VERSION + self._newer))
            for adapter in (ADAPTERS["claude"], ADAPTERS["codex"]):
                version = adapter.version + self._newer // 2
                stack.enter_context(mock.patch.object(adapter, "version", version))
            stack.enter_context(mock.patch.object(fact_merge, "SETTLED_BYTES", self._settled))
            stack.enter_context(mock.patch.object(plan, "MAX_SMALL_PARTS", self._parts))
            memory = Memory(self.folder, dict(self._environ), self._now)
            stack.callback(memory.close)
            yield memory

    def do(self, what: str, work: Work) -> None:
        """Work on the store: in peace, killed at some step, out of room at one, or beside another process."""
        how = self._random.choices(["", "killed", "full", "beside"], [12, 5, 1, 1])[0]
        number = int(2 ** self._random.uniform(0, 7))
        self.done.append(f"{what} {how and f'{how} at {number}'}".strip())
        if how == "killed":
            code = in_child(lambda: self._struck(work, number, kill))()
            if code not in (0, 1, KILLED):
                self.wrong.append(f"{what} ends with {code}")
        elif how == "full":
            with suppress(OSError, HelixError):
                self._struck(work, number, fill_disk)
        else:
            wait = in_child(lambda: self._struck(Memory.sweep, 0, kill)) if how else None
            try:
                with self._opened() as memory:
                    work(memory)
            finally:
                if wait is not None and wait():
                    self.wrong.append(f"the sweep beside {what} fails")

    def _struck(self, work: Work, number: int, strike: Callable[[str], None]) -> None:
        with self._opened() as memory, struck(number, strike):
            work(memory)

    def _log(self, *, of: str = "") -> Log:
        return self._random.choice([log for log in self._logs.all if log.uid.startswith(of)])

    def _there(self, *, of: str = "") -> Log | None:
        found = [log for log in self._logs.on_disk() if log.uid.startswith(of) and log.records]
        return self._random.choice(found) if found else None

    # -- what happens to logs ----------------------------------------------------------------------------------------

    def grow(self) -> None:
        log, turns = self._log(), self._random.randint(1, 3)
        large, leave = self._random.choice([1, 300]), self._random.choice([0, 0, 0, self._random.randint(2, 400)])
        if log.is_whole or log.content:
            self._logs.grow(log, turns, large=large, leave=leave)
            self.done.append(f"grow {log.tag} {turns}{' torn' if leave else ''}")

    def resume(self) -> None:
        source, target = self._there(of="claude"), self._log(of="claude")
        if source and "f" not in (source.tag, target.tag) and source.uid != target.uid and target.is_whole:
            records = self._random.randint(1, len(source.records))
            self._logs.resume(source, target, records)
            self.done.append(f"resume {source.tag} as {target.tag} with {records}")

    def disturb(self) -> None:
        log = self._there()
        if log is None:
            return
        how = self._random.choice(["delete", "cut", "copy_in_place", "move", "pack"])
        if how == "move" and log.tag in "abcde":
            here = log.place.startswith(PROJECTS[0])
            self._logs.move(log, log.place.replace(PROJECTS[not here], PROJECTS[here]))
        elif how == "pack" and log.uid.startswith("codex") and not log.place.endswith(".zst"):
            self._logs.pack(log)
        elif how in ("delete", "cut", "copy_in_place"):
            getattr(self._logs, how)(log)
        else:
            return
        self.done.append(f"{how} {log.tag}")

    # -- what is done to the store -----------------------------------------------------------------------------------

    def sweep(self) -> None:
        self.do("sweep", lambda m: m.sweep(self._warm))

    def take_in_small_news(self) -> None:
        """As the thread of a server does."""

        def take_in(memory: Memory) -> None:
            with suppress(LeftError):
                news = look(memory.store, self._now)
                sweep.sweep(memory.store, clock=lambda: self._now, warm=self._warm, small=news)

        self.do("small news", take_in)

    def grow_with_a_warm_process(self) -> None:
        """A process that stays takes in turn after turn of some logs, whatever happened to them before."""
        logs = [self._log(), self._log()]
        for log in self._random.choices(logs, k=4):
            if log.is_whole or log.content:
                self._logs.grow(log, 1, large=1, leave=self._random.choice([0, 0, 0, 100]))
            self.do(f"warm sweep of {log.tag}", lambda m: m.sweep(self._warm))

    def sweep_a_partition(self) -> None:
        day = self._log().day
        self.do(f"sweep {day}", lambda m: sweep.sweep(m.store, clock=lambda: self._now, only=[("claude", day)]))

    def sweep_with_failures(self) -> None:
        """What is derived fails in the middle, and sessions cannot be read at all."""
        random_ = random.Random(self._random.random())
        ingested = workers._ingested

        def unread(*args: object) -> object:
            return workers.TooMuchError("too long") if random_.random() < 0.2 else ingested(*args)  # type: ignore[arg-type]

        def failing(real: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object) -> object:
                if random_.random() < 0.02:
                    raise ValueError("no")
                return real(*args)

            return call

        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(workers, "_ingested", unread))
            for owner, name in _MAY_FAIL:
                stack.enter_context(mock.patch.object(owner, name, failing(getattr(owner, name))))
            self.do("failing sweep", Memory.sweep)

    def sweep_into_tight_caps(self) -> None:
        with self._opened() as memory:
            usage = max(2_000, memory.raw_usage() // 2)
        caps = {"HELIX_RAW_SOFT_CAP_BYTES": str(usage), "HELIX_RAW_HARD_CAP_BYTES": str(usage + 500)}
        self._environ |= caps
        self.do(f"sweep into {usage}", Memory.sweep)
        for name in caps:
            del self._environ[name]

    def evict(self) -> None:
        self._evict("evict", lambda usage, _: (self._random.choice([1, max(1, usage // 2)]), _BOUNDLESS))

    def drop_texts(self) -> None:
        self._evict("drop texts", lambda usage, index: (usage + index - 1, _BOUNDLESS))

    def overflow(self) -> None:
        self._evict("overflow", lambda usage, _: (1, max(1, usage // 2)))

    def overflow_with_failures(self) -> None:
        with mock.patch.object(digest_builder.DigestBuilder, "add", side_effect=ValueError("no")):
            self.overflow()

    def _evict(self, what: str, caps: Callable[[int, int], tuple[int, int]]) -> None:
        with self._opened() as memory:
            usage, index = memory.raw_usage(), index_bytes(memory.store.data_dir)
        if usage < 2:
            return
        soft, hard = caps(usage, index)
        policy = RetentionPolicy(soft, hard, 45, _BOUNDLESS)
        self.do(
            f"{what} to {soft}",
            lambda m: evict.apply(m.store, clock=lambda: self._now, policy=policy, analyze=m.sweep),
        )

    def forget(self) -> None:
        uid = self._log().uid
        with self._opened() as memory:
            is_known = bool(ask(memory.store, sessions.by_uid, [uid]))
        if not is_known or self._random.random() < 0.6:
            return
        self.do(f"forget {uid}", lambda m: forget(m.store, [uid], now=self._now))
        with self._opened() as memory:
            with writing(memory.store, "forget"):
                pass  # the next writer finishes it
            if ask(memory.store, sessions.by_uid, [uid]):
                return  # it was killed before its transaction: nothing has happened
        family = self._logs.family(uid)
        self._books.forgotten.add(uid)
        self._books.totals.pop(family, None)
        if not all(log.is_whole for log in self._logs.of(family)):
            self._books.loose |= family

    def pin(self) -> None:
        uid, pinned = self._log().uid, self._random.random() < 0.5

        def work(memory: Memory) -> None:
            with writing(memory.store, "pin"), memory.store.catalog.writing() as connection:
                for row in ask(memory.store, sessions.by_uid, [uid]).values():
                    sessions.change(connection, row.id, is_pinned=pinned)

        self.do(f"{'pin' if pinned else 'unpin'} {uid}", work)

    def back_up(self) -> None:
        def work(memory: Memory) -> None:
            with writing(memory.store, "backup"):
                make_copy(memory.store, self._now)

        self.do("back up", work)

    def restore(self) -> None:
        with self._opened() as memory:
            settings = memory.store.settings
        if (held := copies(settings)) and self._random.random() < 0.5:
            copy = self._random.choice(held)
            self.done.append(f"restore {copy.generation}")
            restore(settings, copy, self._now)
            self._books.start_anew()
            for log in self._logs.all:
                log.met.clear()

    def catch_up(self) -> None:
        """A consumer reads some of the feed, or all of it: then it has what the memory has."""
        if not self._consumer.catalog.exists():
            return
        self.done.append("catch up")
        if self._random.random() < 0.5:
            self._consumer.step(2)
        else:
            self._consumer.catch_up(2)
            self.wrong += [f"a consumer of the feed missed {uid}" for uid in self._consumer.missed()]

    # -- what is decided otherwise -----------------------------------------------------------------------------------

    def note_a_hook(self) -> None:
        uid = self._log().uid
        agent, _, native = uid.partition(":")
        event = self._random.choice(["Stop", "UserPromptSubmit", "SessionEnd"])
        note = {"agent": agent, "at": time.time_ns(), "event": event, "session": native, "call": None}
        inbox = inbox_of(self.folder / "data")
        inbox.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_note(str(inbox), note)
        self.done.append(f"hook of {uid}")

    def change_settings(self) -> None:
        till = str(self.folder / "home" / PROJECTS[1])
        name, values = self._random.choice([
            ("HELIX_REDACTION_RULES", ("[]", _RULES)),
            ("HELIX_SEARCH_INDEX", ("on", "off")),
            ("HELIX_PRICES", _PRICES),
            ("HELIX_EXCLUDE_PATHS", ("", till)),
        ])  # fmt: skip
        self._environ[name] = value = self._random.choice(values)
        if not value:
            del self._environ[name]
        self._books.was_hidden |= value == _RULES
        self._books.was_left_out |= value == till
        self.done.append(f"{name}={value.replace(str(self.folder), '')}")

    def raise_versions(self) -> None:
        self._newer += 1
        self.done.append("newer digest rules" + (" and parsers" if self._newer % 2 == 0 else ""))

    def set_clock(self) -> None:
        days = self._random.choice([-3650, -40, -1.3, -0.5, 40, 3650])
        self._now += timedelta(days=days)
        self.done.append(f"clock {days} days")


_MAY_FAIL = (
    (digest_builder.DigestBuilder, "add"),
    (link.Linker, "rows"),
    (hashing.WordHasher, "words"),
    (pricing, "price_rows"),
    (merge, "fitted"),
)
_MOVES: dict[Callable[[Campaign], None], int] = {
    Campaign.grow: 10,
    Campaign.resume: 2,
    Campaign.disturb: 3,
    Campaign.sweep: 6,
    Campaign.take_in_small_news: 3,
    Campaign.grow_with_a_warm_process: 4,
    Campaign.sweep_a_partition: 1,
    Campaign.sweep_with_failures: 2,
    Campaign.sweep_into_tight_caps: 2,
    Campaign.evict: 3,
    Campaign.drop_texts: 2,
    Campaign.overflow: 1,
    Campaign.overflow_with_failures: 1,
    Campaign.forget: 2,
    Campaign.pin: 1,
    Campaign.back_up: 1,
    Campaign.restore: 2,
    Campaign.catch_up: 3,
    Campaign.note_a_hook: 1,
    Campaign.change_settings: 4,
    Campaign.raise_versions: 1,
    Campaign.set_clock: 1,
}


def campaign(folder: Path, *, seed: int, steps: int) -> Campaign:
    """One store from its beginning to the last reckoning."""
    run = Campaign(folder, seed)
    run.run(steps)
    return run


@click.command()
@click.option("--seeds", default=20)
@click.option("--from", "first", default=1)
@click.option("--steps", default=60)
def main(seeds: int, first: int, steps: int) -> None:
    """Combine at random; exit code 1 when anything is lost, doubled or unsound."""
    os.umask(0o077)
    logging.disable(logging.CRITICAL)  # full disks and losses are what it is about
    begin, done, bad = time.monotonic(), 0, 0
    for seed in range(first, first + seeds):
        with tempfile.TemporaryDirectory() as folder:
            run = campaign(Path(folder), seed=seed, steps=steps)
        done += len(run.done)
        if run.wrong:
            bad += 1
            click.echo(f"seed {seed}: {'; '.join(run.done)}")
            for line in run.wrong:
                click.echo(f"  {line}")
    last = first + seeds - 1
    click.echo(f"seeds {first} to {last}, {done} steps done, {bad} wrong, {time.monotonic() - begin:.0f} s")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
