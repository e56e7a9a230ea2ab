"""Do the totals add up? Digests, facts and stored messages have the same tokens and costs, however they are grouped.

Belongs here: this one promise, because it compares three sources. The others are in `promises`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from sqlalchemy import select

from helix_assets.derive.prices import picodollars
from helix_assets.model.errors import StoreError
from helix_assets.model.event import FACTS_SINCE
from helix_assets.prove.promises import Answer, sampled_files
from helix_assets.store.catalog.old_tables import digests, sessions
from helix_assets.store.store import Store

_KINDS = ("input", "output", "cache_read", "cache_write")


class _Session(NamedTuple):
    """What a digest says was spent. `pico` is None if a price is unknown; `has_facts` if facts belong to it."""

    uid: str
    agent: str
    day: str
    repo: str | None
    tokens: tuple[int, ...]
    pico: int | None
    has_facts: bool


class _Spent(NamedTuple):
    """What the facts of one session say was spent on one model. Agent and day are those of the file."""

    uid: str
    agent: str
    day: str
    model: str | None
    tokens: tuple[int, ...]
    pico: int | None


def token_totals_add_up(store: Store) -> Answer:
    """Tokens and costs are the same by session, day, repository, model and agent, in digests, facts and messages.

    A session's totals are the sum of its main thread and its subagents, and of its messages, each counted once.
    """
    digested, halves_differ, away = _digests(store)
    facts = _facts(store)
    sampled = _tokens_of_messages(sampled_files(store, covered=True))
    figures: dict[str, int] = {
        "main_and_subagents_differ": halves_differ,
        "days_differ_from_their_sessions": away,
        "messages_differ": sum(
            uid not in digested or digested[uid].tokens != tokens for uid, tokens in sampled.items()
        ),
        **_compared(
            [one for one in digested.values() if one.has_facts], facts, {uid: one.repo for uid, one in digested.items()}
        ),
    }
    holds = not any(figures.values())
    figures |= {
        "sessions": len(digested),
        "sessions_compared_with_their_messages": len(sampled),
        "tokens_over_sessions": sum(sum(one.tokens) for one in digested.values()),
        "tokens_over_facts": sum(sum(one.tokens) for one in facts),
        "models": len({one.model for one in facts}),
    }
    return Answer(holds, figures)


def _compared(digested: Sequence[_Session], facts: Sequence[_Spent], repos: Mapping[str, str | None]) -> dict[str, int]:
    """How many sessions, days, repositories and agents differ between facts and digests."""
    costs: dict[str, int | None] = {}
    for one in facts:
        before = costs.get(one.uid, 0)
        costs[one.uid] = None if before is None or one.pico is None else before + one.pico
    by_model: Counter[str | None] = Counter()
    for one in facts:
        by_model[one.model] += sum(one.tokens)
    return {
        "sessions_differ_from_their_facts": _differing(digested, facts, lambda one: one.uid, lambda one: one.uid),
        "days_differ_from_their_facts": _differing(digested, facts, lambda one: one.day, lambda one: one.day),
        "repos_differ_from_their_facts": _differing(
            digested, facts, lambda one: one.repo, lambda one: repos.get(one.uid)
        ),
        "agents_differ_from_their_facts": _differing(digested, facts, lambda one: one.agent, lambda one: one.agent),
        "models_differ_from_the_total": int(by_model.total() != sum(sum(one.tokens) for one in digested)),
        "costs_differ_from_their_facts": sum(costs[one.uid] != one.pico for one in digested if one.uid in costs),
    }


def _differing(
    digested: Sequence[_Session],
    facts: Sequence[_Spent],
    key_of_session: Callable[[_Session], str | None],
    key_of_fact: Callable[[_Spent], str | None],
) -> int:
    """How many groups differ between digests and facts in any kind of token."""
    sums: Counter[tuple[str | None, str]] = Counter()
    for session in digested:
        for kind, tokens in zip(_KINDS, session.tokens, strict=True):
            sums[key_of_session(session), kind] += tokens
    for fact in facts:
        for kind, tokens in zip(_KINDS, fact.tokens, strict=True):
            sums[key_of_fact(fact), kind] -= tokens
    return len({group for (group, _), rest in sums.items() if rest})


def _digests(store: Store) -> tuple[dict[str, _Session], int, int]:
    """What each session spent, how many differ from the sum of their halves, how many have another day."""
    s, d = sessions.c, digests.c
    digested: dict[str, _Session] = {}
    halves_differ = away = 0
    with store.catalog.reading() as connection:
        home = {uid: (flavor, day) for uid, flavor, day in connection.execute(select(s.session_uid, s.flavor, s.day))}
        for uid, flavor, day, repo, text in connection.execute(
            select(d.session_uid, d.flavor, d.day, d.repo, d.digest)
        ):
            digest = orjson.loads(text)
            both, main, sub = (_by_kind(digest[name]) for name in ("tokens", "tokens_main", "tokens_subagent"))
            halves_differ += both != tuple(map(sum, zip(main, sub, strict=True)))
            away += home.get(uid) != (flavor, day)
            usd = digest.get("cost_usd")
            pico = None if usd is None else picodollars(usd)
            digested[uid] = _Session(uid, flavor, day, repo, both, pico, digest["schema_version"] >= FACTS_SINCE)
    return digested, halves_differ, away


def _by_kind(tokens: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(tokens[kind] or 0 for kind in _KINDS)


_FACTS = """
select session_uid, filename, model, sum(input), sum(output), sum(cache_read), sum(cache_write_5m + cache_write_1h),
    case when count(cost_usd) = count(*) then sum(round(cost_usd * 1e12)::hugeint) end
from read_parquet($files, filename = true) group by all
"""


def _facts(store: Store) -> list[_Spent]:
    files = {str(store.facts.path(f.name)): f for f in store.catalog.fact_files() if f.fact == "token_usage"}
    found = []
    for uid, path, model, *numbers, pico in _query(_FACTS, list(files)):
        tokens = tuple(int(number) for number in numbers)
        spent = _Spent(uid, files[path].flavor, files[path].day, model, tokens, None if pico is None else int(pico))
        found.append(spent)
    return found


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
    """Tokens by kind of each session, from its stored rows: the last and largest line of each message counts."""
    rows = _query(_MESSAGES, [str(path) for path in files])
    return {uid: tuple(int(number or 0) for number in tokens) for uid, *tokens in rows}


def _query(query: str, files: Sequence[str]) -> list[tuple[Any, ...]]:
    """Run a query over files of the store."""
    import duckdb

    if not files:
        return []
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
            return connection.execute(query, {"files": list(files)}).fetchall()
    except (duckdb.IOException, duckdb.InvalidInputException) as exc:
        raise StoreError("a file of the store is missing or damaged: run `helix verify`") from exc
