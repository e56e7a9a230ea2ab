"""What the memory promises, each as a question that the store answers: it holds or not, with the numbers that say why.

Belongs here: asking, by reading alone. How Dagster is told is `checks`; the proof of the whole store is `verify`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import shuffle
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, and_, exists, func, or_, select

from helix_assets.core.errors import StoreError
from helix_assets.core.schema import DIGEST_VERSION
from helix_assets.defs.partitions import key_of
from helix_assets.evict import memory_bytes, plan
from helix_assets.pipeline import utc_now
from helix_assets.storage.tables import digests, losses, raw_files, sessions
from helix_assets.store import Store
from helix_assets.summary import is_covered

SAMPLE = 100
SCAN_BYTES = 8 << 20
UNPARSED_SHARE = 0.01
_LISTED = 50
_KINDS = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True)
class Answer:
    """Whether a promise holds, and the figures behind it: counts and our own words only."""

    holds: bool
    figures: Mapping[str, Any] = field(default_factory=dict)


def evicted_are_covered(store: Store) -> Answer:
    """No session's raw bytes went without a digest of all of them or a durable record of the loss."""
    s = sessions.c
    covered = exists().where(digests.c.session_uid == s.session_uid, digests.c.generation >= s.derived_generation)
    lost = exists().where(losses.c.session_uid == s.session_uid, losses.c.generation == s.generation)
    evicted = or_(s.evicted_at.is_not(None), s.evicting_at.is_not(None))
    with store.catalog.reading() as connection:
        total = connection.execute(select(func.count()).where(evicted)).scalar_one()
        broken = and_(evicted, ~and_(s.derived_generation == s.generation, covered), ~lost)
        without = connection.execute(select(func.count()).where(broken)).scalar_one()
        lost_count = connection.execute(select(func.count()).where(evicted, lost)).scalar_one()
    return Answer(
        without == 0, {"evicted": total, "without_cover_or_record": without, "with_a_loss_record": lost_count}
    )


def raw_cache_is_within_budget(store: Store) -> Answer:
    """The raw cache is not above its soft cap."""
    now = plan(store, now=utc_now())
    figures = {"bytes": now.usage_before, "soft_cap_bytes": now.soft_cap, "hard_cap_bytes": now.hard_cap}
    figures |= {"bytes_after_next_eviction": now.usage_after, "sessions_to_go": len(now.goes)}
    return Answer(now.usage_before <= now.soft_cap, figures)


def memory_is_within_its_cap(store: Store) -> Answer:
    """Digests and facts are not above the cap at which somebody should look. They are never dropped."""
    used, cap = memory_bytes(store), store.settings.retention.distilled_cap_bytes
    return Answer(used <= cap, {"bytes": used, "cap_bytes": cap})


def no_secret_survives(store: Store) -> Answer:
    """The rules in force find nothing more to redact in a sample of new and old files, another one each time."""
    from helix_assets.storage.parquet import read_rows

    scanned = found = 0
    for row in read_rows(_sample(store), raw=True):
        texts = [row.raw or b"", *(text.encode() for text in (row.summary, row.detail, row.file_path) if text)]
        found += sum(store.redactor.scan(text) for text in texts)
        scanned += sum(map(len, texts))
        if scanned > SCAN_BYTES:
            break
    return Answer(found == 0, {"bytes_scanned": scanned, "secrets_found": found})


def token_totals_add_up(store: Store) -> Answer:
    """A session's tokens are those of its main thread and its subagents, and those of its messages, each counted once.

    And the days' totals are the sessions' total.
    """
    s, d = sessions.c, digests.c
    by_session: dict[str, tuple[int, ...]] = {}
    by_day = by_home = 0
    halves_differ = 0
    with store.catalog.reading() as connection:
        home = {uid: (flavor, day) for uid, flavor, day in connection.execute(select(s.session_uid, s.flavor, s.day))}
        for uid, flavor, day, text in connection.execute(select(d.session_uid, d.flavor, d.day, d.digest)):
            digest = orjson.loads(text)
            both, main, sub = (_by_kind(digest[name]) for name in ("tokens", "tokens_main", "tokens_subagent"))
            halves_differ += both != tuple(map(sum, zip(main, sub, strict=True)))
            by_session[uid] = both
            by_day += sum(both)
            by_home += sum(both) if home.get(uid) == (flavor, day) else 0
    sampled = _tokens_of_messages(_sample(store, covered=True))
    messages_differ = sum(by_session.get(uid) != tokens for uid, tokens in sampled.items())
    figures = {
        "sessions": len(by_session),
        "main_and_subagents_differ": halves_differ,
        "sessions_compared_with_their_messages": len(sampled),
        "messages_differ": messages_differ,
        "tokens_over_sessions": by_day,
        "tokens_over_days": by_home,
    }
    return Answer(not halves_differ and not messages_differ and by_day == by_home, figures)


def _by_kind(tokens: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(tokens[kind] or 0 for kind in _KINDS)


_MESSAGES = """
with usage as (
    select *, row_number() over (
        partition by session_uid, coalesce(message_id, seq::text) order by coalesce(output_tokens, 0) desc, seq desc
    ) as place
    from read_parquet($files) where tokens is not null
)
select session_uid, sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
    sum(coalesce(cache_write_5m_tokens, 0) + coalesce(cache_write_1h_tokens, 0))
from usage where place = 1 group by session_uid
"""


def _tokens_of_messages(files: Sequence[Path]) -> dict[str, tuple[int, ...]]:
    """Tokens by kind of each session that has any, from its stored rows: the last and largest line of each message."""
    import duckdb

    if not files:
        return {}
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
            rows = connection.execute(_MESSAGES, {"files": [str(path) for path in files]}).fetchall()
    except duckdb.Error as exc:
        raise StoreError("a file of the raw cache is missing or damaged: run `helix verify`") from exc
    return {uid: tuple(int(number or 0) for number in tokens) for uid, *tokens in rows}


class _Share(NamedTuple):
    records: int
    unparsed: int


def few_lines_are_unparsed(store: Store) -> Answer:
    """Of no agent's lines more than one in a hundred is not understood; more would mean a format that changed."""
    s = sessions.c
    query = select(s.flavor, func.sum(s.record_count), func.sum(s.unparsed_count)).group_by(s.flavor)
    with store.catalog.reading() as connection:
        rows = connection.execute(query).all()
    shares = {flavor: _Share(records or 0, unparsed or 0) for flavor, records, unparsed in rows}
    holds = all(share.unparsed <= max(1, UNPARSED_SHARE * share.records) for share in shares.values())
    figures = {f"{flavor}_{name}": n for flavor, share in shares.items() for name, n in share._asdict().items()}
    return Answer(holds, figures)


def digests_are_current(store: Store) -> Answer:
    """Every digest is made of all its session's stored rows by the rules in force; else the partitions are listed."""
    stale = stale_partitions(store)
    figures: dict[str, Any] = {"stale_partitions": len(stale), "digest_version": str(DIGEST_VERSION)}
    if stale:
        figures["first_of_them"] = ", ".join(sorted(key_of(partition) for partition in stale)[:_LISTED])
    return Answer(not stale, figures)


def stale_partitions(store: Store) -> set[tuple[str, str]]:
    """Partitions with sessions that were derived by older rules, or not since they grew, and still can be."""
    s = sessions.c
    query = select(s.flavor, s.day).where(~is_covered(), s.evicted_at.is_(None), s.row_count > 0).distinct()
    with store.catalog.reading() as connection:
        return {(flavor, day) for flavor, day in connection.execute(query)}


def evicted_files_are_gone(store: Store) -> Answer:
    """No session that counts as evicted has a file left, in the catalog or on the disk."""
    s = sessions.c
    evicted = s.evicted_at.is_not(None)
    with store.catalog.reading() as connection:
        total = connection.execute(select(func.count()).where(evicted)).scalar_one()
        still_named = select(func.count()).join(raw_files, raw_files.c.session_id == s.id).where(evicted)
        named = connection.execute(still_named).scalar_one()
        live = set(connection.execute(select(raw_files.c.name)).scalars())
        keys = set(connection.execute(select(s.file_key).where(evicted)).scalars())
    left = sum(1 for name in store.raw.names() if name not in live and Path(name).name.split(".")[0] in keys)
    return Answer(not named and not left, {"evicted": total, "files_named": named, "files_on_disk": left})


def _sample(store: Store, *, covered: bool = False) -> list[Path]:
    """Files of the newest sessions and of some others in no order; whole sessions, and only files that are there."""
    s = sessions.c
    wanted: list[ColumnElement[bool]] = [s.row_count > 0, s.evicted_at.is_(None), *([is_covered()] if covered else [])]
    with store.catalog.reading() as connection:
        newest = select(s.id).where(*wanted).order_by(s.ingest_order.desc()).limit(SAMPLE)
        others = select(s.id).where(*wanted).order_by(func.random()).limit(SAMPLE)
        ids: Collection[int] = {*connection.execute(newest).scalars(), *connection.execute(others).scalars()}
    parts = store.catalog.files_of(ids).values()
    paths = [[store.raw.path(part.name) for part in files] for files in parts]
    shuffle(paths)
    return [path for files in paths if all(path.exists() for path in files) for path in files]
