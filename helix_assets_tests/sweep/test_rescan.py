"""New redaction rules reach everything that was ever written."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from helix_assets.ask.export import session_figures
from helix_assets.ask.reading import proven_digest
from helix_assets.ask.status import read_status
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import StoreError
from helix_assets.prove.verify import verify
from helix_assets.prove.verify_secrets import surviving_secrets
from helix_assets.settings import load_settings
from helix_assets.store.catalog import live_files, meta, sessions
from helix_assets.store.catalog.catalog import index_bytes
from helix_assets.store.parquet import read_rows
from helix_assets.store.store import Store, open_store
from helix_assets.store.words.keep import DIGEST, live_names
from helix_assets.sweep import rescan
from helix_assets.sweep.commit import Batch, Committed, commit_batch
from helix_assets.sweep.pricing import REMEMBERED
from helix_assets_tests.home import Memory, answer, ask, call, conversation, prompt, result

WORD = "quokkaword1234"
RULES = f"[{{name = 'house-word', pattern = '{WORD}'}}]"


def with_new_rules(memory: Memory, rules: str = RULES) -> Store:
    """The same store opened with rules that the first sweep did not know."""
    memory.close()
    settings = memory.store.settings
    environ = {
        "HOME": str(memory.folder / "home"),
        "HELIX_DATA_DIR": str(settings.data_dir),
        "CLAUDE_CONFIG_DIR": str(memory.folder / "home" / "claude"),
        "HELIX_AGENTS": "claude",
        "HELIX_SWEEP_WORKERS": "1",
        "HELIX_REDACTION_RULES": rules,
    }
    memory.store = open_store(load_settings(environ))
    return memory.store


def told(store: Store) -> str:
    """Everything stored, as text."""
    rows = [row for name in store.raw.names() for row in read_rows([store.raw.path(name)], raw=True)]
    with closing(sqlite3.connect(store.data_dir / "helix.db")) as connection, connection:
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
    assert ask(store, sessions.one, "claude:s1").redaction_version == store.redactor.version
    assert not verify(store)


def test_digest_of_an_evicted_session_is_redacted_by_new_rules(memory: Memory):
    policy = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=1, distilled_cap_bytes=10**9)
    evict.apply(memory.store, clock=lambda: memory.now, policy=policy)
    memory.path("s1").unlink()
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD not in told(store)
    assert memory.digest("claude:s1")["user_prompts"] == 2


def test_evicted_session_that_grows_as_rules_change_keeps_nothing_of_what_they_hide(memory: Memory):
    """Its log begins anew, so that what is new is merged into a digest and facts that older rules were used on."""
    evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))
    memory.write("s1", *conversation(2, start=1))
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD.encode() not in stored_bytes(store)
    assert (memory.digest("claude:s1")["user_prompts"], verify(store)) == (4, [])


def test_session_that_is_rewritten_as_rules_change_leaves_no_byte_of_its_old_digest(memory: Memory):
    store = with_new_rules(memory)
    memory.write("s1", prompt("p1", "10:00:00", f"the word was {WORD}"), *conversation(2))
    memory.sweep()
    assert WORD.encode() not in stored_bytes(store)


def test_session_whose_digest_fails_under_new_rules_keeps_the_redacted_one(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):

    def failing(*_: object) -> None:
        raise ValueError("no")

    store = with_new_rules(memory)
    monkeypatch.setattr("helix_assets.derive.digest_builder.DigestBuilder.add", failing)
    memory.sweep()
    assert ask(store, sessions.one, "claude:s1").failure
    assert WORD not in told(store)
    assert proven_digest(store, "claude:s1")


@pytest.mark.parametrize("is_light", [False, True])
def test_damaged_session_is_not_written_anew_as_if_it_were_sound(memory: Memory, is_light: bool):
    memory.write("s1", answer("x", "10:50:00", "xylograph " * 400, message="m"), append=True)
    memory.sweep()
    usage = memory.raw_usage() + index_bytes(memory.store.data_dir)
    if is_light:
        evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(usage - 1, 1 << 40, 45, 1 << 40))
    memory.path("s1").unlink()
    paths = [memory.store.raw.path(name) for name in memory.store.raw.names()]
    path = next(path for path in paths if b"user_msg" in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b"user_msg", b"user_mzg", 1))
    memory.write("s2", *conversation(1, session="b"))
    store = with_new_rules(memory)
    assert "claude:s2" in memory.sweep().touched
    assert "claude:s1" in {violation.session_uid for violation in verify(store)}


def test_session_without_texts_is_still_told_as_such_after_new_rules(memory: Memory):
    memory.write("s1", answer("x", "10:50:00", "xylograph " * 400, message="m"), append=True)
    memory.sweep()
    usage = memory.raw_usage() + index_bytes(memory.store.data_dir)
    evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(usage - 1, 1 << 40, 45, 1 << 40))
    memory.path("s1").unlink()
    digests = [name for name in live_names(memory.store) if name.startswith(DIGEST)]
    store = with_new_rules(memory)
    memory.sweep()
    assert len(digests) == len([name for name in live_names(store) if name.startswith(DIGEST)]) == 1


def test_one_sweep_rescans_a_bounded_part(memory: Memory, monkeypatch):
    memory.write("s2", *conversation(2, session="b"))
    memory.sweep()
    monkeypatch.setattr("helix_assets.sweep.sweep.RESCAN_BYTES", 1)
    store = with_new_rules(memory)
    versions = []
    for _ in range(2):
        memory.sweep()
        rows = ask(store, sessions.by_uid, ["claude:s1", "claude:s2"]).values()
        versions.append(sum(row.redaction_version == store.redactor.version for row in rows))
    assert versions == [1, 2]


def test_newest_session_is_redacted_first_and_before_news_is_read(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    memory.write("s2", prompt("p2", "12:00:00", f"the newest, {WORD}"))
    memory.write("s3", prompt("p3", "09:00:00", f"the oldest, {WORD}"))
    memory.sweep()
    memory.write("s4", prompt("p4", "13:00:00", "news"))
    with_new_rules(memory)
    written = []

    def commit(store: Store, batch: Batch) -> Committed:
        written.append(list(batch.results))
        return commit_batch(store, batch)

    monkeypatch.setattr("helix_assets.sweep.rounds.REDERIVE_AT_ONCE", 1)
    monkeypatch.setattr("helix_assets.sweep.rounds.commit_batch", commit)
    memory.sweep()
    assert written == [["claude:s2"], ["claude:s1"], ["claude:s3"], ["claude:s4"]]


def test_memory_is_redacted_before_the_texts(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    store = with_new_rules(memory)
    assert not store.is_memory_redacted()
    killed_in(memory, monkeypatch, "helix_assets.sweep.sweep.unredacted_sessions")
    assert store.is_memory_redacted()
    with closing(sqlite3.connect(store.data_dir / "helix.db")) as connection, connection:
        assert WORD not in "".join(connection.iterdump()) + facts_of(store)
    assert WORD in told(store)
    assert ask(store, sessions.one, "claude:s1").redaction_version != store.redactor.version
    assert verify(store) == []


STEPS = ("sync", "rewrite_texts", "_digests_again", "_put_parts", "_remove", "rewrite", "truncate_log")


@pytest.mark.parametrize("step", STEPS)
def test_kill_while_the_memory_is_redacted_is_a_pause(memory: Memory, monkeypatch: pytest.MonkeyPatch, step: str):
    memory.write(f"{WORD}x", *conversation(1, session="c"))
    memory.sweep()
    store = with_new_rules(memory)
    killed_in(memory, monkeypatch, f"helix_assets.sweep.rescan.{step}")
    assert not store.is_memory_redacted()
    assert verify(store) == []
    memory.sweep()
    assert WORD.encode() not in stored_bytes(store)
    assert verify(store) == []
    assert memory.sweep().touched == set()


def killed_in(memory: Memory, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """A sweep ends where it would begin this step."""

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(step, kill)
        with pytest.raises(KeyboardInterrupt):
            memory.sweep()


def facts_of(store: Store) -> str:
    return repr([store.facts.read(file).to_pylist() for file in ask(store, live_files.fact_files)])


def test_session_that_grows_before_its_texts_are_through_is_rewritten(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    """Its digest is derived from all of its rows, so none of older rules may be left among them."""
    memory.write("s2", *conversation(2, session="b", start=5))
    memory.sweep()
    memory.write("s1", prompt("p9", "12:00:00", "more"), append=True)
    monkeypatch.setattr("helix_assets.sweep.sweep.RESCAN_BYTES", 1)
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD.encode() not in stored_bytes(store)
    assert (memory.digest("claude:s1")["user_prompts"], verify(store)) == (3, [])


def test_store_of_a_version_that_redacted_names_alone_is_redacted_whole(memory: Memory):
    store = with_new_rules(memory)
    with store.catalog.writing() as connection:
        meta.put(connection, "names_redacted_with", store.redactor.version)
        meta.put(connection, "names_read_as", "decoded")
    memory.sweep()
    assert WORD.encode() not in stored_bytes(store)
    assert ask(store, meta.value, "names_redacted_with") is None


def test_damaged_facts_stop_no_sweep_and_unreadable_ones_do(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    """What is damaged is shown by no reader. What cannot be read now may be readable later, and would be shown."""
    file = memory.fact_files()[0]
    path = memory.store.facts.path(file.name)
    store = with_new_rules(memory)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", failing_at(path))
        with pytest.raises(StoreError, match="cannot be read"):
            memory.sweep()
    assert not store.is_memory_redacted()
    path.write_bytes(b"damaged")
    memory.sweep()
    assert store.is_memory_redacted()


def failing_at(broken: Path) -> Callable[[Path], bytes]:
    read = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path == broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path)

    return read_bytes


def test_secret_in_a_file_name_is_hidden_by_new_rules(memory: Memory):
    memory.write(f"{WORD}x", *conversation(1, session="c"))
    memory.sweep()
    store = with_new_rules(memory)
    assert rescan.redact_memory(store) > 0
    with closing(sqlite3.connect(store.data_dir / "helix.db")) as connection, connection:
        paths = connection.execute("select path, path_key from sources").fetchall()
    assert not any(WORD in text for row in paths for text in row)


def stored_bytes(store: Store) -> bytes:
    """Every byte below the data folder, names of files too; Parquet as its text, for it is compressed."""
    texts = [told(store).encode()]
    for path in store.data_dir.rglob("*"):
        texts += [str(path).encode(), path.read_bytes() if path.is_file() else b""]
    texts += [repr(store.facts.read(file).to_pylist()).encode() for file in ask(store, live_files.fact_files)]
    return b"\n".join(texts)


@pytest.mark.parametrize("evicted", [False, True])
def test_no_byte_keeps_what_new_rules_hide(memory: Memory, evicted: bool):
    """In ids of sessions, errors and their fingerprints, log, notes and free pages of the catalog."""
    policy = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=1 << 40, max_age_days=400, distilled_cap_bytes=1 << 40)
    memory.write(f"{WORD}x", *conversation(1, session="c"))
    failed = result("r2", "11:00:02", "toolu_2", f"Error: {WORD} is not there", failed=True)
    memory.write("s2", prompt("p2", "11:00:00", WORD), call("c2", "11:00:01", "Bash", "toolu_2", command=WORD), failed)
    memory.sweep()
    if evicted:
        evict.apply(memory.store, clock=lambda: memory.now, policy=policy)
    assert WORD.encode() in stored_bytes(memory.store)
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD[:-4].encode() not in stored_bytes(store)
    assert verify(store) == []
    uids = ask(store, sessions.by_uid, list(session_figures(store)))
    assert len(uids) == 3
    assert sum("house_word" in uid for uid in uids) == 1
    assert memory.sweep().touched == set()


def test_prices_are_remembered_by_no_name_that_new_rules_hide(memory: Memory):
    line = answer("m1", "11:00:00", "done", message="m1").replace(b"claude-opus-4-5", f"own-{WORD}".encode())
    memory.write("s3", prompt("p3", "10:59:00", "go"), line)
    memory.sweep()
    assert WORD in str(ask(memory.store, meta.value, REMEMBERED))
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD not in str(ask(store, meta.value, REMEMBERED))


def test_rows_that_can_not_be_told_again_are_redacted_where_they_lie(memory: Memory):
    """A session that grew after its eviction, whose source is gone: its digest covers more than is stored."""
    policy = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=1 << 40, max_age_days=400, distilled_cap_bytes=1 << 40)
    evict.apply(memory.store, clock=lambda: memory.now, policy=policy)
    memory.write("s1", prompt("p9", "12:00:00", f"and {WORD}"), append=True)
    memory.sweep()
    before = memory.digest("claude:s1")
    memory.path("s1").unlink()
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD.encode() not in stored_bytes(store)
    assert verify(store) == []
    assert memory.digest("claude:s1")["record_count"] == before["record_count"] == 6


def named_by_word(at: str, name: str, parent: str | None) -> bytes:
    """A record of a type that no parser knows, with the word in its type, its id and its parent's."""
    return json.dumps({"type": f"note-{WORD}", "uuid": name, "parentUuid": parent, "cwd": "/home/u/shop",
                       "timestamp": f"2026-06-05T{at}.000Z"}).encode() + b"\n"  # fmt: skip


@pytest.mark.parametrize("is_gone", [False, True])
def test_ids_and_types_of_stored_records_are_redacted_by_new_rules(memory: Memory, is_gone: bool):
    first, second = f"first-of-them-{WORD}", f"second-of-them-{WORD}"
    log = memory.write("s2", named_by_word("12:00:00", first, None), named_by_word("12:00:01", second, first))
    memory.sweep()
    if is_gone:
        log.unlink()
    store = with_new_rules(memory)
    memory.sweep()
    assert WORD not in told(store)
    rows = list(read_rows([store.raw.path(part.name) for part in memory.parts("claude:s2")], raw=False))
    assert rows[1].parent_id == rows[0].record_id != rows[1].record_id
    assert rows[1].parent_seq == 0
    assert verify(store) == []
    assert surviving_secrets(store) == []


def test_record_with_a_redacted_id_is_the_same_one_when_its_log_is_read_anew(memory: Memory):
    lines = [named_by_word("12:00:00", f"first-of-them-{WORD}", None), *conversation(1, session="b")]
    memory.write("s2", *lines)
    memory.sweep()
    store = with_new_rules(memory)
    memory.sweep()
    memory.path("s2").unlink()
    memory.write("s2", prompt("p0", "09:00:00", "a line before"), *lines)
    memory.sweep()
    assert ask(store, sessions.one, "claude:s2").record_count == 6
    assert verify(store) == []


def test_ids_of_calls_that_hooks_told_are_redacted_by_new_rules(memory: Memory):
    store, told_of = memory.store, {"session_uid": "claude:s1", "event": "PreToolUse", "call_id": f"toolu_{WORD}"}
    with store.catalog.writing() as connection:
        connection.insert("hook_events", [{"at": "2026-06-05T10:00:00Z", **told_of}])
    assert WORD in told(with_new_rules(memory))
    memory.sweep()
    assert WORD not in told(memory.store)


def in_encoded_folder(memory: Memory) -> None:
    """A session of Grok below a folder whose name spells the word, and one beside it that cannot be read."""
    folder = f"grok/sessions/%2Fhome%2F{WORD.replace('k', '%6B')}"
    update = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hello"}}
    record = {"timestamp": 1780653600, "method": "session/update", "params": {"sessionId": "g1", "update": update}}
    memory.put(f"{folder}/g1/updates.jsonl", json.dumps(record).encode() + b"\n{bad\n")
    (memory.folder / "home" / folder / "g2").symlink_to(memory.folder / "home" / folder / "g1")


def test_name_that_spells_a_secret_is_hidden_from_the_first(tmp_path: Path):
    memory = Memory(tmp_path, {"HELIX_REDACTION_RULES": RULES})
    in_encoded_folder(memory)
    memory.sweep()
    assert "%6B" not in told(memory.store)
    assert "[redacted:house_word:" in told(memory.store)
    assert memory.sweep().files_changed == 0
    assert surviving_secrets(memory.store) == verify(memory.store) == []
    memory.close()


def test_name_that_spells_a_secret_is_hidden_by_new_rules(tmp_path: Path):
    memory = Memory(tmp_path)
    in_encoded_folder(memory)
    memory.sweep()
    assert "%6B" in told(memory.store)
    memory.close()
    memory = Memory(tmp_path, {"HELIX_REDACTION_RULES": RULES})
    assert surviving_secrets(memory.store)
    assert "%6B" not in repr(read_status(memory.store).trouble)
    memory.sweep()
    assert "%6B" not in told(memory.store)
    assert memory.sweep().files_changed == 0
    assert surviving_secrets(memory.store) == verify(memory.store) == []
    memory.close()
