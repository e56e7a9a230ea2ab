"""The table of promises: each has a name, a sentence and someone who asks; `verify` and `doctor` ask what it says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helix_assets.prove import doctor, verify
from helix_assets.prove.answer import Answer, Violation
from helix_assets.prove.promises import PROMISES, Advice, Promise
from helix_assets.store.store import Store
from helix_assets_tests.home import Memory, conversation


def nothing_is_red(store: Store) -> Iterator[Violation]:
    """Nothing is red."""
    yield Violation("red", "is red", "claude:s1")


def test_each_promise_has_a_name_of_its_own_a_sentence_and_someone_who_asks() -> None:
    assert len({promise.name for promise in PROMISES}) == len(PROMISES)
    assert all(promise.ask.__doc__ for promise in PROMISES)
    assert all(promise.is_verified or promise.check or promise.advice for promise in PROMISES)


def test_a_row_of_the_table_is_all_that_verify_and_the_doctor_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.umask(0o077)
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(1))
    memory.sweep()
    red = Promise(nothing_is_red, is_verified=True, advice=Advice("color", "{count} {first.what}", "paint it"))
    for module in (doctor, verify):
        monkeypatch.setattr(module, "PROMISES", [red])
    assert [one.check for one in verify.verify(memory.store)] == ["red"]
    found = doctor.examine(memory.now, memory.variables)
    assert ("color", "1 is red", "paint it") in [(one.check, one.what, one.do) for one in found]
    assert red.settled(memory.store) == Answer(False, {"wrong_red": 1}, [Violation("red", "is red", "claude:s1")])
    memory.close()
