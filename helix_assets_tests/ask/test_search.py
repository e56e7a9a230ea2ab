"""What a search finds, in what order, and what it says of what it cannot look at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from helix_assets.ask.search import Excerpt, Filters, Finder, Found
from helix_assets.keep import evict
from helix_assets.keep.forget import forget
from helix_assets.keep.lighten import drop_texts
from helix_assets.keep.recovery import recover
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.keep.writing import writing
from helix_assets.model.errors import QueryError, WithheldError
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import sessions
from helix_assets.store.words import keep
from helix_assets.store.words.keep import index_of, update_index
from helix_assets.store.words.segment import names_of
from helix_assets_tests.home import Memory, answer, call, conversation, line, prompt, result
from helix_assets_tests.sweep.test_rescan import WORD, with_new_rules

TINY = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=1, distilled_cap_bytes=10**9)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    thinking = {"id": "msg_t".ljust(20, "0"), "content": [{"type": "thinking", "thinking": "ponder the mandrill"}]}
    made.write(
        "s1",
        prompt("p1", "09:00:00", "fix the flaky login test"),
        line("assistant", "t1", "09:00:05", message=thinking),
        call("c1", "09:00:10", "Bash", "toolu_1", command="grep -rn aardvark src\nls"),
        result("r1", "09:00:15", "toolu_1", "src/a.py:3: capybara = 1\nError: quagga missing", failed=True),
        answer("a1", "09:00:20", "the login test waits for a clock", message="m1"),
    )
    made.write("s2", prompt("p2", "10:00:00", "login login login", cwd="/home/u/bank"), *conversation(2, session="b"))
    made.sweep()
    yield made
    made.close()


def search(memory: Memory, query: str, **limits: object) -> Found:
    return Finder(memory.store).find(query, Filters(**limits))  # type: ignore[arg-type]


def uids(memory: Memory, query: str, **limits: object) -> list[str]:
    return [hit.session_uid.removeprefix("claude:") for hit in search(memory, query, **limits).hits]


def excerpts(memory: Memory, query: str, **limits: object) -> tuple[Excerpt, ...]:
    (hit,) = search(memory, query, **limits).hits
    return hit.excerpts


@pytest.mark.parametrize(
    ("query", "kind"),
    [("flaky", "user_msg"), ("mandrill", "thinking"), ("aardvark", "tool_call"), ("capybara", "tool_result"),
     ("waits", "assistant_msg"), ("quagga", "tool_result")],
)  # fmt: skip
def test_everything_that_was_said_and_done_is_found(memory: Memory, query: str, kind: str) -> None:
    (excerpt,) = excerpts(memory, query)
    assert (excerpt.kind, excerpt.source) == (kind, "record")
    assert query in excerpt.snippet.text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("login", ["s2", "s1"]),  # more often there
        ("flaky login", ["s1"]),
        ("waiting", ["s1"]),
        ("logins TESTED", ["s1"]),
        ('"waiting"', []),
        ('"logins"', []),
        ("waiting*", []),
        ("login step", ["s2"]),
        ('"login test"', ["s1"]),
        ('"test login"', []),
        ("capyb*", ["s1"]),
        ("cap*", ["s1"]),
        ("src/a.py", ["s1"]),
        ("nowhere", []),
        ("flaky nowhere", []),
        ("timestamp", []),
        ("ls", ["s1"]),
    ],
)
def test_query_finds_sessions_best_first(memory: Memory, query: str, found: list[str]) -> None:
    assert uids(memory, query) == found


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"repo": "bank"}, ["s2"]),
        ({"agent": "codex"}, []),
        ({"agent": "claude"}, ["s2", "s1"]),
        ({"since": datetime(2026, 6, 5, 9, 30, tzinfo=UTC)}, ["s2"]),
        ({"until": datetime(2026, 6, 5, 9, 30, tzinfo=UTC)}, ["s1"]),
        ({"kind": "assistant_msg"}, ["s1"]),
        ({"role": "user"}, ["s2", "s1"]),
        ({"kind": "thinking"}, []),
    ],
)
def test_limits(memory: Memory, limits: dict[str, object], found: list[str]) -> None:
    assert uids(memory, "login", **limits) == found


def test_limit_says_that_there_may_be_more(memory: Memory) -> None:
    found = Finder(memory.store).find("login", limit=1)
    assert (len(found.hits), found.is_complete) == (1, False)


def test_dates_the_wrong_way_round_are_refused(memory: Memory) -> None:
    with pytest.raises(QueryError, match="before it begins"):
        search(memory, "login", since=datetime(2026, 6, 5, tzinfo=UTC), until=datetime(2026, 6, 1, tzinfo=UTC))


def test_new_lines_are_found_after_the_next_sweep_and_no_stored_file_is_read_for_it(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = keep._read_part
    monkeypatch.setattr(keep, "_read_part", lambda *args: read.append(args[2]) or real(*args))
    finder = Finder(memory.store)
    assert not finder.find("wombat").hits
    memory.write("s1", prompt("p9", "11:00:00", "and the wombat"), append=True)
    memory.sweep()
    assert [hit.session_uid for hit in finder.find("wombat").hits] == ["claude:s1"]
    assert not read


def contents(memory: Memory) -> list[tuple[object, list[int]]]:
    """What is in the index: each document with its words."""
    found: list[tuple[object, list[int]]] = []
    for segment in index_of(memory.store).open()[0]:
        packed = segment.packed()
        places = (packed >> 8 & 0xFFFF).tolist()
        for place, document in enumerate(segment.documents):
            found.append((document, [one for one, at in zip(packed.tolist(), places, strict=True) if at == place]))
    return sorted((document, [one & ~0xFFFF00 for one in words]) for document, words in found)  # type: ignore[type-var]


@pytest.mark.parametrize("pairs", [1, 1 << 40])
def test_words_found_while_writing_are_those_read_from_the_files(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, pairs: int
) -> None:
    monkeypatch.setattr("helix_assets.store.parquet.GROUP_BYTES", 1000)
    monkeypatch.setattr("helix_assets.sweep.rounds.AT_ONCE_BYTES", pairs)
    memory.write("s3", *conversation(9, session="c"))
    memory.write("s4", b"no json at all, yet wombat", *conversation(1, session="d"))
    memory.sweep()
    memory.write("s3", *conversation(3, start=9, session="c"), append=True)
    memory.sweep()
    found = contents(memory)
    assert len(found) > 8
    with writing(memory.store, "test"):
        index_of(memory.store).remove()
        update_index(memory.store)
    assert contents(memory) == found


def test_evicted_session_is_found_by_its_digest_which_says_so(memory: Memory) -> None:
    evict.apply(memory.store, clock=lambda: memory.now, policy=TINY)
    found = search(memory, "flaky")
    (hit,) = found.hits
    assert hit.evicted_at
    assert [excerpt.source for excerpt in hit.excerpts] == ["digest"]
    assert not found.unindexed
    assert uids(memory, "quagga") == ["s1"]  # an error sample
    assert uids(memory, "flaky", kind="user_msg") == ["s1"]
    assert uids(memory, "mandrill") == []
    assert not verify(memory.store)


def test_session_whose_texts_went_is_found_by_its_light_rows_and_digest(memory: Memory) -> None:
    goes = [one for one in evict.plan(memory.store, now=memory.now, policy=TINY).goes if one.session_uid == "claude:s1"]
    with writing(memory.store, "test"):
        drop_texts(memory.store, goes, "2026-06-20T12:00:00Z")
        update_index(memory.store)
    (hit,) = search(memory, "capybara").hits
    assert [excerpt.source for excerpt in hit.excerpts] == ["event"]


def test_evicted_and_forgotten_sessions_leave_nothing_in_the_index(memory: Memory) -> None:
    def words() -> set[int]:
        return {one for segment in index_of(memory.store).open()[0] for one in (segment.packed() >> 24).tolist()}

    mandrill = Finder(memory.store)._hasher.word("mandrill")
    assert mandrill in words()
    evict.apply(memory.store, clock=lambda: memory.now, policy=TINY)
    assert mandrill not in words()
    assert Finder(memory.store)._hasher.word("flaky") in words()
    forget(memory.store, ["claude:s1"], now=memory.now)
    assert Finder(memory.store)._hasher.word("flaky") not in words()


def test_new_redaction_rules_reach_the_index_with_the_next_sweep(memory: Memory) -> None:
    memory.write("s3", prompt("q1", "12:00:00", f"the word is {WORD} okapi"))
    memory.sweep()
    assert uids(memory, WORD) == ["s3"]
    store = with_new_rules(memory)
    with pytest.raises(WithheldError, match="helix sweep"):
        search(memory, "okapi")
    memory.sweep()
    finder = Finder(store)
    assert finder._hasher.word(WORD) not in {
        one for segment in index_of(store).open()[0] for one in (segment.packed() >> 24).tolist()
    }
    assert [hit.session_uid for hit in finder.find("okapi").hits] == ["claude:s3"]


def test_sessions_that_new_rules_have_not_reached_are_not_searched_but_counted(memory: Memory) -> None:
    finder = Finder(memory.store)
    assert [hit.session_uid for hit in finder.find("flaky").hits] == ["claude:s1"]
    with memory.store.catalog.writing() as connection:
        sessions.change(connection, sessions.one(connection, "claude:s1").id, redaction_version="older")
    found = finder.find("flaky")
    assert (found.hits, found.withheld, found.is_complete) == ((), 1, True)
    assert finder.find("flaky", Filters(agent="codex")).withheld == 0


def test_missing_index_is_said_and_made_anew(memory: Memory) -> None:
    index_of(memory.store).remove()
    assert search(memory, "flaky").unindexed == 2
    memory.sweep()
    assert uids(memory, "flaky") == ["s1"]


def test_damaged_segment_is_said_and_made_anew(memory: Memory) -> None:
    (path,) = index_of(memory.store).paths()
    data = bytearray(path.read_bytes())
    data[-100:] = bytes(100)
    path.write_bytes(data)
    assert search(memory, "flaky").unindexed
    assert [violation.check for violation in verify(memory.store)] == ["search_index"]
    with writing(memory.store, "test"):
        update_index(memory.store, thorough=True)
    assert uids(memory, "flaky") == ["s1"]
    assert not verify(memory.store)


def test_damaged_segment_that_is_met_in_a_merge_is_made_anew_at_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helix_assets.store.words.segment.MERGED_AT_ONCE", 2)
    (path,) = index_of(memory.store).paths()
    path.write_bytes(path.read_bytes()[:-3] + bytes(3))
    memory.write("s3", *conversation(9, session="c"))
    memory.sweep()
    assert not search(memory, "flaky").unindexed
    assert not verify(memory.store)


def test_damaged_session_is_left_out_and_named(memory: Memory) -> None:
    (name,) = [name for name in live_parts(memory) if name in names_in(memory, "flaky")]
    path = memory.store.raw.path(name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = search(memory, "login")
    assert [hit.session_uid for hit in found.hits] == ["claude:s2"]
    assert found.left_out == ("claude:s1",)


def live_parts(memory: Memory) -> set[str]:
    return set(memory.store.raw.names())


def names_in(memory: Memory, word: str) -> set[str]:
    number = Finder(memory.store)._hasher.word(word)
    return {
        segment.documents[place].name
        for segment in index_of(memory.store).open()[0]
        for place in segment.find(number)[0].tolist()
    }


def test_session_evicted_while_it_is_searched_is_found_by_its_digest(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = Finder(memory.store)
    ranked, calls = Finder._ranked, []

    def and_then_it_goes(*args: object) -> object:
        found = ranked(*args)  # type: ignore[arg-type]
        if not calls:
            evict.apply(memory.store, clock=lambda: memory.now, policy=TINY)
        calls.append(1)
        return found

    monkeypatch.setattr(Finder, "_ranked", and_then_it_goes)
    (hit,) = finder.find("flaky").hits
    assert (hit.excerpts[0].source, len(calls)) == ("digest", 2)


def test_gone_document_in_the_index_is_a_violation_and_goes_with_the_next_writer(memory: Memory) -> None:
    index = index_of(memory.store)
    (segment,) = index.open()[0]
    hasher = Finder(memory.store)._hasher
    ghost = segment.documents[0]._replace(name="flavor=claude/day=2026-01-01/gone.1.0.parquet")
    index.add([(ghost, hasher.words(b"ghost"))])
    assert [violation.check for violation in verify(memory.store)] == ["search_index"]
    recover(memory.store)
    assert not verify(memory.store)
    assert ghost.name not in names_of(index.open()[0])


def test_what_the_index_lacks_after_a_kill_is_in_it_after_the_next_sweep(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the digest of an evicted session, priced anew and so renamed when the sweep was killed."""
    evict.apply(memory.store, clock=lambda: memory.now, policy=TINY)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    cheap = {"claude-opus-4-5": {"input": 1.0, "output": 2.0}}
    memory.store = replace(memory.store, settings=replace(memory.store.settings, prices=cheap))
    with monkeypatch.context() as patch:
        patch.setattr("helix_assets.sweep.sweep.keep_up", killed)
        with pytest.raises(KeyboardInterrupt):
            memory.sweep()
    memory.sweep()
    assert (uids(memory, "flaky"), search(memory, "flaky").unindexed) == (["s1"], 0)


def test_what_had_no_room_is_added_once_the_hard_cap_is_raised(memory: Memory) -> None:
    roomy = memory.store
    hard_cap = memory.raw_usage() - 1
    caps = replace(roomy.settings.retention, raw_soft_cap_bytes=1, raw_hard_cap_bytes=hard_cap)
    memory.store = replace(roomy, settings=replace(roomy.settings, retention=caps))
    index_of(memory.store).remove()
    memory.sweep()
    assert search(memory, "flaky").unindexed == 2
    memory.store = roomy
    memory.sweep()
    assert search(memory, "flaky").unindexed == 0


def test_switched_off_there_is_no_index(tmp_path: Path) -> None:
    memory = Memory(tmp_path, {"HELIX_AGENTS": "claude", "HELIX_SEARCH_INDEX": "off"})
    memory.write("s1", *conversation(1))
    memory.sweep()
    assert not (memory.store.data_dir / "search").exists()
    assert not verify(memory.store)
    memory.close()


def several(*blocks: dict[str, object]) -> bytes:
    body = {"id": "msg_several".ljust(20, "0"), "model": "claude-opus-4-5", "content": list(blocks)}
    return line("assistant", "v1", "11:00:10", message=body)


@pytest.mark.parametrize(
    ("word", "kind"), [("okapi", "thinking"), ("narwhal", "assistant_msg"), ("ocelot", "tool_call")]
)
def test_passage_of_a_line_with_several_events_is_of_the_one_that_says_it(memory: Memory, word: str, kind: str) -> None:
    memory.write(
        "s3",
        prompt("p3", "11:00:00", "look"),
        several(
            {"type": "thinking", "thinking": "the okapi, the okapi and a numbat"},
            {"type": "text", "text": "I go for the narwhal, which is no numbat at all"},
            {"type": "tool_use", "id": "toolu_9", "name": "Bash", "input": {"command": "cat ocelot numbat"}},
        ),
    )
    memory.sweep()
    assert [excerpt.kind for excerpt in excerpts(memory, word)] == [kind]
    assert uids(memory, "numbat", kind=kind) == ["s3"]
    assert not any(uids(memory, word, kind=other) for other in {"thinking", "assistant_msg", "tool_call"} - {kind})


@pytest.mark.parametrize(
    ("word", "kind", "role"),
    [("okapi", "user_msg", "user"), ("narwhal", "thinking", "assistant"), ("ocelot", "assistant_msg", "assistant")],
)
def test_message_of_grok_that_came_in_pieces_is_found_by_kind_and_role(
    tmp_path: Path, word: str, kind: str, role: str
) -> None:
    made = Memory(tmp_path, {"HELIX_AGENTS": "grok"})
    folder = tmp_path / "home/grok/sessions/%2Fhome%2Fu%2Fshop/g1"
    folder.mkdir(parents=True)
    pieces = [("user_message", "feed the okapi"), ("agent_thought", "it likes"), ("agent_thought", "a narwhal"),
              ("agent_message", "I fed the ocelot")]  # fmt: skip
    updates = [{"sessionUpdate": f"{name}_chunk", "content": {"type": "text", "text": text}} for name, text in pieces]
    lines = [{"timestamp": 1780650000, "method": "session/update", "params": {"sessionId": "g1", "update": update}}
             for update in [*updates, {"sessionUpdate": "turn_completed", "stop_reason": "end_turn"}]]  # fmt: skip
    (folder / "updates.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    made.sweep()
    (hit,) = search(made, word, kind=kind, role=role).hits
    assert [excerpt.kind for excerpt in hit.excerpts] == [kind]
    assert not any(search(made, word, kind=other).hits for other in {"user_msg", "thinking", "assistant_msg"} - {kind})
    made.close()


def test_switched_off_what_a_kill_left_of_the_index_goes(memory: Memory) -> None:
    search_settings = replace(memory.store.settings.search, index="off")
    memory.store = replace(memory.store, settings=replace(memory.store.settings, search=search_settings))
    (memory.store.data_dir / "search" / "stamp").unlink()
    memory.sweep()
    assert not (memory.store.data_dir / "search").exists()
