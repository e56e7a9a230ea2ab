"""Programs that we do not control read the digests: by the lookup, and with nothing but SQLite, while a sweep runs."""

import ast
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from helix_assets.ask.digest_lookup import DAMAGED, FOUND, MISSING, MISUSED, WITHHELD, main
from helix_assets.ask.reading import proven_digest
from helix_assets.keep.writing import writing
from helix_assets.settings.rules_stamp import rules_stamp
from helix_assets.store.catalog import digests, meta
from helix_assets.store.key import text_hash
from helix_assets.store.store import open_store
from helix_assets_tests.home import Memory, ask, conversation

OURS = {
    f"helix_assets.{name}"
    for name in (
        *("ask", "ask.digest_lookup", "model", "model.terminal", "settings", "settings.rules_stamp"),
        *("store", "store.catalog", "store.catalog.lookup"),
    )
}
"""All of the product that is loaded for a digest: it has five milliseconds."""
UID = "claude:11111111-aaaa-4aaa-8aaa-000000000001"
COLUMNS = ("session_uid", "digest", "flavor", "repo", "domain", "outcome", "started_at", "ended_at", "schema_version")
# A reader of another product: the standard library alone, another process, read-only.
_READER = f"""
import json, sqlite3, sys
db = sqlite3.connect(f"file:{{sys.argv[1]}}?mode=ro", uri=True)
rows = db.execute("select {", ".join(COLUMNS)} from digests order by session_uid").fetchall()
print(json.dumps([[uid, json.loads(digest)["session_uid"], *rest] for uid, digest, *rest in rows]))
"""


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    memory = Memory(tmp_path, {"HELIX_CONFIG": os.environ["HELIX_CONFIG"]})
    for number in (1, 2):
        memory.write(f"11111111-aaaa-4aaa-8aaa-00000000000{number}", *conversation(2, session=str(number)))
    memory.sweep()
    memory.close()
    monkeypatch.setenv("HELIX_STORE_DB", str(memory.store.settings.catalog_path))
    return memory


def read(memory: Memory) -> list[list[object]]:
    command = [sys.executable, "-I", "-c", _READER, str(memory.store.settings.catalog_path)]
    rows: list[list[object]] = orjson.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return rows


def test_bare_sqlite_reads_the_digests_in_the_middle_of_a_sweep(memory: Memory) -> None:
    opened = closing(open_store(memory.store.settings))
    with opened as store, writing(store, "test"), store.catalog.writing() as connection:
        connection.execute("update digests set repo = 'half done'")
        rows = read(memory)
    assert [row[:4] for row in rows] == [[uid, uid, "claude", "shop"] for uid in (UID, UID[:-1] + "2")]


def test_an_old_reader_keeps_working_when_columns_are_added(memory: Memory) -> None:
    before = read(memory)
    with closing(sqlite3.connect(memory.store.settings.catalog_path)) as connection, connection:
        connection.execute("alter table digests add column added_later text")
    assert read(memory) == before


def test_a_hit_is_told_and_ends_with_0(memory: Memory, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([UID, "--json"]) == FOUND
    assert orjson.loads(capfd.readouterr().out)["session_uid"] == UID
    assert main([UID]) == FOUND
    assert f"session_uid: {UID}\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["claude:nobody"], MISSING, "no digest of 'claude:nobody'"),
        (["claude:\udcff"], MISSING, "no digest of 'claude:\\udcff'"),
        ([], MISUSED, "usage"),
        (["--jsn", UID], MISUSED, "usage"),
        (["11111111"], MISUSED, "may mean any of these"),
    ],
)
def test_what_cannot_be_answered_is_said(
    memory: Memory, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert main(arguments) == code
    out, err = capfd.readouterr()
    assert not out
    assert said in err


def test_the_first_characters_will_do(memory: Memory) -> None:
    assert main([UID.removeprefix("claude:")]) == FOUND


def test_a_store_that_is_not_there_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIX_STORE_DB", str(tmp_path / "none" / "helix.db"))
    assert main([UID]) == MISSING
    assert "helix sweep" in capfd.readouterr().err
    assert not (tmp_path / "none").exists()


def test_without_the_variable_the_data_folder_is_asked(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HELIX_STORE_DB")
    monkeypatch.setenv("HELIX_DATA_DIR", str(memory.store.data_dir))
    assert main([UID]) == FOUND


def test_the_variable_never_redirects_a_sweep(memory: Memory, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "helix.db"
    other = Memory(tmp_path / "other", environ={"HELIX_STORE_DB": str(elsewhere)})
    other.write("s1", *conversation(1))
    other.sweep()
    assert proven_digest(other.store, "claude:s1") is not None
    assert not elsewhere.exists()
    other.close()


def test_a_damaged_digest_is_no_answer(memory: Memory, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(memory.store.settings.catalog_path)) as connection, connection:
        connection.execute("update digests set digest = replace(digest, 'shop', 'shup')")
    assert main([UID]) == DAMAGED
    assert "damaged" in capfd.readouterr().err


def test_a_digest_that_is_no_text_is_not_quoted(memory: Memory, capfd: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(memory.store.settings.catalog_path)) as connection, connection:
        connection.execute("update digests set digest = cast(x'6f6464ff' as text)")
    assert main([UID]) == DAMAGED
    said = capfd.readouterr().err
    assert "a value in it is damaged" in said
    assert "odd" not in said


def test_a_file_that_is_no_store_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helix.db").write_bytes(b"no database at all")
    monkeypatch.setenv("HELIX_STORE_DB", str(tmp_path / "helix.db"))
    assert main([UID]) == DAMAGED


def refused(capfd: pytest.CaptureFixture[str]) -> bool:
    """Whether the lookup ends with 75, prints nothing, and says in one sentence what to do."""
    code = main([UID, "--json"])
    out, err = capfd.readouterr()
    return (code, out, err.count("\n"), "helix sweep" in err) == (WITHHELD, "", 1, True)


def test_a_digest_is_withheld_until_a_sweep_has_used_a_new_rule(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIX_REDACTION_RULES", '[{name = "steps", pattern = "please do step [0-9]"}]')
    assert refused(capfd)
    assert main(["claude:nobody"]) == MISSING
    again = Memory(memory.folder, {**memory.environ, "HELIX_REDACTION_RULES": os.environ["HELIX_REDACTION_RULES"]})
    again.sweep()
    again.close()
    capfd.readouterr()
    assert main([UID, "--json"]) == FOUND
    assert orjson.loads(capfd.readouterr().out)["first_prompt"].startswith("[redacted:steps")


def test_a_digest_of_a_store_that_an_earlier_version_swept_is_withheld(
    memory: Memory, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(memory.store.settings.catalog_path)) as connection, connection:
        connection.execute("delete from meta where name = 'memory_redacted_with'")
    assert refused(capfd)


def test_rules_that_cannot_be_read_withhold_every_digest(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIX_REDACTION_RULES", "no rules")
    assert refused(capfd)


def test_settings_without_a_change_of_the_rules_withhold_nothing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_REDACTION_RULES", "[]")
    with closing(open_store(memory.store.settings)) as store:
        assert rules_stamp(os.environ) != ask(store, meta.value, "rules_stamp")
    assert main([UID, "--json"]) == FOUND


def test_lookup_loads_neither_dagster_nor_the_product(memory: Memory) -> None:
    code = "import sys; from helix_assets.ask.digest_lookup import main; main(sys.argv[1:]); print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code, UID], check=True, capture_output=True, text=True)
    loaded = ast.literal_eval(run.stdout.splitlines()[-1])
    assert {name for name in loaded if name.startswith("helix_assets.")} == OURS
    assert not {name.partition(".")[0] for name in loaded} & {"dagster", "sqlalchemy", "pydantic", "pyarrow", "click"}


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_reader_who_leaves_early_sees_no_traceback(memory: Memory, options: str) -> None:
    fields = {f"field {number}": "x" * 1000 for number in range(1000)}  # more than a pipe holds
    with closing(open_store(memory.store.settings)) as store, store.catalog.writing() as connection:
        text = orjson.dumps(fields).decode()
        digests.change(connection, UID, digest=text, hash=text_hash(memory.store.key, text.encode()))
    command = f"{sys.executable} -m helix_assets.digest_lookup {UID} {options}"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -c 1"], check=False, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (FOUND, "")
