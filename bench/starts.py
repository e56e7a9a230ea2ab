"""How long commands take that find nothing to do: `python -m bench.starts HOME [--against CHECKOUT] [--rounds 15]`.

HOME has the folders claude, codex and grok. Commands run in turn, each against bare Python with `import sqlite3`, and
with `--against` the same commands of another checkout with its own `.venv`. Each checkout has a store of its own. The
least of all rounds counts: other work on the machine only adds.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.processes import Measured, bare_environ, measure

COMMANDS = {
    "helix sweep, nothing new": ("-m", "helix_assets", "sweep"),
    "helix status": ("-m", "helix_assets", "status"),
    "helix sessions": ("-m", "helix_assets", "sessions"),
    "digest_lookup": ("-m", "helix_assets.digest_lookup", "{uid}", "--json"),
}


def main() -> None:
    """Print one line per command and checkout: milliseconds of processor and clock."""
    parser = argparse.ArgumentParser(prog="python -m bench.starts", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home", type=Path)
    parser.add_argument("--against", type=Path, help="another checkout, set up")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    checkouts = [here, *([options.against.resolve()] if options.against else [])]
    with tempfile.TemporaryDirectory(prefix="helix-bench-") as folder:
        sides = [_Side(checkout, options.home.resolve(), Path(folder)) for checkout in checkouts]
        measured: dict[tuple[str, str], list[Measured]] = {}
        for _ in range(options.rounds):
            for side in sides:
                for name, run in side.runs():
                    measured.setdefault((side.name, name), []).append(run)
    for (side_name, name), runs in measured.items():
        cpu, wall = min(run.cpu_s for run in runs), min(run.wall_s for run in runs)
        print(f"{side_name:20} {name:26} {cpu * 1000:7.0f} ms CPU {wall * 1000:7.0f} ms")


class _Side:
    """A checkout with a store of its own over the same logs."""

    def __init__(self, checkout: Path, home: Path, folder: Path) -> None:
        self.name = checkout.name
        own = folder / checkout.name
        self._python = str(checkout / ".venv" / "bin" / "python")
        self._environ = bare_environ(own / "home") | {
            "PYTHONPATH": str(checkout),
            "HELIX_DATA_DIR": str(own / "data"),
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "CODEX_HOME": str(home / "codex"),
            "GROK_HOME": str(home / "grok"),
        }
        for _ in range(2):  # the second finds what the first left for later
            self._run("-m", "helix_assets", "sweep")
        with closing(sqlite3.connect(own / "data" / "helix.db")) as catalog:
            (self._uid,) = catalog.execute("SELECT min(session_uid) FROM digests").fetchone()
        self._environ["HELIX_STORE_DB"] = str(own / "data" / "helix.db")

    def runs(self) -> Iterator[tuple[str, Measured]]:
        """Every command once."""
        yield "bare Python", self._run("-c", "import sqlite3")
        for name, arguments in COMMANDS.items():
            yield name, self._run(*(argument.format(uid=self._uid) for argument in arguments))

    def _run(self, *arguments: str) -> Measured:
        return measure([self._python, "-P", *arguments], self._environ)  # -P: not the modules of the folder we are in


if __name__ == "__main__":
    main()
