"""Every short sequence of what can happen to one log and its session: the digest equals that of all lines ever swept.

    python -m helix_assets_tests.faults.step_sequences [--steps 4] [--agent claude] [--random 0] [--seed 1]

The log grows, is cut at a line or within one, restored, replaced by a copy or moved to another folder; it is swept and
evicted. At the end it is swept once more, and its digest and facts are compared with those of a store that met all the
lines that any sweep found whole, in one piece. Sequences with a common beginning share its work.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import click
import orjson

from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets.store.key import KEY_BYTES
from helix_assets_tests.home import NOW, Memory

FIXTURES = Path(__file__).parents[1] / "fixtures"
_EVERYTHING = RetentionPolicy(1, 1 << 50, 36_500, 1 << 50)
_ENVIRON = {"HELIX_BACKUP_SCHEDULE": "off", "HELIX_SEARCH_INDEX": "off"}
_KEY = bytes(KEY_BYTES)  # the same for all stores, so that they name records alike
# What a digest says of how it was made, and not of its session.
MADE = ("coverage", "schema_version", "price_table", "source_path", "discovered_at")
# What all rows in their order alone could say: of which tool a result is whose call was before the seam, and what
# follows from it; how calls before it ended; what the last words answered.
OF_THE_ORDER = ("longest_failure_streak", "cost", "signals", "outcome", "outcome_reason", "outcome_confidence",
                "tool_errors", "markers", "tests", "event_count", "kind_counts", "error_snippets")  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """The log of one agent: where it lies below the home, in either of two folders, and what else is there."""

    agent: str
    uid: str
    fixture: str
    places: tuple[str, str]

    @property
    def lines(self) -> list[bytes]:
        return (FIXTURES / self.fixture / self._name).read_bytes().splitlines(keepends=True)

    @property
    def _name(self) -> str:
        return self.places[0].partition("/")[2]

    def lay_out(self, home: Path) -> None:
        """The fixture's files, without the log itself."""
        shutil.copytree(FIXTURES / self.fixture, home / self.agent)
        (home / self.places[0]).unlink()


_CLAUDE = "085e5510-0000-4000-8000-000000000000"
_CODEX = "rollout-2026-06-23T09-00-00-019ef000-0000-7000-8000-000000000080.jsonl"
_GROK = "01a04a00-0000-7000-8000-000000000001"
KINDS = (
    Kind("claude", f"claude:{_CLAUDE}", "claude/trouble",
         (f"claude/projects/-repo/{_CLAUDE}.jsonl", f"claude/projects/-moved/{_CLAUDE}.jsonl")),
    Kind("codex", "codex:019ef000-0000-7000-8000-000000000080", "codex/unified-exec-0.142",
         (f"codex/archived_sessions/{_CODEX}", f"codex/sessions/2026/06/23/{_CODEX}")),
    Kind("grok", f"grok:{_GROK}", "grok/whole-turn",
         (f"grok/sessions/%2Frepo/{_GROK}/updates.jsonl", f"grok/sessions/%2Fmoved/{_GROK}/updates.jsonl")),
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """The log and what is known of it: which of all lines it was given, and every line that a sweep found whole."""

    folder: Path
    kind: Kind
    written: int = 0
    at: int = 0
    seen: frozenset[tuple[int, bytes]] = field(default_factory=frozenset)

    @property
    def log(self) -> Path:
        return self.folder / "home" / self.kind.places[self.at]

    @contextmanager
    def opened(self) -> Iterator[Memory]:
        with mock.patch.object(secrets, "token_bytes", return_value=_KEY):
            memory = Memory(self.folder, _ENVIRON)
        try:
            yield memory
        finally:
            memory.close()

    def copied(self, folder: Path) -> State:
        shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)


def begin(folder: Path, kind: Kind) -> State:
    """A log that begins with a third of its lines, and was swept."""
    kind.lay_out(folder / "home")
    return sweep(grow(State(folder, kind), len(kind.lines) // 3))


def grow(state: State, count: int = 3) -> State:
    """The agent writes some more lines."""
    lines = state.kind.lines[state.written : state.written + count]
    with state.log.open("ab") as file:
        file.write(b"".join(lines))
    return replace(state, written=state.written + len(lines))


def sweep(state: State) -> State:
    """All that lies there is taken in; remembers which lines these are, by their places among all lines."""
    with state.opened() as memory:
        memory.sweep()
    return replace(state, seen=state.seen | _whole_lines(state))


def evict(state: State) -> State:
    with state.opened() as memory:
        apply(memory.store, clock=lambda: NOW, policy=_EVERYTHING)
    return state


def cut(state: State) -> State:
    """The log is cut in the middle, behind a line."""
    lines = state.log.read_bytes().splitlines(keepends=True)
    _rewrite(state.log, b"".join(lines[: len(lines) // 2]))
    return state


def cut_within(state: State) -> State:
    """The log is cut within a line."""
    lines = state.log.read_bytes().splitlines(keepends=True)
    half = len(lines) // 2
    rest = lines[half][: len(lines[half]) // 2] if half < len(lines) else b""
    _rewrite(state.log, b"".join(lines[:half]) + rest)
    return state


def restore(state: State) -> State:
    """All that was ever written is put back, in place."""
    _rewrite(state.log, b"".join(state.kind.lines[: state.written]))
    return state


def replace_by_copy(state: State) -> State:
    """The log becomes another file with the same content."""
    fresh = state.log.with_suffix(".new")
    shutil.copyfile(state.log, fresh)
    os.replace(fresh, state.log)
    return state


def move(state: State) -> State:
    """The log comes to lie in another folder, under the same name and with what lies beside it."""
    moved = replace(state, at=1 - state.at)
    if state.kind.agent == "grok":
        moved.log.parent.parent.mkdir(parents=True, exist_ok=True)
        os.rename(state.log.parent, moved.log.parent)
    else:
        moved.log.parent.mkdir(parents=True, exist_ok=True)
        os.rename(state.log, moved.log)
    return moved


STEPS = (grow, sweep, evict, cut, cut_within, restore, replace_by_copy, move)


def _rewrite(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(data)


def _whole_lines(state: State) -> frozenset[tuple[int, bytes]]:
    """The log's whole lines with their places; one that was never written, as of two glued together, comes last."""
    places = {line.rstrip(b"\n"): place for place, line in enumerate(state.kind.lines)}
    found = set()
    *whole, last = state.log.read_bytes().split(b"\n")
    for line in [*whole, last] if last in places else whole:
        if line:
            found.add((places.get(line, len(places)), line))
    return frozenset(found)


# -- judging ---------------------------------------------------------------------------------------------------------


class Oracle:
    """What a store says of a session of which it met these lines and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._known = folder, dict[Any, tuple[dict[str, Any], list[str]]]()

    def of(self, state: State) -> tuple[dict[str, Any], list[str]]:
        key = (state.kind.agent, state.at, state.seen)
        if key not in self._known:
            folder = self._folder / str(len(self._known))
            state.kind.lay_out(folder / "home")
            fresh = replace(state, folder=folder, at=0)
            fresh.log.write_bytes(b"".join(line + b"\n" for _, line in sorted(state.seen)))
            if state.at:
                fresh = move(fresh)
            with fresh.opened() as memory:
                memory.sweep()
                self._known[key] = told(memory, state.kind.uid)
            shutil.rmtree(folder)
        return self._known[key]


def told(memory: Memory, uid: str) -> tuple[dict[str, Any], list[str]]:
    """A session's digest, and its facts, each with the key of its record at the end."""
    facts = sorted(
        f"{file.fact} {row[1:]} {row[0]}"
        for file in memory.fact_files()
        for some in memory.store.facts.rows(file)
        if some.session_uid == uid
        for row in some.rows
    )
    return memory.digest(uid), facts


def judge(state: State, oracle: Oracle) -> list[str]:
    """What is wrong after a last sweep."""
    state = sweep(state)
    with state.opened() as memory:
        wrong = [str(violation) for violation in verify(memory.store)]
        digest, facts = told(memory, state.kind.uid)
        is_partial = memory.row(state.kind.uid).is_partial
    should, should_facts = oracle.of(state)
    is_whole = {line for _, line in state.seen} <= {line for _, line in _whole_lines(state)}
    left_out = {*MADE, *(OF_THE_ORDER if is_partial else ()), *(() if is_whole else ("signals",))}
    is_torn = any(place == len(state.kind.lines) for place, _ in state.seen)
    if is_torn or not is_whole:  # which of several records of one moment closed a message depends on their order
        facts, should_facts = ([fact.rpartition(" ")[0] for fact in found] for found in (facts, should_facts))
    wrong += [
        f"{name}: {digest[name]}, not {should[name]}"
        for name in digest
        if name not in left_out and digest[name] != should[name]
    ]
    if not is_partial and facts != should_facts:
        wrong.append(f"facts: {set(facts) ^ set(should_facts)}")
    if is_partial and is_whole:
        wrong.append("is partial, and all it counts is there")
    return wrong


def all_sequences(folder: Path, kind: Kind, steps: int) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Each sequence of so many steps, and what is wrong after it."""
    oracle = Oracle(folder / "oracle")
    yield from _from(begin(folder / "0", kind), (), steps, folder, oracle)


def _from(
    state: State, done: tuple[str, ...], left: int, folder: Path, oracle: Oracle
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    if not left:
        yield done, judge(state, oracle)
        return
    for step in STEPS:
        copy = state.copied(folder / f"{len(done) + 1}")
        yield from _from(step(copy), (*done, step.__name__), left - 1, folder, oracle)
        shutil.rmtree(copy.folder)


def some_sequences(
    folder: Path, kind: Kind, lengths: Sequence[int], count: int, seed: int
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """So many sequences by chance, of these lengths in turn."""
    chance, oracle = random.Random(f"{kind.agent} {seed}"), Oracle(folder / "oracle")
    first = begin(folder / "first", kind)
    for number, length in zip(range(count), itertools.cycle(lengths), strict=False):
        steps = [chance.choice(STEPS) for _ in range(length)]
        state = first.copied(folder / str(number))
        for step in steps:
            state = step(state)
        yield tuple(step.__name__ for step in steps), judge(state, oracle)
        shutil.rmtree(state.folder)


@click.command()
@click.option("--steps", default=4)
@click.option("--agent", type=click.Choice([kind.agent for kind in KINDS]))
@click.option("--random", "count", default=0, help="So many sequences of 5 and 6 steps by chance instead of all.")
@click.option("--seed", default=1)
def main(steps: int, agent: str | None, count: int, seed: int) -> None:
    """Try all sequences; exit code 1 when anything was counted wrongly."""
    os.umask(0o077)
    bad = tried = 0
    for kind in KINDS:
        if agent in (None, kind.agent):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                found = (
                    some_sequences(folder, kind, (5, 6), count, seed) if count else all_sequences(folder, kind, steps)
                )
                for done, wrong in found:
                    tried += 1
                    if wrong:
                        bad += 1
                        click.echo(f"{kind.agent} {' '.join(done)}: {orjson.dumps(wrong[:4]).decode()[:1500]}")
    click.echo(f"{tried} sequences, {bad} wrong")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
