"""`helix rederive` derives the sessions it is asked for from their stored records, and says what became of each."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from helix_assets.ask.reading import open_existing
from helix_assets.cli.main import run
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.settings import load_settings
from helix_assets.store.catalog import digests, meta, sessions
from helix_assets.store.catalog.connection import Row
from helix_assets.store.lock import writer_lock
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import conversation

SECOND, THIRD = (f"claude:{n}1111111-aaaa-4aaa-8aaa-000000000001" for n in "23")


@pytest.fixture
def three(swept: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Three swept sessions, none of whose logs is there any longer."""
    paths = [write_session(swept, uid, *conversation(2, session=uid)) for uid in (SECOND, THIRD)]
    assert run(["sweep"]) == 0
    for path in (*paths, write_session(swept, UID)):
        path.unlink()
    capsys.readouterr()
    return swept


def rederived(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """What the command says it did, without the time it took."""
    assert run(["rederive", *arguments, "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert said.pop("seconds") >= 0
    return said


def outcome(derived: list[str], *, rows: int = 0, up_to_date: int = 0, evicted: int = 0) -> dict[str, Any]:
    return {"derived": derived, "up_to_date": up_to_date, "evicted": evicted, "failed": [], "rows": rows}


def row_of(uid: str) -> Row:
    with closing(open_existing(load_settings())) as store, store.catalog.reading() as connection:
        return sessions.one(connection, uid)


def digest_of(uid: str) -> str:
    with closing(open_existing(load_settings())) as store, store.catalog.reading() as connection:
        row = digests.of(connection, uid)
        assert row is not None
        return str(row.digest)


def age(*uids: str) -> None:
    """Make these sessions ones that older rules derived."""
    with closing(open_existing(load_settings())) as store, store.catalog.writing() as connection:
        for uid in uids:
            connection.update("sessions", {"derivation_version": DIGEST_VERSION - 1}, "session_uid = ?", uid)
        meta.put(connection, "settled", "by older rules")


def test_without_options_what_older_rules_made_is_derived(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    age(UID, THIRD)
    rows = row_of(UID).row_count + row_of(THIRD).row_count
    assert rederived(capsys) == outcome([UID, THIRD], rows=rows, up_to_date=1)
    assert row_of(UID).derivation_version == DIGEST_VERSION
    assert rederived(capsys) == outcome([], up_to_date=3)


def test_only_the_session_asked_for_is_derived(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    age(UID, SECOND)
    assert rederived(capsys, "--session", "2111")["derived"] == [SECOND]
    assert row_of(UID).derivation_version == DIGEST_VERSION - 1


def test_day_and_agent_limit_it(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    age(UID, SECOND, THIRD)
    day = row_of(UID).day
    assert rederived(capsys, "--agent", "codex") == outcome([])
    assert rederived(capsys, "--day", "2020-01-01") == outcome([])
    assert rederived(capsys, "--day", day, "--agent", "claude")["derived"] == [UID, SECOND, THIRD]


def test_force_parses_the_stored_records_again_whatever_their_rules(
    three: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, generation = digest_of(SECOND), row_of(SECOND).generation
    assert rederived(capsys, "--session", SECOND) == outcome([], up_to_date=1)
    assert rederived(capsys, "--session", SECOND, "--force")["derived"] == [SECOND]
    after = row_of(SECOND)
    assert after.generation == generation + 1
    assert digest_of(SECOND).replace(f'"generation":{after.generation}', f'"generation":{generation}') == before
    assert run(["verify"]) == 0
    monkeypatch.setattr("helix_assets.agents.claude.adapter.ClaudeParser.feed", lambda *_: 1 / 0)
    age(SECOND)
    capsys.readouterr()
    assert rederived(capsys)["derived"] == [SECOND]
    assert '"unparsed_lines":0' in digest_of(SECOND)  # its rows were enough for that
    rederived(capsys, "--force")
    assert '"unparsed_lines":0' not in digest_of(SECOND)


def test_evicted_session_keeps_its_digest_and_is_counted(
    three: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "1")
    assert run(["evict", "--apply"]) == 0
    capsys.readouterr()
    before = digest_of(UID)
    assert rederived(capsys, "--force") == outcome([], evicted=3)
    assert digest_of(UID) == before


def test_what_cannot_be_derived_is_named_and_ends_with_1(
    three: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest_of(UID)
    with monkeypatch.context() as failing:
        failing.setattr("helix_assets.derive.digest_builder.DigestBuilder.finish", lambda *_: 1 / 0)
        said = rederived(capsys, "--session", UID, "--force", code=1)
    (failed,) = said["failed"]
    assert (said["derived"], failed["session_uid"], failed["failures"]) == ([], UID, 1)
    assert failed["failure"] == "ZeroDivisionError while the digest was built"
    assert digest_of(UID) == before
    assert rederived(capsys)["derived"] == [UID]  # at once, whatever the pause after a failure


def test_no_log_is_read(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = "claude:41111111-aaaa-4aaa-8aaa-000000000001"
    write_session(three, new, *conversation(1, session="new"))
    assert rederived(capsys, "--force")["derived"] == [UID, SECOND, THIRD]
    assert run(["digest", new]) == 1
    assert run(["sweep"]) == 0
    assert run(["digest", new]) == 0


def test_a_person_reads_counts(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    age(UID)
    assert run(["rederive"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "derived again 1" in said
    assert "up to date (--force derives them, too) 2" in said
    assert run(["rederive", "--day", "2020-01-01"]) == 0
    assert "No such session" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--session", "nobody"], 1), (["--session", "claude:"], 2), (["--agent", "nobody"], 2)]
)
def test_what_is_not_there_is_refused(
    three: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    assert run(["rederive", *arguments]) == code
    assert capsys.readouterr().out == ""


def test_busy_store_is_a_reason_to_try_again(
    three: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helix_assets.sweep.sweep.WAIT_S", 0.1)
    with writer_lock(load_settings().data_dir, "test"):
        assert run(["rederive"]) == 75
