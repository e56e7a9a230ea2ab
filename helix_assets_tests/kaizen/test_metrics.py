"""A project's executions are read as they grow, never written, and kept redacted."""

import json
import os
from pathlib import Path

import pytest

from helix_assets.kaizen.metrics import Read, read_executions, read_projects
from helix_assets.keep.forget import forget
from helix_assets.keep.writing import writing
from helix_assets_tests.home import Memory
from helix_assets_tests.kaizen.conftest import ONE

SECRET = "ghp_" + "k8Zq2VfX1mB7tYw4RjN6cLs9PaHe3DuG5oQi"


def line(**record: object) -> bytes:
    return json.dumps(record).encode() + b"\n"


def read(memory: Memory) -> Read:
    with writing(memory.store, "test"):
        return read_projects(memory.store, "2026-06-20T12:00:00.000Z")


def found(memory: Memory) -> list[str]:
    return [execution.place.rpartition("/")[2] for execution in read_executions(memory.store)]


def test_only_what_is_new_is_read(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(line(n=1) + line(n=2))
    assert read(memory).records_new == 2
    assert read(memory) == Read(files=1)
    with metrics.open("ab") as file:
        file.write(line(n=3))
    assert read(memory).records_new == 1
    assert found(memory) == [f"executions.jsonl:{n}" for n in (1, 2, 3)]


def test_a_line_without_its_end_waits(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(line(n=1) + b'{"n": 2')
    assert read(memory).records_new == 1
    with metrics.open("ab") as file:
        file.write(b"}\n" + line(n=3))
    assert read(memory).records_new == 2
    assert found(memory) == [f"executions.jsonl:{n}" for n in (1, 2, 3)]


def test_a_whole_record_does_not_wait_for_its_newline(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(b'{"n": 1}')
    assert read(memory).records_new == 1
    with metrics.open("ab") as file:
        file.write(b"\n" + line(n=2))
    assert read(memory).records_new == 1
    assert found(memory) == ["executions.jsonl:1", "executions.jsonl:2"]


def test_a_rewritten_file_is_read_from_the_start(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(line(n=1) + line(n=2))
    read(memory)
    metrics.write_bytes(line(n=7, helix_session_uid=ONE))
    read(memory)
    assert [execution.session_uid for execution in read_executions(memory.store)] == [ONE]


def test_what_is_no_record_is_counted_and_named_by_its_line(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(line(n=1) + b"not json\n[1]\n\xff\xfe\n\n" + line(n=2))
    done = read(memory)
    assert (done.records_new, done.lines_unparsed) == (2, 3)
    with memory.store.catalog.reading() as connection:
        named = connection.tuples("SELECT line, flavor FROM problems ORDER BY line")
    assert named == [(2, "kaizen"), (3, "kaizen"), (4, "kaizen")]


def test_a_projects_files_stay_as_they_are(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(line(n=1))
    metrics.chmod(0o444)
    before = (metrics.read_bytes(), metrics.stat().st_mtime_ns, sorted(os.listdir(metrics.parent)))
    read(memory)
    assert (metrics.read_bytes(), metrics.stat().st_mtime_ns, sorted(os.listdir(metrics.parent))) == before


def test_a_link_is_not_followed_and_a_missing_project_is_counted(
    memory: Memory, metrics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (metrics.parent / "real.jsonl").write_bytes(line(n=1))
    metrics.symlink_to(metrics.parent / "real.jsonl")
    assert read(memory).files_unreadable == 1
    assert found(memory) == []
    os.rename(metrics.parents[3], metrics.parents[3].with_name("moved"))
    assert read(memory).projects_missing == 1


def test_a_folder_that_loops_is_counted_and_the_others_are_read(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(line(n=1))
    loop = metrics.parents[1] / "loop"
    loop.symlink_to(loop)
    assert read(memory) == Read(files=1, files_read=1, files_unreadable=1, records_new=1)


def test_secrets_are_redacted_before_anything_is_stored(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(line(note=f"token {SECRET}", helix_session_uid=ONE))
    read(memory)
    memory.store.catalog.close()
    stored = b"".join(path.read_bytes() for path in memory.store.data_dir.rglob("*") if path.is_file())
    assert SECRET.encode() not in stored


def test_newer_rules_reach_what_is_kept(memory: Memory, metrics: Path, tmp_path: Path) -> None:
    metrics.write_bytes(line(note="the word is swordfish", helix_session_uid=ONE))
    read(memory)
    rules = '[{name = "word", pattern = "swordfish"}]'
    again = Memory(tmp_path, environ={**memory.environ, "HELIX_REDACTION_RULES": rules})
    again.sweep()
    with again.store.catalog.reading() as connection:
        record = connection.value("SELECT record FROM executions")
    assert "swordfish" not in record["note"]
    again.close()


def test_a_forgotten_session_is_named_no_more(memory: Memory, metrics: Path) -> None:
    metrics.write_bytes(line(helix_session_uid=ONE))
    read(memory)
    forget(memory.store, [ONE], now=memory.now)
    with metrics.open("ab") as file:
        file.write(line(helix_session_uid=ONE))
    read(memory)
    uids = {execution.session_uid for execution in read_executions(memory.store)}
    assert all(uid and uid.startswith("forgotten:") for uid in uids)
    assert len(uids) == 1
