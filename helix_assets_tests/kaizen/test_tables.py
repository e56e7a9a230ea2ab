"""The tables of kaizen: executions with their sessions, and the scorecard."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from helix_assets.ask.reading import proven_digest
from helix_assets.kaizen.derived import as_markdown, write_correlated, write_scorecard
from helix_assets.kaizen.metrics import read_projects
from helix_assets.kaizen.scorecard import scores
from helix_assets.keep.forget import forget
from helix_assets.keep.writing import writing
from helix_assets_tests.home import Memory
from helix_assets_tests.kaizen.conftest import ONE, TWO
from helix_assets_tests.kaizen.test_scorecard import digest

RECORDS = [
    {"helix_session_uid": ONE, "success": True, "tokens": 99},
    {"timestamp": "2026-06-06T10:02:00Z", "success": False},
    {"helix_session_uid": "claude:unknown"},
    {"timestamp": "2020-01-01T00:00:00Z"},
]


def correlated(memory: Memory, metrics: Path, *records: dict[str, object]) -> list[dict[str, object]]:
    metrics.write_text("".join(json.dumps(record) + "\n" for record in records))
    with writing(memory.store, "test"):
        read_projects(memory.store, "now")
        write_correlated(memory.store)
    rows: list[dict[str, object]] = pq.read_table(
        memory.store.data_dir / "kaizen" / "correlated_executions.parquet"
    ).to_pylist()
    return rows


def test_executions_stand_beside_their_sessions_figures(memory: Memory, metrics: Path) -> None:
    rows = correlated(memory, metrics, *RECORDS)
    assert [(row["session_uid"], row["link"]) for row in rows] == [
        (ONE, "reference"), (TWO, "inferred"), (None, None), (None, None)]  # fmt: skip
    told = proven_digest(memory.store, ONE)
    assert told is not None
    assert {
        name: rows[0][name] for name in ("agent", "reported_tokens", "tokens", "cost_usd", "outcome", "errors")
    } == {
        "agent": "coder",
        "reported_tokens": 99,
        "tokens": told.cost.input_tokens + told.cost.output_tokens,
        "cost_usd": told.cost_usd,
        "outcome": told.outcome,
        "errors": told.kind_counts["error"],
    }
    assert rows[0]["infra_overhead_share"] == 0.0


def test_sessions_that_no_execution_speaks_of_are_listed(memory: Memory, metrics: Path) -> None:
    correlated(memory, metrics, RECORDS[0])
    alone = pq.read_table(memory.store.data_dir / "kaizen" / "unmatched_sessions.parquet").to_pylist()
    assert [row["session_uid"] for row in alone] == [TWO]


def test_scorecard_is_a_table_and_a_page(memory: Memory) -> None:
    with writing(memory.store, "test"):
        found = write_scorecard(memory.store)
    folder = memory.store.data_dir / "kaizen"
    assert pq.read_table(folder / "agent_scorecard.parquet").num_rows == len(found) == 1
    page = (folder / "agent_scorecard.md").read_text()
    assert "## Week of 2026-06-01" in page
    assert "| claude | `shop` | 2 |" in page


def test_an_empty_memory_has_empty_tables(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    with writing(memory.store, "test"):
        assert write_scorecard(memory.store) == []
        assert write_correlated(memory.store).rate is None
    memory.close()


def test_a_repository_cannot_draw_in_the_page() -> None:
    page = as_markdown(scores([digest(repo="![x](http://evil/a.png)|<img src=x>`")], ()))
    assert "`xhttp://evil/a.pngimg src=x`" in page
    assert not set("![<") & set(page.split("## Week")[1])


def test_forgetting_drops_the_tables_until_they_are_rebuilt(memory: Memory, metrics: Path) -> None:
    correlated(memory, metrics, *RECORDS)
    forget(memory.store, [ONE], now=memory.now)
    assert not (memory.store.data_dir / "kaizen").exists()
    with writing(memory.store, "test"):
        write_correlated(memory.store)
    rows = pq.read_table(memory.store.data_dir / "kaizen" / "correlated_executions.parquet").to_pylist()
    assert [row["session_uid"] for row in rows] == [None, TWO, None, None]
