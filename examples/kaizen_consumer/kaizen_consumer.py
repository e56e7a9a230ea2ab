"""A project that depends on the memory's digests without knowing helix_assets: an asset key and an SQLite file."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import dagster as dg

# Theirs: named here so that ours may depend on it. In one workspace both are the same node of the graph.
session_digests = dg.AssetSpec("session_digests", description="One digest per session, made by helix_assets.")

WHEN_DIGESTS_CHANGE = dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())


def store_db() -> Path:
    """The SQLite file of the memory."""
    return Path(os.environ["HELIX_STORE_DB"])


def rows(query: str, *values: object) -> list[tuple]:
    """What the memory answers, which is never written to."""
    with closing(sqlite3.connect(f"{store_db().absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(query, values).fetchall()


@dg.asset(deps=[session_digests], automation_condition=WHEN_DIGESTS_CHANGE, group_name="kaizen_consumer")
def daily_output_tokens() -> dg.MaterializeResult:
    """Output tokens by day and agent, read by nothing but SQLite."""
    totals: dict[str, int] = {}
    query = "select substr(started_at, 1, 10), flavor, digest from digests where started_at is not null"
    for day, flavor, digest in rows(query):
        name = f"{day} {flavor}"
        totals[name] = totals.get(name, 0) + json.loads(digest)["cost"]["output_tokens"]
    return dg.MaterializeResult(metadata={"days": len(totals), "output_tokens": sum(totals.values())})


@dg.asset(deps=[session_digests], automation_condition=WHEN_DIGESTS_CHANGE, group_name="kaizen_consumer")
def caught_up(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """What is new in the feed since the last run: each change once, for the result keeps the last position."""
    before = context.instance.get_latest_materialization_event(context.asset_key)
    last = 0
    if before is not None and before.asset_materialization is not None:
        last = int(before.asset_materialization.metadata["position"].value)
    entries = rows("select position, change from feed where position > ? order by position", last)
    position = entries[-1][0] if entries else last
    return dg.MaterializeResult(metadata={"position": position, "entries": len(entries)})


defs = dg.Definitions(assets=[session_digests, daily_output_tokens, caught_up], executor=dg.in_process_executor)
