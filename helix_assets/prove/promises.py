"""The promises of the memory. Each is a question to the store: it holds or not, and numbers say why.

Belongs here: questions that only read. Not here: reporting the answers to Dagster (`defs.checks`), the proof of the
whole store (`prove.verify`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import shuffle
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, exists, func, or_, select

from helix_assets.ask.coverage import is_covered
from helix_assets.keep.evict import memory_bytes, plan
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.prove.drift import drift_of, figures_of
from helix_assets.prove.vanishing import vanishing
from helix_assets.store.catalog.old_tables import digests, evictions, losses, raw_files, sessions
from helix_assets.store.catalog.retries import failed_sessions
from helix_assets.store.lock import is_locked
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now

SAMPLE = 100
SCAN_BYTES = 8 << 20
UNPARSED_SHARE = 0.01
UNKNOWN_SHARE = 0.05
_LISTED = 50


@dataclass(frozen=True)
class Answer:
    """Whether a promise holds, and the figures behind it: counts and our own words only."""

    holds: bool
    figures: Mapping[str, Any] = field(default_factory=dict)


def evicted_are_covered(store: Store) -> Answer:
    """No raw bytes of a session went without a digest that covers them or a durable record of the loss."""
    s = sessions.c
    covered = exists().where(digests.c.session_uid == s.session_uid, digests.c.generation >= s.derived_generation)
    lost = exists().where(losses.c.session_uid == s.session_uid, losses.c.generation == s.generation)
    evicted = or_(s.evicted_at.is_not(None), s.evicting_at.is_not(None))
    e = evictions.c  # of texts too, whose rows stay
    named = exists().where(losses.c.session_uid == e.session_uid, losses.c.generation == e.generation)
    before = exists().where(
        e.session_uid == s.session_uid, e.generation > func.coalesce(s.derived_generation, -1), ~named
    )
    went_before = before.correlate(sessions)
    with store.catalog.reading() as connection:
        total = connection.execute(select(func.count()).where(evicted)).scalar_one()
        broken = or_(and_(evicted, ~and_(s.derived_generation == s.generation, covered), ~lost), went_before)
        without = connection.execute(select(func.count()).where(broken)).scalar_one()
        lost_count = connection.execute(select(func.count()).where(evicted, lost)).scalar_one()
    return Answer(
        without == 0, {"evicted": total, "without_cover_or_record": without, "with_a_loss_record": lost_count}
    )


def raw_cache_is_within_budget(store: Store) -> Answer:
    """The raw cache is not above its soft cap."""
    now = plan(store, now=utc_now())
    used = now.usage_before + now.index_bytes
    figures = {
        "bytes": used,
        "index_bytes": now.index_bytes,
        "soft_cap_bytes": now.soft_cap,
        "hard_cap_bytes": now.hard_cap,
    }
    figures |= {"bytes_after_next_eviction": now.usage_after, "sessions_to_go": len(now.goes)}
    return Answer(used <= now.soft_cap, figures)


def memory_is_within_its_cap(store: Store) -> Answer:
    """Digests and facts are not above the cap at which somebody should look. They are never dropped."""
    used, cap = memory_bytes(store), store.settings.retention.distilled_cap_bytes
    return Answer(used <= cap, {"bytes": used, "cap_bytes": cap})


def no_secret_survives(store: Store) -> Answer:
    """Neither the rules in force nor the list of canaries find anything in a sample of new and old files.

    The sample differs each time. `helix verify --secrets` reads everything.
    """
    from helix_assets.prove.verify_secrets import load_probe, survivors_in_rows

    probe = load_probe(store)
    scanned = found = 0
    for text, survivors in survivors_in_rows(probe, sampled_files(store)):
        found += len(survivors)
        scanned += len(text)
        if scanned > SCAN_BYTES:
            break
    return Answer(found == 0, {"bytes_scanned": scanned, "secrets_found": found})


def few_lines_are_unparsed(store: Store) -> Answer:
    """Only few lines of each agent are broken or of an unknown type. More mean that its log format has changed."""
    drifts = drift_of(store)
    figures: dict[str, Any] = {}
    for flavor, drift in drifts.items():
        figures |= figures_of(flavor, drift)
    totals = [drift.total for drift in drifts.values()]
    is_readable = all(total.unparsed <= max(1, UNPARSED_SHARE * total.records) for total in totals)
    is_known = all(total.unknown <= max(1, UNKNOWN_SHARE * total.records) for total in totals)
    return Answer(is_readable and is_known, figures)


def logs_are_read_before_they_go(store: Store) -> Answer:
    """No log vanished before it was read, and no agent will delete an unread one within a week."""
    found = vanishing(store, utc_now())
    figures = {"vanished_unread": found.vanished, "deleted_soon": found.due, "deleted_soon_bytes": found.due_bytes}
    return Answer(not found.vanished and not found.due, figures)


def digests_are_current(store: Store) -> Answer:
    """Every digest covers all stored rows of its session and follows the current rules; other partitions are listed."""
    stale = stale_partitions(store)
    figures: dict[str, Any] = {"stale_partitions": len(stale), "digest_version": str(DIGEST_VERSION)}
    if stale:
        figures["first_of_them"] = ", ".join(sorted("|".join(reversed(partition)) for partition in stale)[:_LISTED])
    return Answer(not stale, figures)


def stale_partitions(store: Store) -> set[tuple[str, str]]:
    """Partitions with sessions that older rules derived, or that grew since, and that can still be derived."""
    s = sessions.c
    query = select(s.flavor, s.day).where(~is_covered(), s.evicted_at.is_(None), s.row_count > 0).distinct()
    with store.catalog.reading() as connection:
        return {(flavor, day) for flavor, day in connection.execute(query)}


def prices_are_known(store: Store) -> Answer:
    """Every model that used tokens has a price. Models without one are counted, and their costs are null."""
    unpriced: Counter[str] = Counter()
    affected = 0
    with store.catalog.reading() as connection:
        texts = connection.execute(select(digests.c.digest).where(digests.c.digest.contains('"unpriced_models":["')))
        for text in texts.scalars():
            unpriced.update(orjson.loads(text)["unpriced_models"])
            affected += 1
    figures: dict[str, Any] = {"models_without_a_price": len(unpriced)}
    if unpriced:
        figures |= {"sessions_without_a_cost": affected, "named_by": "`helix report usage_report`, by model"}
    return Answer(not unpriced, figures)


def every_session_is_derived(store: Store) -> Answer:
    """Every session could be read and digested. Failed sessions are counted and retried."""
    with store.catalog.reading() as connection:
        total = connection.execute(select(func.count()).select_from(sessions)).scalar_one()
        failed = failed_sessions(connection)
    figures: dict[str, Any] = {"sessions": total, "set_aside": len(failed)}
    if failed:
        # The reason's first word is the class of the error: the rest may contain words of the session.
        reasons = Counter(one.failure.split()[0].rstrip(":") for one in failed)
        figures["reasons"] = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common(_LISTED))
        figures["most_tries"] = max(one.failures for one in failed)
        figures["next_try_at"] = min((one.retry_at for one in failed if one.retry_at), default="with the next sweep")
    return Answer(not failed, figures)


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
    if is_locked(store.data_dir):
        left = 0  # a writer publishes files before the catalog names them
    return Answer(not named and not left, {"evicted": total, "files_named": named, "files_on_disk": left})


def sampled_files(store: Store, *, covered: bool = False) -> list[Path]:
    """Files of the newest sessions and of some random others, shuffled. Only sessions whose files all exist.

    With `covered`, only sessions that lost no row to eviction: the digest of any other counts more than its files hold.
    """
    s = sessions.c
    wanted: list[ColumnElement[bool]] = [s.row_count > 0, s.evicted_at.is_(None), s.evicting_at.is_(None)]
    if covered:
        wanted += [is_covered(), ~s.is_partial, s.evicted_records == 0]
    with store.catalog.reading() as connection:
        newest = select(s.id).where(*wanted).order_by(s.ingest_order.desc()).limit(SAMPLE)
        others = select(s.id).where(*wanted).order_by(func.random()).limit(SAMPLE)
        ids: Collection[int] = {*connection.execute(newest).scalars(), *connection.execute(others).scalars()}
    parts = store.catalog.files_of(ids).values()
    paths = [[store.raw.path(part.name) for part in files] for files in parts]
    shuffle(paths)
    return [path for files in paths if all(path.exists() for path in files) for path in files]
