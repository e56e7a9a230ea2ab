"""Forgetting for real: no byte of a session is left, nothing brings it back, and the others are whole."""

import shutil
from collections.abc import Iterator
from json import dumps
from pathlib import Path
from typing import Any

import pytest

from helix_assets.keep import carry_out, erase, evict
from helix_assets.keep import forget as forget_module
from helix_assets.keep.backup import FRESH, own_copies
from helix_assets.keep.evict import policy_of
from helix_assets.keep.forget import Forgotten, forget
from helix_assets.keep.notes import rename_in_notes
from helix_assets.keep.restore import choose_copy, restore
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import StoreError
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import losses, pages, sessions
from helix_assets.store.fact_files import FactFiles
from helix_assets.store.raw import RawFiles
from helix_assets.store.store import open_store
from helix_assets.store.words.keep import index_of, is_behind, live_names
from helix_assets.store.words.segment import names_of
from helix_assets.sweep.look import scan
from helix_assets_tests.home import NOW, Memory, answer, ask, call, conversation, prompt, result, rows_of

NAME = "99999999-aaaa-4aaa-8aaa-000000000009"
UID = f"claude:{NAME}"
WORD = "xylograph"


def telling(word: str, session: str = "w") -> list[bytes]:
    """A session that says a word wherever text is kept: prompt, tool call, result, error, answer, folder, branch."""
    where: dict[str, Any] = {"cwd": f"/home/u/{word}-shop", "gitBranch": f"branch-{word}"}
    return [
        prompt(f"p{session}", "09:00:00", f"tell me of {word}", **where),
        call(f"c{session}", "09:00:05", "Bash", f"toolu_{session}", command=f"cat {word}.txt"),
        result(f"r{session}", "09:00:10", f"toolu_{session}", f"Exit code 1\n{word} failed", failed=True),
        answer(f"a{session}", "09:00:20", f"{word} is told", message=f"msg_{session}", **where),
        b"{broken " + word.encode() + b"\n",
    ]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Thirty plain sessions and, among them, the one that is to be forgotten."""
    memory = Memory(tmp_path)
    for number in range(30):
        if number == 15:
            memory.write(NAME, *telling(WORD))
            memory.sweep()
        memory.write(f"other{number}", *conversation(3, session=f"o{number}"))
    memory.sweep()
    yield memory
    memory.close()


def forgets(memory: Memory, uid: str = UID) -> Forgotten:
    return forget(memory.store, [uid], now=NOW)


def files_that_say(memory: Memory, *words: str) -> list[str]:
    """Every file of the data folder that holds one of the words in its bytes or in its name."""
    found = [path for path in memory.store.data_dir.rglob("*") if path.is_file()]
    return [str(path) for path in found if any(w.encode() in path.read_bytes() or w in str(path) for w in words)]


def evict_all(memory: Memory) -> None:
    caps = policy_of(memory.store.settings.retention)
    tight = RetentionPolicy(1, 2, caps.max_age_days, caps.distilled_cap_bytes)
    evict.apply(memory.store, clock=lambda: NOW, policy=tight)


# -- gone everywhere -------------------------------------------------------------------------------------------------


def test_planted_word_is_found_before(memory: Memory) -> None:
    assert len(files_that_say(memory, WORD)) > 1


def test_no_byte_of_the_data_folder_contains_what_was_forgotten(memory: Memory) -> None:
    assert forgets(memory).is_finished
    assert files_that_say(memory, WORD, NAME) == []


def test_no_byte_is_left_when_the_next_sweep_has_come_by(memory: Memory) -> None:
    forgets(memory)
    memory.sweep()
    assert files_that_say(memory, WORD, NAME) == []


def test_raw_text_of_it_is_gone_from_the_files_that_others_share(memory: Memory) -> None:
    before = {file.row_count for file in memory.fact_files()}
    forgets(memory)
    after = memory.fact_files()
    assert {file.row_count for file in after} != before
    assert all(memory.store.facts.path(file.name).exists() for file in after)


def test_copies_made_before_are_replaced_by_one_without_it(memory: Memory) -> None:
    (before,) = own_copies(memory.store)
    forgets(memory)
    (after,) = own_copies(memory.store)
    assert (after.generation != before.generation, after.digests) == (True, 30)


def test_copy_that_cannot_be_replaced_is_reported(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget_module, "back_up_if_due", lambda *_: None)
    assert not forgets(memory).is_finished
    memory.sweep()
    assert files_that_say(memory, WORD, NAME) == []


def test_store_is_sound_afterwards(memory: Memory) -> None:
    forgets(memory)
    assert verify(memory.store) == []
    memory.sweep()
    assert verify(memory.store) == []


def test_others_are_left_as_they_were(memory: Memory, tmp_path: Path) -> None:
    forgets(memory)
    plain = Memory(tmp_path / "plain")
    for number in range(30):
        plain.write(f"other{number}", *conversation(3, session=f"o{number}"))
    plain.sweep()
    assert memory.exported() == plain.exported()
    plain.close()


def test_what_went_is_reported(memory: Memory) -> None:
    size = memory.row(UID).raw_bytes
    done = forgets(memory)
    assert (done.session_uids, done.raw_bytes, done.digests, done.remade) == ((UID,), size, 1, ())


def test_evicted_session_is_forgotten_too(memory: Memory) -> None:
    evict_all(memory)
    forgets(memory)
    assert files_that_say(memory, WORD, NAME) == []
    assert verify(memory.store) == []


def test_log_of_evictions_keeps_its_figures_without_the_name(memory: Memory) -> None:
    evict_all(memory)
    before = rows_of(memory.store, "evictions")
    forgets(memory)
    after = rows_of(memory.store, "evictions")
    assert [row.bytes for row in after] == [row.bytes for row in before]
    assert sum(row.session_uid.startswith("forgotten:") for row in after) == 1


def test_problems_of_its_files_go(memory: Memory) -> None:
    assert any(NAME in row.path for row in rows_of(memory.store, "problems"))
    forgets(memory)
    assert rows_of(memory.store, "problems") == []


def test_last_session_of_a_day_takes_the_fact_files_with_it(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.write(NAME, *telling(WORD))
    memory.sweep()
    forgets(memory)
    assert (memory.fact_files(), list(memory.store.facts.names())) == ([], [])
    memory.close()


def test_hub_note_names_it_no_more(memory: Memory) -> None:
    note = memory.store.data_dir / "hub" / "n.md"
    note.parent.mkdir(mode=0o700, exist_ok=True)
    note.write_text(f'session_uids: ["{UID}", "{UID}9"]\n')
    note.chmod(0o600)
    rename_in_notes(memory.store.data_dir, UID, "forgotten:1")
    assert note.read_text() == f'session_uids: ["forgotten:1", "{UID}9"]\n'


def test_note_of_its_loss_keeps_the_figures(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        losses.put_loss(
            connection, at="2026-06-20T12:00:00.000Z", session_uid=UID, flavor="claude", day="2026-06-05", bytes=7,
            records=1, generation=1, reason="overflow",
        )  # fmt: skip
    note = carry_out._report_loss(memory.store, "2026-06-20T12:00:00.000Z")
    forgets(memory)
    (loss,) = rows_of(memory.store, "losses")
    assert loss.bytes == 7
    assert loss.session_uid in note.read_text()
    assert NAME not in note.read_text()


# -- stays forgotten -------------------------------------------------------------------------------------------------


def test_source_that_is_still_there_brings_nothing_back(memory: Memory) -> None:
    forgets(memory)
    report = memory.sweep()
    assert (report.sessions_touched, report.files_changed) == (0, 0)
    assert scan(memory.store).changes.changed == ()


def test_source_that_grows_brings_nothing_back(memory: Memory) -> None:
    forgets(memory)
    memory.write(NAME, *telling(WORD, "more"), append=True)
    memory.sweep()
    assert UID not in ask(memory.store, sessions.by_uid, [UID])
    assert files_that_say(memory, WORD, NAME) == []


def test_copy_of_the_source_elsewhere_brings_nothing_back(memory: Memory) -> None:
    forgets(memory)
    memory.write(NAME, *telling(WORD), project="-home-u-elsewhere")
    memory.sweep()
    assert files_that_say(memory, WORD, NAME) == []
    assert scan(memory.store).changes.changed == ()


def test_log_of_it_that_turns_up_in_an_excluded_folder_is_not_noted(memory: Memory, tmp_path: Path) -> None:
    forgets(memory)
    memory.write(NAME, *conversation(1), project="-home-u-left-out")
    excluding = Memory(tmp_path, {"HELIX_EXCLUDE_PATHS": str(memory.projects / "-home-u-left-out")})
    excluding.sweep()
    excluding.close()
    assert files_that_say(memory, NAME) == []


def test_late_file_of_a_subagent_brings_nothing_back(memory: Memory) -> None:
    forgets(memory)
    memory.put(f"claude/projects/-home-u-shop/{NAME}/subagents/agent-x.jsonl", b"".join(telling(WORD, "sub")))
    memory.sweep()
    assert files_that_say(memory, WORD, NAME) == []


def test_new_session_is_taken_in_after_one_was_forgotten(memory: Memory) -> None:
    forgets(memory)
    memory.write("fresh", *conversation(1, session="fresh"))
    memory.sweep()
    assert memory.digest("claude:fresh")["user_prompts"] == 1
    assert verify(memory.store) == []


def test_tombstones_do_not_say_what_they_stand_for(memory: Memory) -> None:
    forgets(memory)
    marks = rows_of(memory.store, "forgotten")
    assert len(marks) == 2
    assert all(len(row.mark) == 32 and row.unfinished is None for row in marks)


# -- what others tell too --------------------------------------------------------------------------------------------


def resumed() -> list[bytes]:
    return [*conversation(2), *conversation(1, start=30, session="b")]


@pytest.fixture
def shared_history(tmp_path: Path) -> Iterator[Memory]:
    """`old` owns two turns that `new` contains too."""
    memory = Memory(tmp_path)
    memory.write("old", *conversation(3)[:-4], *conversation(1))
    memory.write("new", *resumed())
    memory.sweep()
    assert (memory.digest("claude:old")["user_prompts"], memory.digest("claude:new")["user_prompts"]) == (2, 1)
    yield memory
    memory.close()


def alone(folder: Path) -> bytes:
    """What is exported of `new` when there never was another."""
    memory = Memory(folder)
    memory.write("new", *resumed())
    memory.sweep()
    exported = memory.exported()
    memory.close()
    return exported


def test_shared_records_go_to_their_other_sessions_at_the_next_sweep(shared_history: Memory, tmp_path: Path) -> None:
    assert forgets(shared_history, "claude:old").remade == ("claude:new",)
    shared_history.sweep()
    assert shared_history.exported() == alone(tmp_path / "alone")
    assert verify(shared_history.store) == []


def test_store_is_sound_before_that_sweep(shared_history: Memory) -> None:
    forgets(shared_history, "claude:old")
    assert verify(shared_history.store) == []
    shared_history.sweep()
    assert shared_history.sweep().sessions_touched == 0


def test_three_that_contain_the_same_settle_again(shared_history: Memory) -> None:
    shared_history.write("third", *conversation(2), *conversation(1, start=40, session="c"))
    shared_history.sweep()
    forgets(shared_history, "claude:old")
    shared_history.sweep()
    prompts = [shared_history.digest(f"claude:{name}")["user_prompts"] for name in ("new", "third")]
    assert prompts == [3, 1]
    assert verify(shared_history.store) == []


def test_evicted_copy_gets_its_share_into_the_digest_and_no_raw_bytes(shared_history: Memory) -> None:
    evict_all(shared_history)
    forgets(shared_history, "claude:old")
    shared_history.sweep()
    assert shared_history.digest("claude:new")["user_prompts"] == 3
    assert verify(shared_history.store) == []


def test_copy_whose_file_is_gone_stays_as_it_is(shared_history: Memory) -> None:
    shared_history.path("new").unlink()
    shared_history.sweep()
    assert forgets(shared_history, "claude:old").remade == ()
    shared_history.sweep()
    assert shared_history.digest("claude:new")["user_prompts"] == 1
    assert verify(shared_history.store) == []


def test_ledger_forgets_the_session(shared_history: Memory) -> None:
    number = shared_history.row("claude:old").id
    forgets(shared_history, "claude:old")
    for table in ("ledger", "ledger_news"):
        assert number not in {row.session_id for row in rows_of(shared_history.store, table)}


def test_owner_stays_when_a_copy_is_forgotten(shared_history: Memory) -> None:
    assert forgets(shared_history, "claude:new").remade == ()
    shared_history.sweep()
    assert shared_history.digest("claude:old")["user_prompts"] == 2
    assert verify(shared_history.store) == []


# -- kills and trouble -----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for a kill: nothing in the product may catch it."""


STEPS: dict[str, tuple[Any, str]] = {
    "before the commit": (erase, "_erase"),
    "in the commit": (erase, "read_again"),
    "before raw files go": (RawFiles, "remove"),
    "before facts go": (FactFiles, "remove"),
    "before notes": (erase, "rename_in_notes"),
    "before pages are cleared": (erase, "rewrite"),
    "before the log is emptied": (erase, "truncate_log"),
}
AFTER_THE_COMMIT = list(STEPS)[2:]


def kill(memory: Memory, step: str, uid: str = UID) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*STEPS[step], die)
        with pytest.raises(Killed):
            forget(memory.store, [uid], now=NOW)


@pytest.mark.parametrize("step", AFTER_THE_COMMIT)
def test_killed_forgetting_is_finished_by_the_next_writer(memory: Memory, step: str) -> None:
    kill(memory, step)
    memory.sweep()
    assert files_that_say(memory, WORD, NAME) == []
    assert verify(memory.store) == []


@pytest.mark.parametrize("step", ["before the commit", "in the commit"])
def test_killed_before_the_commit_nothing_has_happened(shared_history: Memory, step: str) -> None:
    before = shared_history.exported()
    kill(shared_history, step, "claude:old")
    shared_history.sweep()
    assert shared_history.exported() == before
    assert verify(shared_history.store) == []


def test_reader_in_the_way_leaves_the_rest_to_the_next_writer(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CHECKPOINT_WAIT_MS", 10)
    with memory.store.catalog.reading() as connection:
        connection.execute("SELECT * FROM sources").fetchall()
        assert not forgets(memory).is_finished
    memory.sweep()
    assert files_that_say(memory, WORD, NAME) == []


def test_damaged_facts_refuse_before_anything_goes(memory: Memory) -> None:
    file = memory.fact_files()[0]
    path = memory.store.facts.path(file.name)
    before, data = sorted(memory.store.facts.names()), path.read_bytes()
    path.write_bytes(data[:-1] + b"?")
    with pytest.raises(StoreError, match="nothing was forgotten"):
        forgets(memory)
    path.write_bytes(data)
    assert sorted(memory.store.facts.names()) == before
    assert memory.digest(UID)["user_prompts"] == 1


def test_forgetting_again_does_nothing(memory: Memory) -> None:
    forgets(memory)
    assert forgets(memory) == Forgotten((), 0, 0, (), True)


# -- what names it elsewhere -----------------------------------------------------------------------------------------


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Memory]:
    """A session and the child that names it as its parent."""
    memory = Memory(tmp_path)
    update = {"timestamp": 1780650000, "method": "session/update", "params": {"sessionId": NAME, "update": SAID}}
    for folder, told in ((NAME, {}), ("child", {"parent_session_id": NAME})):
        about = {"info": {"id": f"{folder}-grok"}, "created_at": "2026-06-05T10:00:00Z", **told}
        memory.put(f"grok/sessions/%2Fhome%2Fu/{folder}/summary.json", dumps(about).encode())
        memory.put(f"grok/sessions/%2Fhome%2Fu/{folder}/updates.jsonl", dumps(update).encode() + b"\n")
    memory.sweep()
    yield memory
    memory.close()


SAID = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hello"}}


def parent_of(memory: Memory) -> tuple[str | None, str | None]:
    return memory.row("grok:child").parent_uid, memory.digest("grok:child")["parent_uid"]


def test_child_names_its_parent_no_more(family: Memory) -> None:
    assert parent_of(family) == (f"grok:{NAME}", f"grok:{NAME}")
    forgets(family, f"grok:{NAME}")
    assert parent_of(family) == (None, None)
    assert verify(family.store) == []


def test_child_that_is_read_again_names_no_forgotten_parent(family: Memory) -> None:
    forgets(family, f"grok:{NAME}")
    summary = family.folder / "home/grok/sessions/%2Fhome%2Fu/child/summary.json"
    summary.write_text(summary.read_text() + "\n")
    assert family.sweep().sessions_touched == 1
    assert parent_of(family) == (None, None)


# -- copies and what restores leave ----------------------------------------------------------------------------------


def put_back(memory: Memory, folder: Path) -> None:
    """Restore a copy that was saved elsewhere, as if from a disk that was not there when something was forgotten."""
    settings = memory.store.settings
    saved = folder / "saved"
    shutil.copytree(saved, settings.backup_dir, dirs_exist_ok=True)
    memory.store.close()
    restore(settings, choose_copy(settings, "1"), NOW)
    memory.store = open_store(settings)


@pytest.mark.parametrize("has_digest_only", [False, True])
def test_older_copy_does_not_bring_it_back(memory: Memory, tmp_path: Path, has_digest_only: bool) -> None:
    if has_digest_only:
        evict_all(memory)
    shutil.copytree(memory.store.settings.backup_dir, tmp_path / "saved")
    forgets(memory)
    put_back(memory, tmp_path)
    assert UID not in ask(memory.store, sessions.by_uid, [UID])
    memory.sweep()
    assert files_that_say(memory, WORD, NAME) == []
    assert verify(memory.store) == []


def test_copy_that_was_killed_half_way_goes_too(memory: Memory) -> None:
    left = memory.store.settings.backup_dir / FRESH
    left.mkdir(parents=True)
    shutil.copy(memory.store.catalog.path, left)
    forgets(memory, "claude:s1")
    assert not left.exists()


def test_what_a_restore_left_is_deleted(memory: Memory, tmp_path: Path) -> None:
    shutil.copytree(memory.store.settings.backup_dir, tmp_path / "saved")
    put_back(memory, tmp_path)
    assert any("set-aside" in path for path in files_that_say(memory, WORD))
    assert forgets(memory).is_finished
    assert not (memory.store.data_dir / "set-aside").exists()
    assert files_that_say(memory, WORD, NAME) == []


def test_search_index_knows_it_no_more(memory: Memory) -> None:
    name = next(name for name, row in live_names(memory.store).items() if row.session_uid == UID)
    assert name in names_of(index_of(memory.store).open()[0])
    forgets(memory)
    assert name not in names_of(index_of(memory.store).open()[0])
    assert not is_behind(memory.store)
