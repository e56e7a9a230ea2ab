"""Who owns history that several sessions hold: a resumed or forked session copies records, which must count once.

The owner is the session that started first (a tie: the one that stops first, then the uid), whatever was swept first.
Only a session that cannot be rewritten, such as an evicted one whose log is gone, keeps what it already counts, and
gains nothing.
Belongs here: finding shared keys, and having the sessions rewritten whose share changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from helix_assets.agents import ADAPTERS
from helix_assets.store.catalog import sessions
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.connection import Row
from helix_assets.store.catalog.ledger import claims_on, owners_of, shared_with
from helix_assets.sweep.task import Ingested

_NO_TIME = 1 << 62


class Span(NamedTuple):
    """What decides ownership; the smallest wins. A session starts here with the first record that it holds."""

    started_us: int
    ended_us: int
    uid: str


@dataclass
class Shares:
    """Keys that several sessions hold, with their owners, and for each session those that it holds but does not own.

    `given_up` are keys that a session held earlier, did not own, and no longer holds. `stuck` are sessions that do not
    own what they should, or own what they should not, because they cannot be rewritten.
    """

    owners: dict[int, str] = field(default_factory=dict)
    message_ids: dict[int, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    not_ours: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    given_up: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    stuck: set[str] = field(default_factory=set)

    def foreign_messages(self, uid: str) -> frozenset[str]:
        return frozenset(self.message_ids[key] for key in self.not_ours[uid] if key in self.message_ids)


class Standing(NamedTuple):
    """What can be done with sessions, by uid: `is_fixed` if it cannot be rewritten, or not now; `can_gain` if its
    records that are not stored could be read. Sessions of the batch in `reread` hold only what was read now.
    """

    is_fixed: Callable[[str], bool]
    can_gain: Callable[[str], bool]
    reread: Collection[str]


class Wanted(NamedTuple):
    """What a session holds that belongs to others: record keys, and messages whose usage they own."""

    not_ours: frozenset[int]
    foreign_messages: frozenset[str]


def settle(
    catalog: Catalog,
    results: dict[str, Ingested],
    session_ids: Mapping[str, int],
    remake: Callable[[Mapping[str, Wanted]], None],
    standing: Standing,
) -> Shares:
    """Find the owners of shared keys, and remake every session whose own share changed.

    `results` is the batch by uid, `session_ids` names those of it that shared keys before; `remake` brings the batch up
    to date in place.
    """
    of_copiers = {uid: r for uid, r in results.items() if ADAPTERS[r.task.flavor].shares_history}
    shares, held = _shares(catalog, of_copiers, session_ids, standing)
    wanted: dict[str, Wanted] = {}
    lacking = {uid for uid, result in results.items() if result.task.not_ours}
    for uid in sorted(shares.not_ours.keys() | held.keys() | lacking):
        want = frozenset(shares.not_ours.get(uid, ()))
        have = results[uid].task.not_ours if uid in results else frozenset(held.get(uid, ()))
        have -= shares.given_up.get(uid, frozenset())
        if want != have:
            wanted[uid] = Wanted(want, shares.foreign_messages(uid))
    if wanted:
        remake(wanted | _whole_shares(catalog, shares, wanted, results.keys()))
    return shares


def _whole_shares(
    catalog: Catalog, shares: Shares, wanted: Mapping[str, Wanted], batch: Collection[str]
) -> dict[str, Wanted]:
    """The shares of sessions outside the batch, including keys that they share with other sessions outside."""
    names = {shares.ids[uid]: uid for uid in wanted if uid not in batch}
    whole = {uid: (set(wanted[uid].not_ours), set(wanted[uid].foreign_messages)) for uid in names.values()}
    with catalog.reading() as connection:
        shared = shared_with(connection, names)
    for row in shared:
        if row.session_id in names and row.owner_id != row.session_id and row.key not in shares.owners:
            keys, messages = whole[names[row.session_id]]
            keys.add(row.key)
            if row.message_id is not None:
                messages.add(row.message_id)
    return {uid: Wanted(frozenset(keys), frozenset(messages)) for uid, (keys, messages) in whole.items()}


def _shares(
    catalog: Catalog,
    results: Mapping[str, Ingested],
    session_ids: Mapping[str, int],
    standing: Standing,
) -> tuple[Shares, dict[str, set[int]]]:
    """The shared keys now, and those that each session held and did not own before."""
    claims: dict[int, set[str]] = defaultdict(set)
    shares = Shares()
    for uid, result in results.items():
        for key in result.shareable:
            claims[key].add(uid)
        for key, message_id in result.message_ids.items():
            claims[key].add(uid)
            shares.message_ids[key] = message_id
    reread = {uid: {*results[uid].shareable, *results[uid].message_ids} for uid in standing.reread if uid in results}
    with catalog.reading() as connection:
        earlier = claims_on(connection, claims.keys()) if claims else set()
        before = shared_with(connection, {session_ids[uid] for uid in results if uid in session_ids})
        held_by = {sid for _, sid in earlier} | {sid for row in before for sid in (row.session_id, row.owner_id)}
        others = sessions.by_id(connection, held_by)
        owns = {(row.key, row.owner_id) for row in before}
        for key, sid in earlier | {(row.key, row.session_id) for row in before}:
            uid = others[sid].session_uid
            if uid in reread and key not in reread[uid] and (key, sid) not in owns:
                shares.given_up[uid].add(key)
            else:
                claims[key].add(uid)
        owned = owners_of(connection, [key for key, uids in claims.items() if len(uids) > 1])
    shares.ids = {row.session_uid: row.id for row in others.values()}
    held: dict[str, set[int]] = defaultdict(set)
    for row in before:
        uid = others[row.session_id].session_uid
        if row.message_id is not None:
            shares.message_ids[row.key] = row.message_id
        if row.session_id != row.owner_id:
            held[uid].add(row.key)
    spans = {row.session_uid: _span(row, row.facts.get("held_since_us"), row.session_uid) for row in others.values()}
    spans |= {uid: _span(r, r.facts.held_since_us, uid) for uid, r in results.items()}
    # A key that only one session held until now is its own.
    counted_by = {key: others[sid].session_uid for key, sid in earlier}
    counted_by |= {key: others[sid].session_uid for key, sid in owned.items() if sid in others}
    _assign(shares, claims, spans, counted_by, standing)
    _drop_lost(shares, claims, reread)
    return shares, held


def _drop_lost(shares: Shares, claims: Mapping[int, set[str]], reread: Mapping[str, set[int]]) -> None:
    """A reread session stops claiming keys that it does not own and its log no longer holds."""
    for uid, keys in reread.items():
        gone = {key for key in shares.not_ours.get(uid, ()) if key not in keys and uid in claims[key]}
        shares.not_ours[uid] -= gone
        shares.given_up[uid] |= gone


def _assign(
    shares: Shares,
    claims: Mapping[int, set[str]],
    spans: Mapping[str, Span],
    counted_by: Mapping[int, str],
    standing: Standing,
) -> None:
    for key, uids in claims.items():
        if len(uids) > 1:
            before = counted_by.get(key)
            by_span = sorted(uids, key=spans.__getitem__)
            owner = _owner(by_span, before if before in uids else None, standing)
            if owner != by_span[0]:
                shares.stuck |= {owner, by_span[0]}
            shares.owners[key] = owner
            for uid in uids:
                if uid != owner:
                    shares.not_ours[uid].add(key)


def _owner(by_span: Sequence[str], before: str | None, standing: Standing) -> str:
    """Who owns a key: of all sessions that hold it the first that counts it, or can gain it."""
    if before is not None and before != by_span[0] and standing.is_fixed(before):
        return before
    return next((uid for uid in by_span if uid == before or standing.can_gain(uid)), by_span[0])


def _span(session: Row | Ingested, held_since_us: int | None, uid: str) -> Span:
    started_us = session.started_us if held_since_us is None else held_since_us
    ended_us = session.ended_us
    return Span(_NO_TIME if started_us is None else started_us, _NO_TIME if ended_us is None else ended_us, uid)


def owner_rows(shares: Shares, session_ids: Mapping[str, int]) -> list[dict[str, Any]]:
    """The shared keys as rows of the catalog; `session_ids` are those of the batch."""
    ids = shares.ids | dict(session_ids)
    return [
        {"key": key, "owner_id": ids[uid], "message_id": shares.message_ids.get(key)}
        for key, uid in shares.owners.items()
        if uid in ids
    ]
