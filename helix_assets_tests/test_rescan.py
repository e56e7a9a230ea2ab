"""New redaction rules reach everything that was ever written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from helix_assets import evict, rescan
from helix_assets.core.retention import RetentionPolicy
from helix_assets.settings import load_settings
from helix_assets.storage.parquet import read_rows
from helix_assets.store import Store, open_store
from helix_assets.verify import verify
from helix_assets_tests.memory import Memory, conversation, prompt

WORD = "quokkaword1234"
RULES = f"[{{name = 'house-word', pattern = '{WORD}'}}]"


def with_new_rules(memory: Memory) -> Store:
    """The same store opened with a rule that the first sweep did not know."""
    memory.close()
    settings = memory.store.settings
    environ = {
        "HOME": str(memory.folder / "home"),
        "HELIX_DATA_DIR": str(settings.data_dir),
        "CLAUDE_CONFIG_DIR": str(memory.folder / "home" / "claude"),
        "HELIX_AGENTS": "claude",
        "HELIX_SWEEP_WORKERS": "1",
        "HELIX_REDACTION_RULES": RULES,
    }
    memory.store = open_store(load_settings(environ))
    return memory.store


def told(store: Store) -> str:
    """Everything stored, as text."""
    rows = [row for name in store.raw.names() for row in read_rows([store.raw.path(name)], raw=True)]
    with sqlite3.connect(store.data_dir / "helix.db") as connection:
        return repr(rows) + "".join(connection.iterdump())


@pytest.fixture
def memory(tmp_path: Path):
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    made.write("s1", prompt("p1", "10:00:00", f"the word is {WORD}", gitBranch=f"fix-{WORD}"), *conversation(1))
    made.sweep()
    yield made
    made.close()


def test_stored_session_is_redacted_by_new_rules(memory: Memory):
    assert WORD in told(memory.store)
    memory.path("s1").unlink()
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD not in told(store)
    assert store.catalog.session("claude:s1").redaction_version == store.redactor.version
    assert not verify(store)


def test_digest_of_an_evicted_session_is_redacted_by_new_rules(memory: Memory):
    policy = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=1, distilled_cap_bytes=10**9)
    evict.apply(memory.store, clock=lambda: memory.now, policy=policy)
    memory.path("s1").unlink()
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD not in told(store)
    assert memory.digest("claude:s1")["user_prompts"] == 2


def test_one_sweep_rescans_a_bounded_part(memory: Memory, monkeypatch):
    memory.write("s2", *conversation(2, session="b"))
    memory.sweep()
    monkeypatch.setattr("helix_assets.pipeline.RESCAN_BYTES", 1)
    store = with_new_rules(memory)
    versions = []
    for _ in range(2):
        memory.sweep()
        rows = store.catalog.sessions_by_uid(["claude:s1", "claude:s2"]).values()
        versions.append(sum(row.redaction_version == store.redactor.version for row in rows))
    assert versions == [1, 2]


def test_secret_in_a_file_name_is_hidden_by_new_rules(memory: Memory):
    memory.write(f"{WORD}x", *conversation(1, session="c"))
    memory.sweep()
    store = with_new_rules(memory)
    assert rescan.redact_names(store) > 0
    with sqlite3.connect(store.data_dir / "helix.db") as connection:
        paths = connection.execute("select path, path_key from sources").fetchall()
    assert not any(WORD in text for row in paths for text in row)
