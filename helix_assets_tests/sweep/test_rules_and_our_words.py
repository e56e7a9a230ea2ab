"""New rules that meet names of our own fields, and what others put into the hub, leave the memory whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import orjson
import pytest

from helix_assets.ask.status import read_status
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.digest import Digest
from helix_assets.model.digest_text import wrong_fields
from helix_assets.prove.verify import verify
from helix_assets.redaction.again import NAMED_BY_LOGS, OUR_WORDS
from helix_assets_tests.home import Memory, call, conversation, prompt, result, rows_of
from helix_assets_tests.sweep.test_rescan import WORD, with_new_rules


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    made.write("s1", prompt("p1", "10:00:00", f"the word is {WORD}"), *conversation(1))
    made.sweep()
    yield made
    made.close()


def evict_all(memory: Memory) -> None:
    evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))


@pytest.mark.parametrize("word", ["path", "sam", "model", "turn", "calls", "error", "success", "claude"])
def test_a_rule_that_meets_a_name_of_ours_breaks_no_digest(memory: Memory, word: str) -> None:
    memory.write("s2", *conversation(2, session="b-"), call("b9", "10:30:00", "Bash", "c9", command="make"),
                 result("r9", "10:30:01", "c9", "Error: no rule to make", failed=True))  # fmt: skip
    memory.sweep()
    evict_all(memory)
    store = with_new_rules(memory, f"[{{name = 'own', pattern = '{word}'}}]")
    memory.sweep()
    names = {field.name for field in fields(Digest)}
    for row in rows_of(store, "digests"):
        assert not wrong_fields(row.digest)
        assert orjson.loads(row.digest).keys() == names
    assert verify(store) == []
    assert read_status(store).withheld.digests == 0


def test_all_texts_of_a_digest_are_redacted_unless_they_are_our_own_words() -> None:
    """A field that is added later is redacted, unless it is named."""
    texts = {
        "session_uid", "repo", "domain", "title", "cwd", "git_branch", "task_ref", "parent_uid", "model", "models",
        "unpriced_models", "first_prompt", "last_assistant", "fingerprint", "sample", "tool", "path", "file_path",
        "source_path",
    }  # fmt: skip
    named = set(_text_fields(Digest))
    assert named - OUR_WORDS - NAMED_BY_LOGS == texts


def _text_fields(model: type[Any]) -> Iterator[str]:
    """The names of all fields that contain texts, also as keys, in a class and those that it is made of."""
    for name, hint in get_type_hints(model).items():
        kinds = {kind for kind in (hint, *get_args(hint)) if isinstance(kind, type)}
        inner = [kind for kind in kinds if is_dataclass(kind)]
        for kind in inner:
            yield from _text_fields(kind)
        if str in kinds and not inner:
            yield name


@pytest.mark.parametrize("made", ["a note of another encoding", "a folder", "a note that nobody may read"])
def test_what_others_put_into_the_hub_stops_no_sweep(memory: Memory, made: str) -> None:
    hub = memory.store.data_dir / "hub"
    hub.mkdir(exist_ok=True)
    note = hub / "mine.md"
    if made == "a folder":
        note.mkdir()
    else:
        note.write_bytes(f"caf\xe9 {WORD}\n".encode("latin-1"))
    if made == "a note that nobody may read":
        note.chmod(0)
    store = with_new_rules(memory)
    memory.sweep()
    assert read_status(store).withheld.digests == 0
    if made == "a note of another encoding":
        assert WORD.encode() not in note.read_bytes()
        assert b"caf\xe9" in note.read_bytes()
