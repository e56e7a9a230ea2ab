"""The cost of single reads of a store, in a process that has it open: a digest by its uid, the text behind an event.

python -m bench.reads ROUNDS SEED      with the settings of the store in the environment; prints seconds as JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any

from helix_assets.ask.reading import open_existing, open_session, proven_digest
from helix_assets.settings import load_settings
from helix_assets.store.store import Store


def measured(rounds: int, seed: int) -> dict[str, list[float]]:
    """Sizes of all digests in bytes; seconds of look-ups and of payload reads, of random sessions and events."""
    rng = Random(seed)
    with closing(open_existing(load_settings())) as store:
        with store.catalog.reading() as connection:
            sizes = connection.column("SELECT length(digest) FROM digests")
            held = connection.tuples("SELECT session_uid, row_count FROM sessions WHERE raw_bytes > 0")
        uids = [rng.choice(held)[0] for _ in range(rounds)]
        events = [(uid, rng.randrange(rows)) for uid, rows in (rng.choice(held) for _ in range(rounds))]
        _payload(store, *events[0])  # loads what reading needs
        return {
            "digest_bytes": sizes,
            "lookup_s": [_timed(lambda uid=uid: proven_digest(store, uid)) for uid in uids],
            "payload_s": [_timed(lambda uid=uid, seq=seq: _payload(store, uid, seq)) for uid, seq in events],
        }


def _payload(store: Store, uid: str, seq: int) -> Any:
    with open_session(store, uid) as session:
        return session.record(seq)


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]))))
