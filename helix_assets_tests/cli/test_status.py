"""`helix status` shows what the memory contains and what went wrong, quickly, and creates nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from helix_assets.ask.status import read_status
from helix_assets.cli.main import run
from helix_assets.settings import load_settings
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import open_store
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.cli.test_main import run_python
from helix_assets_tests.home import conversation, line, statements_of


def status(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["status", "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_missing_store_is_reported_and_not_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status"]) == 0
    assert "`helix sweep`" in capsys.readouterr().out
    assert not (home / "data").exists()


def test_empty_store_has_no_agents(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep"]) == 0
    capsys.readouterr()
    assert status(capsys)["agents"] == []


def test_figures_by_agent(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (agent,) = status(capsys)["agents"]
    log = write_session(swept, UID, *conversation(3))
    assert (agent["flavor"], agent["sessions"], agent["evicted"]) == ("claude", 1, 0)
    assert agent["source_bytes"] == log.stat().st_size
    assert agent["tokens"]["output"] == 3 * 5 + 10 + 11 + 12


def test_usage_is_set_against_the_caps(
    swept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "1KiB")
    usage = status(capsys)["usage"]
    assert usage["raw_soft_cap_bytes"] == 1024 < usage["raw_bytes"]
    assert run(["status"]) == 0
    assert "over its soft cap: `helix evict --dry-run`" in capsys.readouterr().out


def test_uncovered_and_failed_sessions_are_counted_with_the_reason(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(load_settings())
    with store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET derived_generation = NULL, failure = 'it broke', failures = 3")
    store.close()
    trouble = status(capsys)["trouble"]
    assert (trouble["uncovered"], trouble["failed_count"]) == (1, 1)
    assert trouble["failed"] == [{"session_uid": UID, "failure": "it broke", "failures": 3, "retry_at": None}]


def test_record_type_that_is_not_known_yet_is_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(home, UID, *conversation(1), line("brand_new_type", "n1", "11:00:00"))
    assert run(["sweep"]) == 0
    capsys.readouterr()
    assert status(capsys)["unknown_types"] == {"claude": {"brand_new_type": 1}}
    (tally,) = status(capsys)["unknown_by_version"]["claude"].values()
    assert tally["unknown"] == 1
    assert run(["status"]) == 0
    assert "brand_new_type" in capsys.readouterr().out


def test_bad_line_is_shown_with_its_place(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_session(home, UID, *conversation(1), b"{broken\n")
    assert run(["sweep"]) == 0
    capsys.readouterr()
    assert run(["status"]) == 0
    assert f"{path}:5" in capsys.readouterr().out


def test_vanished_source_is_counted(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(swept, UID).unlink()
    assert run(["sweep"]) == 0
    capsys.readouterr()
    assert status(capsys)["sources"] == {"gone": 1}


def test_versions_are_reported(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions = status(capsys)["versions"]
    (held,) = versions["parsers"]["claude"]["sessions"].items()
    assert held == (str(versions["parsers"]["claude"]["current"]), 1)
    assert list(versions["derivation"]["sessions"].values()) == [1]


def test_holder_of_the_lock_is_named(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(capsys)["writer"] is None
    with writer_lock(swept / "data", "sweep"):
        assert "(sweep)" in status(capsys)["writer"]


def test_damaged_digest_is_counted_and_not_added_up(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store(load_settings())
    with store.catalog.writing() as connection:
        connection.execute("UPDATE digests SET digest = '{}'")
    store.close()
    (agent,) = status(capsys)["agents"]
    assert (agent["damaged"], agent["events"]) == (1, 0)


@pytest.mark.parametrize("facts", ["null", "", "[]", "7"])
def test_facts_that_are_not_an_object_count_as_none(
    swept: Path, capsys: pytest.CaptureFixture[str], facts: str
) -> None:
    store = open_store(load_settings())
    with store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET facts = ?", (facts,))
    store.close()
    assert status(capsys)["unknown_types"] == {}


def test_lost_key_is_reported_and_not_rebuilt(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (swept / "data" / "key").unlink()
    assert run(["status"]) == 65
    assert "restore it from the backup" in capsys.readouterr().err
    assert not (swept / "data" / "key").exists()


def test_work_does_not_grow_with_the_sessions(swept: Path) -> None:
    """Ten thousand sessions cost as many statements as one, and each digest is read once."""
    settings = load_settings()
    store = open_store(settings)
    read_status(store)  # asks once which rules are in force
    with statements_of(store.catalog) as for_one:
        read_status(store)
    with store.catalog.writing() as connection:
        session = connection.execute("SELECT * FROM sessions").fetchone().as_dict() | {"id": None}
        digest = connection.execute("SELECT * FROM digests").fetchone().as_dict() | {"position": None}
        names = [f"{UID}-{number}" for number in range(9_999)]
        connection.insert("sessions", [session | {"session_uid": name} for name in names])
        connection.insert("digests", [digest | {"session_uid": name} for name in names])
    with statements_of(store.catalog) as for_many:
        found = read_status(store)
    store.close()
    assert found.agents[0].sessions == 10_000
    assert len(for_many) == len(for_one)


def test_status_loads_no_heavy_library(swept: Path) -> None:
    ended = run_python("-c", "import sys; from helix_assets.cli.main import run; run(['status']); print(*sys.modules)")
    imported = {name.partition(".")[0] for name in ended.stdout.split()}
    assert "sqlite3" in imported
    assert not imported & {"pyarrow", "pandas", "dagster", "duckdb", "pydantic", "numpy"}
