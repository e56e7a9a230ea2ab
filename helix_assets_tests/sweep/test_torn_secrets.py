"""A secret that an agent wrote in pieces, each a record, is whole nowhere, however sweeps split them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helix_assets import agents
from helix_assets.agents.grok.adapter import GrokAdapter
from helix_assets.agents.grok.spec import SPEC
from helix_assets.agents.jsonl import CHUNK_BYTES
from helix_assets.ask.reading import open_session
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import WithheldError
from helix_assets.prove.verify import verify
from helix_assets.prove.verify_secrets import surviving_secrets
from helix_assets.redaction import redactor
from helix_assets.settings import load_settings
from helix_assets.store.catalog import meta
from helix_assets.store.parquet import read_rows
from helix_assets.store.store import RULES_STAMP, open_store
from helix_assets.sweep.rescan import part_again
from helix_assets_tests.conftest import SWEEPING
from helix_assets_tests.home import Memory, cut
from helix_assets_tests.redaction.made_up import made_up

NATIVE = "01a04a00-0000-7000-8000-0000000000ab"
UID = f"grok:{NATIVE}"
LOG = f"grok/sessions/%2Frepo/{NATIVE}/updates.jsonl"
TOKEN = made_up("ghp_{an36}", 1)
PASSWORD = made_up("{an20}7q", 2)
SAID = ["your to", "ken is gh", TOKEN[2:14], TOKEN[14:29], TOKEN[29:], " .\nDB_PASSWORD", "=", PASSWORD[:9],
        PASSWORD[9:], " ok"]  # fmt: skip


def line(number: int, **update: object) -> bytes:
    meta = {"eventId": f"S-{number}", "agentTimestampMs": 1_787_950_800_000 + number}
    return json.dumps({"params": {"sessionId": "s", "update": update, "_meta": meta}}).encode() + b"\n"


def chunks(pieces: list[str], kind: str = "agent_message_chunk") -> list[bytes]:
    return [
        line(number, sessionUpdate=kind, content={"type": "text", "text": piece})
        for number, piece in enumerate(pieces, 1)
    ]


END = line(900, sessionUpdate="turn_completed", prompt_id="p", stop_reason="end_turn")


def stored_pieces(memory: Memory) -> str:
    """What the stored lines say one after the other."""
    rows = [row for name in memory.store.raw.names() for row in read_rows([memory.store.raw.path(name)], raw=True)]
    records = [json.loads(row.raw) for row in sorted(rows, key=lambda row: row.seq) if row.raw]
    updates = [record["params"]["update"] for record in records if "params" in record]
    return "".join(update["content"]["text"] for update in updates if "content" in update)


def has_a_part_of(secret: str, text: str, length: int = 8) -> bool:
    return any(secret[at : at + length] in text for at in range(len(secret) - length))


def is_hidden(memory: Memory) -> bool:
    """Whether no part of the secrets is in anything stored, and what is stored is found to hold none."""
    seen = stored_pieces(memory) + memory.exported().decode() + json.dumps(memory.digest(UID), default=str)
    return not has_a_part_of(TOKEN[4:], seen) and not has_a_part_of(PASSWORD, seen) and not leaks(memory)


def leaks(memory: Memory) -> list[object]:
    return [*verify(memory.store), *surviving_secrets(memory.store)]


@pytest.mark.parametrize("kind", ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"])
@pytest.mark.parametrize("end", [b"", END])
def test_secret_in_pieces_is_in_nothing_that_is_stored(tmp_path: Path, kind: str, end: bytes):
    memory = Memory(tmp_path)
    memory.put(LOG, b"".join(chunks(SAID, kind)) + end)
    assert memory.sweep().redactions == 2
    assert is_hidden(memory)
    assert memory.exported().count(b"[redacted:github]") >= 2  # in its line and in its event
    memory.close()


@settings(SWEEPING, derandomize=True)
@given(places=st.lists(st.integers(0, 4000), min_size=1, max_size=4), is_ended=st.booleans())
def test_export_is_the_same_however_sweeps_split_a_message(places: list[int], is_ended: bool):
    data = b"".join(chunks(["hello "])) + END + b"".join(chunks(SAID, "agent_thought_chunk")) + END * is_ended
    exports = []
    with tempfile.TemporaryDirectory() as folder:
        for name, steps in (("split", cut(data, places)), ("once", [data])):
            memory = Memory(Path(folder) / name)
            for step in steps:
                memory.put(LOG, step, append=True)
                memory.sweep()
                if any(memory.store.raw.names()):
                    assert is_hidden(memory)
            exports.append(memory.exported())
            memory.close()
    assert exports[0] == exports[1]


def test_secret_across_what_is_read_at_a_time_is_found(tmp_path: Path):
    memory = Memory(tmp_path)
    data = b"".join(chunks(["long text " * 4000] * (CHUNK_BYTES // 20_000) + SAID))
    at = data.index(TOKEN[14:29].encode())
    for pad in (at % CHUNK_BYTES, (at + 32 << 10) % CHUNK_BYTES):
        filler = line(0, sessionUpdate="plan", text="x" * (CHUNK_BYTES - pad))
        memory.put(LOG, filler + data)
        memory.sweep()
        assert is_hidden(memory)
    memory.close()


@pytest.fixture
def leaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A store as it was when each line was redacted by itself."""
    memory = Memory(tmp_path)
    memory.put(LOG, b"".join(chunks(SAID)) + END)
    with monkeypatch.context() as patch:
        patch.setitem(agents._BUILT_IN, "grok", replace(SPEC, pieces=""))
        patch.setattr(GrokAdapter, "version", 3)
        patch.setattr(redactor, "_REVISION", 7)
        for sweep in (lambda: None, memory.sweep):
            sweep()
            with memory.store.catalog.writing() as connection:
                meta.put(connection, RULES_STAMP, "of other modules")
    memory.close()
    memory.store = open_store(memory.store.settings)
    return memory


def test_pieces_that_were_stored_one_by_one_are_found_by_verify(leaky: Memory):
    assert TOKEN in stored_pieces(leaky)
    whats = {survivor.what for survivor in surviving_secrets(leaky.store)}
    assert "a secret by the rules in force, in pieces of one message" in whats
    leaky.close()


@pytest.mark.parametrize("is_log_there", [True, False])
def test_pieces_that_were_stored_one_by_one_are_redacted_together_by_the_next_sweep(leaky: Memory, is_log_there: bool):
    if not is_log_there:
        (leaky.folder / "home" / LOG).unlink()
    leaky.sweep()
    assert is_hidden(leaky)
    leaky.close()


def test_part_that_is_written_anew_where_it_lies_is_redacted_together(leaky: Memory):
    (name,) = leaky.store.raw.names()
    made = part_again(leaky.store, UID, leaky.store.raw.path(name), leaky.store.raw.staging / "again")
    raws = [json.loads(row.raw) for row in read_rows([leaky.store.raw.staging / made.name], raw=True) if row.raw]
    said = "".join(raw["params"]["update"].get("content", {}).get("text", "") for raw in raws)
    assert said.startswith("your token is [redacted:github:")
    assert not has_a_part_of(PASSWORD, said)
    leaky.close()


def test_new_rule_finds_what_lies_in_several_stored_pieces(tmp_path: Path):
    memory = Memory(tmp_path)
    memory.put(LOG, b"".join(chunks(["the badge QUOK", "KA-12", "34", "56 is new"])) + END)
    memory.sweep()
    (memory.folder / "home" / LOG).unlink()
    memory.close()
    rules = "[{name = 'badge', pattern = 'QUOKKA-[0-9]{6}'}]"
    environ = {"HOME": str(memory.folder / "home"), "GROK_HOME": str(memory.folder / "home" / "grok")}
    environ |= {"HELIX_DATA_DIR": str(memory.store.data_dir), "HELIX_SWEEP_WORKERS": "1"}
    memory.store = open_store(load_settings({**environ, "HELIX_AGENTS": "grok", "HELIX_REDACTION_RULES": rules}))
    with pytest.raises(WithheldError), open_session(memory.store, UID):
        pass
    memory.sweep()
    with open_session(memory.store, UID) as session:
        rows = list(session.rows(raw=True))
        alone = session.record(rows[2].seq)
    said = [json.loads(row.raw)["params"]["update"]["content"]["text"] for row in rows[:4] if row.raw]
    assert said[0].startswith("the badge [redacted:badge:")
    assert said[1:] == ["", "", " is new"]
    assert alone is not None
    assert alone.raw == rows[2].raw
    assert leaks(memory) == []
    memory.close()


def test_evicted_session_that_grows_within_a_message_stays_redacted(tmp_path: Path):
    memory = Memory(tmp_path)
    memory.put(LOG, b"".join(chunks(SAID)[:4]))
    memory.sweep()
    evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))
    assert not any(memory.store.raw.names())
    memory.put(LOG, b"".join(chunks(SAID)[4:]) + END, append=True)
    memory.sweep()
    assert is_hidden(memory)
    memory.close()


def test_history_of_a_fork_that_a_sweep_tore_is_hidden_once_it_goes_on(tmp_path: Path):
    memory = Memory(tmp_path)
    made = {"created_at": "2099-01-01T00:00:00.000Z", "updated_at": "2099-01-01T00:00:10.000Z"}
    fork = {
        "info": {"id": NATIVE, "cwd": "/repo"},
        "session_kind": "fork",
        "parent_session_id": NATIVE[:-2] + "cd",
        **made,
    }
    memory.put(LOG.replace("updates.jsonl", "summary.json"), json.dumps(fork).encode())
    pieces = chunks(["the token is gh", TOKEN[2:14], TOKEN[14:29], TOKEN[29:] + " ok"])
    memory.put(LOG, b"".join(pieces[:2]))
    memory.sweep()
    memory.put(LOG, b"".join(pieces[2:]), append=True)
    memory.sweep()
    assert not has_a_part_of(TOKEN[4:], stored_pieces(memory))
    assert not leaks(memory)


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        (["connect with postgres://app:", "Xk29dkeLw0", "2qZZ7"], "Xk29dkeLw02qZZ7"),
        (['export API_KEY="BvVo', "rzXIk2"], "BvVorzXIk2"),
        (["curl -H 'Authorization: Bearer Ab3d", "E6gH1j"], "Ab3dE6gH1j"),
    ],
)
def test_what_may_become_a_secret_is_hidden_while_a_message_is_open(tmp_path: Path, said: list[str], secret: str):
    memory = Memory(tmp_path)
    memory.put(LOG, b"".join(chunks(said)))
    memory.sweep()
    assert not has_a_part_of(secret, stored_pieces(memory), 6)
    memory.put(LOG, b"".join([*chunks([*said, " and so on."])[len(said) :], END]), append=True)
    memory.sweep()
    assert stored_pieces(memory).endswith("and so on.")
