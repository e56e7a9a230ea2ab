"""Pieces of one message are redacted together, and rewritten as separate lines."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.agents.grok.pieces import PIECES
from helix_assets.redaction import Redactor, joined
from helix_assets.redaction.joined import Joiner
from helix_assets_tests.redaction.made_up import made_up

REDACTOR = Redactor(b"k" * 32)
TOKEN = made_up("ghp_{an36}", 1)
PASSWORD = made_up("{an20}7q", 2)
END = {"params": {"update": {"sessionUpdate": "turn_completed"}}}
TEXTS = {
    "token": (f"Use 🔑 {TOKEN} for\n\\n pushing, sörry.", TOKEN),
    "assigned": (f"export DB_PASSWORD={PASSWORD}\nand go on", PASSWORD),
    "in JSON": (f'{{"DB_PASSWORD": "{PASSWORD}", "port": 1}}', PASSWORD),
    "in a header": (f"Authorization: Bearer {PASSWORD}{PASSWORD}\nHost: x", PASSWORD),
}


def chunk(text: str, number: int | None = None, **fields: Any) -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **fields}
    return {"params": {"update": update, "_meta": {} if number is None else {"eventId": f"S-{number}"}}}


def taken(objects: Sequence[dict[str, Any]], *, was_stored: bool = False) -> tuple[list[bytes], Joiner[bytes]]:
    """The lines as they come out, and who handed them on. Stored ones are known as they were redacted."""
    joiner: Joiner[bytes] = Joiner(REDACTOR, PIECES, lambda _, raw, __: raw, heals=was_stored)
    lines: list[bytes] = []
    for before in objects:
        raw = REDACTOR.lines(json.dumps(before).encode()).data
        obj = json.loads(raw)
        native_type = obj["params"]["update"]["sessionUpdate"]
        lines += joiner.take(raw, 1, native_type, obj, None if was_stored else before)
    return [*lines, *joiner.close()], joiner


def texts(lines: Sequence[bytes]) -> list[str]:
    return [PIECES.piece(json.loads(line)).text for line in lines]


def cut(text: str, places: Sequence[int]) -> list[str]:
    edges = [0, *sorted({place % len(text) for place in places} - {0}), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("case", TEXTS)
@given(places=st.lists(st.integers(1, 200), max_size=12), is_ended=st.booleans())
def test_message_in_pieces_is_redacted_as_the_whole_is(case: str, places: list[int], is_ended: bool):
    text, secret = TEXTS[case]
    chunks = [chunk(piece, number) for number, piece in enumerate(cut(text, places))]
    lines, _ = taken([*chunks, *[END] * is_ended])
    said = "".join(texts(lines))
    assert said == REDACTOR.text(text).text
    assert not any(secret[at : at + 8] in said for at in range(len(secret) - 8))
    again, joiner = taken([json.loads(line) for line in lines], was_stored=True)
    assert (texts(again), joiner.hits) == (texts(lines), 0)


def test_mark_stands_in_the_first_piece_and_nothing_in_the_others():
    lines, _ = taken([chunk(piece) for piece in ("it is " + TOKEN[:2], TOKEN[2:14], TOKEN[14:] + " now")])
    first, second, third = texts(lines)
    assert first.startswith("it is [redacted:github:")
    assert first.endswith("]")
    assert (second, third) == ("", " now")


def test_piece_that_shows_a_part_of_a_longer_secret_by_itself_hides_all_of_it():
    lines, _ = taken([chunk(f"DB_PASSWORD={PASSWORD[:14]}"), chunk(PASSWORD[14:] + " ok")])
    assert texts(lines)[1] == " ok"


def test_rest_of_a_secret_that_was_stored_behind_its_mark_goes():
    stored = REDACTOR.lines(json.dumps(chunk(f"DB_PASSWORD={PASSWORD[:14]}")).encode()).data
    lines, _ = taken([json.loads(stored), chunk(PASSWORD[14:] + " ok"), chunk("word")], was_stored=True)
    assert texts(lines)[1:] == [" ok", "word"]


def test_pieces_are_joined_in_the_order_of_their_numbers_and_stay_where_they_are():
    lines, _ = taken([chunk(TOKEN[20:] + " ok", 8), chunk("it is " + TOKEN[:20], 7)])
    last, first = texts(lines)
    assert (last, first[:16]) == (" ok", "it is [redacted:")


def test_lines_without_a_part_of_a_secret_stay_byte_for_byte():
    spaced = b'{"params":  {"update": {"sessionUpdate": "agent_message_chunk", "content": {"text": "a \\u0041"}}}}'
    joiner: Joiner[bytes] = Joiner(REDACTOR, PIECES, lambda _, raw, __: raw)
    out = [*joiner.take(spaced, 1, "agent_message_chunk", json.loads(spaced)), *joiner.close()]
    assert out == [spaced]


@pytest.mark.parametrize(
    ("second", "is_one"),
    [
        (chunk(TOKEN[20:]), True),
        (chunk(TOKEN[20:], sessionUpdate="agent_thought_chunk"), False),
    ],
)
def test_only_pieces_of_one_message_are_joined(second: dict[str, Any], is_one: bool):
    lines, _ = taken([chunk(TOKEN[:20]), second, END])
    assert (TOKEN[20:] not in "".join(texts(lines))) is is_one


def test_records_of_other_files_keep_their_place_behind_a_run():
    joiner: Joiner[int] = Joiner(REDACTOR, PIECES, lambda item, _, __: item)
    kind, end = "agent_message_chunk", "turn_completed"
    steps = [(1, kind), (2, kind), (2, end), (3, "other"), (1, end)]
    given = [list(joiner.take(at, file, name, chunk("a"))) for at, (file, name) in enumerate(steps)]
    assert given == [[], [], [], [], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("most", [4, 6, 10])
def test_secret_in_a_message_too_long_to_be_held_is_found_wherever_it_lies(most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joined, "_MOST_HELD", most)
    for before in range(12):
        pieces = [*["word "] * before, TOKEN[:15], TOKEN[15:], *[" word"] * 12]
        lines, _ = taken([chunk(piece, number) for number, piece in enumerate(pieces)])
        assert "".join(texts(lines)) == REDACTOR.text("".join(pieces)).text


def test_pieces_too_large_to_be_held_together_are_redacted_in_pairs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joined, "_MOST_CHARS", 30)
    pieces = ["word " * 9, TOKEN[:15], TOKEN[15:] + " word" * 9, " word" * 9, f"DB_PASSWORD={PASSWORD[:12]}"]
    lines, _ = taken([*map(chunk, [*pieces, PASSWORD[12:] + " word" * 9]), END])
    said = "".join(texts(lines))
    assert said == REDACTOR.text("".join([*pieces, PASSWORD[12:], " word" * 9])).text


@pytest.mark.parametrize("end", range(10, 40))
def test_beginning_of_a_token_at_an_open_end_is_hidden(end: int):
    lines, _ = taken([chunk("it is gh"), chunk(TOKEN[2:end])])
    assert "".join(texts(lines)).startswith("it is [redacted:github:")
    assert not texts(lines)[1]


@pytest.mark.parametrize("said", ["All is done.", "use sk-learn", "hf_hub_download", "see https://github.com/a/b-c"])
def test_plain_words_at_an_open_end_stay(said: str):
    lines, _ = taken([chunk(said)])
    assert texts(lines) == [said]


def test_line_that_cannot_be_rewritten_is_withheld():
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    lines, joiner = taken([chunk(TOKEN[:20], deep=deep), chunk(TOKEN[20:], deep=deep), END])
    assert [json.loads(line).get("type") for line in lines] == ["helix_withheld", "helix_withheld", None]
    assert joiner.withheld == 2
