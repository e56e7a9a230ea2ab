"""Logs that lose their first half after it was evicted: what came before and what comes after count once each.

    python -m helix_assets_tests.faults.cut_logs [--seed 5] [--megabytes 10]

Half of every log of a sample home is swept and evicted; then each log is replaced by its other half alone. The tokens
of all digests are compared with those of a sweep of the whole logs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click
import orjson

from helix_assets.demo import make_home
from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets.settings import load_settings
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep, utc_now

_LEAST_BYTES = 2_000
_EVERYTHING = RetentionPolicy(1, 1 << 50, 36_500, 1 << 50)
# The output of a message that the cut runs through is not told, nor are the tokens of such a turn of Grok.
COMPARED = [
    ("claude", "input"),
    ("claude", "cache_read"),
    ("codex", "input"),
    ("codex", "output"),
    ("codex", "cache_read"),
]


def cut_and_compare(folder: Path, *, seed: int, megabytes: float) -> list[str]:
    """Everything that is wrong afterwards, in words."""
    whole, home = folder / "whole", folder / "home"
    make_home(whole, seed=seed, megabytes=megabytes, dirty=False)
    shutil.copytree(whole, home)
    logs = [path for path in home.rglob("*.jsonl") if path.stat().st_size > _LEAST_BYTES]
    halves = {path: _halves(path.read_bytes()) for path in logs}
    for path, (first, _) in halves.items():
        path.write_bytes(first)
    store, other = _store(folder / "data", home), _store(folder / "other", whole)
    sweep(store)
    apply(store, clock=utc_now, policy=_EVERYTHING)
    for path, (_, second) in halves.items():
        path.with_suffix(".new").write_bytes(second)
        os.replace(path.with_suffix(".new"), path)
    sweep(store)
    sweep(other)
    has, should = _tokens(store), _tokens(other)
    wrong = [str(violation) for violation in verify(store)]
    wrong += [f"{what}: {has[what]}, not {should[what]}" for what in COMPARED if has[what] != should[what]]
    store.close()
    other.close()
    return wrong


def _halves(data: bytes) -> tuple[bytes, bytes]:
    lines = data.splitlines(keepends=True)
    middle = len(lines) // 2
    return b"".join(lines[:middle]), b"".join(lines[middle:])


def _store(data: Path, home: Path) -> Store:
    folders = {"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "GROK_HOME": "grok"}
    own = {name: str(home / folder) for name, folder in folders.items()}
    return open_store(
        load_settings({"HOME": str(home), "HELIX_DATA_DIR": str(data), "HELIX_SWEEP_WORKERS": "1", **own})
    )


def _tokens(store: Store) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    with store.catalog.reading() as connection:
        for text, flavor in connection.tuples("SELECT digest, flavor FROM digests"):
            for kind, count in orjson.loads(text)["tokens"].items():
                sums[flavor, kind] = sums.get((flavor, kind), 0) + (count or 0)
    return sums


@click.command()
@click.option("--seed", default=5)
@click.option("--megabytes", default=10.0)
def main(seed: int, megabytes: float) -> None:
    """Cut the logs of a sample home; exit code 1 when anything counts twice or is broken."""
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as scratch:
        wrong = cut_and_compare(Path(scratch), seed=seed, megabytes=megabytes)
    click.echo(f"{len(wrong)} wrong")
    for line in wrong[:20]:
        click.echo(f"  {line}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
