"""Single bytes of a store turned over at random places; readers and `prove.verify` have to notice.

    python -m helix_assets_tests.faults.byte_flips [--flips 200] [--seed 1]

After each flip every session and every fact is read again, in a store opened anew. An answer is the one of before, or
an error that says what to do; it is never another one, and never missing in silence. Where an answer is withheld,
`prove.verify` names its session, or that the catalog is damaged.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from helix_assets.ask.export import session_lines
from helix_assets.ask.reading import open_session
from helix_assets.demo import make_home
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import HelixError, WithheldError
from helix_assets.prove.verify import verify
from helix_assets.settings import Settings, load_settings
from helix_assets.store.catalog import live_files
from helix_assets.store.catalog.pages import truncate_log
from helix_assets.store.reserve import RESERVE
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep, utc_now
from helix_assets_tests.home import ask

Answers = dict[str, bytes]
_EVERYTHING = "everything"
_WAITS = b"withheld until the next sweep, which mends it"
"""The answer for a session whose note of the redaction rules was turned over."""


@dataclass
class Flipped:
    """Bytes turned over, answers that became errors, and what was wrong."""

    flips: int = 0
    errors: int = 0
    wrong: list[str] = field(default_factory=list)


def flip_all(folder: Path, *, flips: int, seed: int) -> Flipped:
    """Flip so many bytes, each in the store as it was."""
    rng, done = random.Random(seed), Flipped()
    settings = _prepare(folder, seed)
    data, whole = settings.data_dir, folder / "whole"
    data.rename(whole)
    shutil.copytree(whole, data)
    right = _answers(settings)
    places = _files(whole)
    for _ in range(flips):
        shutil.rmtree(data)
        shutil.copytree(whole, data)
        name = rng.choices([name for name, _ in places], [size for _, size in places])[0]
        offset = _flip(data / name, rng)
        done.flips += 1
        done.wrong += [f"byte {offset} of {name}: {what}" for what in _judge(settings, right, done)]
    return done


def _prepare(folder: Path, seed: int) -> Settings:
    """A store with stored, lightened and evicted sessions of all agents."""
    home = folder / "home"
    make_home(home, sessions=12, seed=seed, dirty=False)
    agents = {"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "GROK_HOME": "grok"}
    environ = {name: str(home / agent) for name, agent in agents.items()}
    settings = load_settings({**environ, "HOME": str(home), "HELIX_DATA_DIR": str(folder / "data"),
                              "HELIX_BACKUP_SCHEDULE": "off"})  # fmt: skip
    store = open_store(settings)
    sweep(store)
    soft = ask(store, live_files.raw_usage) * 2 // 3
    evict.apply(store, clock=utc_now, policy=RetentionPolicy(soft, 1 << 40, 45, 1 << 40))
    truncate_log(store.catalog)
    store.close()
    return settings


def _files(whole: Path) -> list[tuple[str, int]]:
    """Every file that holds bytes, the catalog counted thrice: a flip there can reach any session."""
    files = [path for path in sorted(whole.rglob("*")) if path.is_file() and path.name != RESERVE]  # which is only room
    found = [(str(path.relative_to(whole)), path.stat().st_size) for path in files]
    weight = sum(size for _, size in found)
    return [(name, weight if name == "helix.db" else size) for name, size in found if size and name != "lock"]


def _flip(path: Path, rng: random.Random) -> int:
    data = bytearray(path.read_bytes())
    offset = rng.randrange(len(data))
    data[offset] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return offset


def _judge(settings: Settings, right: Answers, done: Flipped) -> Iterator[str]:
    now = _answers(settings)
    withheld = {name for name in right if name not in now}
    now = {name: said for name, said in now.items() if said != _WAITS}
    done.errors += bool(withheld)
    yield from (f"{name} reads another way" for name in now.keys() & right.keys() if now[name] != right[name])
    yield from (f"{name} was never there" for name in now.keys() - right.keys())
    if withheld:
        named = _named(settings)
        if not withheld <= named and _EVERYTHING not in named:
            yield f"verify does not name {sorted(withheld - named)[:3]}"


def _answers(settings: Settings) -> Answers:
    """What readers say, by what was asked; without those that end in an error."""
    found: Answers = {}
    with suppress(HelixError):
        store = open_store(settings)
        try:
            uids = _uids(store)
            found["sessions"] = repr(uids).encode()
            for uid in uids:
                with suppress(HelixError):
                    found[uid] = _said(store, uid)
            for file in ask(store, live_files.fact_files):
                with suppress(HelixError):
                    rows = store.facts.rows(file)
                    found[f"{file.fact} {file.flavor} {file.day}"] = repr(rows).encode()
        finally:
            store.close()
    return found


def _said(store: Store, uid: str) -> bytes:
    try:
        with open_session(store, uid) as session:
            return b"".join(session_lines(session))
    except WithheldError:
        return _WAITS


def _uids(store: Store) -> list[str]:
    with store.catalog.reading() as connection:
        return connection.column("SELECT session_uid FROM sessions ORDER BY session_uid")


def _named(settings: Settings) -> set[str]:
    """What `verify` names: sessions, fact partitions, or the catalog as a whole."""
    try:
        store = open_store(settings)
    except HelixError:
        return {_EVERYTHING}
    try:
        violations = verify(store)
    finally:
        store.close()
    named = {v.session_uid for v in violations if v.session_uid}
    for violation in violations:
        if violation.check.startswith("catalog") and violation.session_uid is None:
            named.add(_EVERYTHING)
        if violation.check == "fact_file" and violation.path:
            fact, flavor, day = violation.path.split("/")
            named.add(f"{fact} {flavor.partition('=')[2]} {day.partition('=')[2].partition('.')[0]}")
    return named


@click.command()
@click.option("--flips", default=200)
@click.option("--seed", default=1)
def main(flips: int, seed: int) -> None:
    """Turn bytes over; exit code 1 when a reader answers wrongly or damage is not named."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        done = flip_all(Path(folder), flips=flips, seed=seed)
    click.echo(
        f"{done.flips} flips (seed {seed}), {done.errors} noticed by readers, {len(done.wrong)} wrong, "
        f"{time.monotonic() - begin:.0f} s"
    )
    for line in done.wrong[:20]:
        click.echo(f"  {line}")
    raise SystemExit(bool(done.wrong))


if __name__ == "__main__":
    main()
