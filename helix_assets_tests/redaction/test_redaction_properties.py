"""What holds for every text: idempotent, JSON stays JSON, more layers of JSON hide nothing, chunks do not matter."""

import json

from hypothesis import given
from hypothesis import strategies as st

from helix_assets.redaction import Redactor
from helix_assets.redaction.rules import CONTEXTS, TOKENS
from helix_assets_tests.redaction.made_up import made_up, password

REDACTOR = Redactor(b"k" * 32)
SHAPED = [rule.example for rule in TOKENS if rule.check == "token"]
PLACED = [rule.example for rule in CONTEXTS]
FORMS = ["DB_PASSWORD=§", 'password: "§"', "--password §", "https://app:§@db/x", '"password": "§",']
# Drawn by number: hypothesis prints its strategies, and all rules would be too much.
secrets = st.builds(lambda at, seed: made_up(SHAPED[at], seed), st.integers(0, len(SHAPED) - 1), st.integers(0, 50))
contexts = st.builds(lambda at, seed: made_up(PLACED[at], seed), st.integers(0, len(PLACED) - 1), st.integers(0, 9))
assignments = st.builds(
    lambda form, seed: form.replace("§", password(seed)), st.sampled_from(FORMS), st.integers(0, 50)
)
noise = st.text(st.sampled_from(list("aZ09 \t\n\r\"'`\\/{}[]()<>:=,;.-_+@#$%&|?!é→\x1b\0")), max_size=30)
texts = st.lists(st.one_of(noise, assignments, secrets, contexts), min_size=1, max_size=5).map("".join)
spaced = st.lists(st.one_of(assignments, secrets, contexts), min_size=1, max_size=4).map("\n".join)


@given(texts)
def test_redaction_is_idempotent(text: str) -> None:
    once = REDACTOR.text(text).text
    assert REDACTOR.text(once).text == once


@given(st.dictionaries(texts, st.one_of(texts, st.integers(), st.none(), st.lists(texts, max_size=3)), max_size=3))
def test_json_line_stays_json(record: dict[str, object]) -> None:
    for line in (json.dumps(record), json.dumps({"o": json.dumps(record)}, ensure_ascii=False)):
        result = REDACTOR.lines(line.encode("utf-8", "surrogatepass"))
        json.loads(result.data)
        assert result.withheld == 0


@given(secrets, noise, st.integers(1, 4))
def test_one_more_layer_of_json_hides_no_secret(secret: str, before: str, layers: int) -> None:
    text = f"{before} {secret} "
    if secret in REDACTOR.text(text).text:
        return  # what stands before makes it part of something else
    for _ in range(layers):
        text = json.dumps({"content": text})
        assert secret not in REDACTOR.text(text).text


@given(st.lists(spaced, min_size=1, max_size=8), st.data())
def test_boundaries_of_chunks_do_not_matter(parts: list[str], data: st.DataObject) -> None:
    lines = [json.dumps({"content": part}).encode() + b"\n" for part in parts]
    cut = data.draw(st.integers(0, len(lines)))
    whole = REDACTOR.lines(b"".join(lines)).data
    assert whole == REDACTOR.lines(b"".join(lines[:cut])).data + REDACTOR.lines(b"".join(lines[cut:])).data
    assert whole.count(b"\n") == len(lines)


@given(st.binary(max_size=200), secrets)
def test_any_bytes_around_a_secret_are_kept(raw: bytes, secret: str) -> None:
    raw = raw.replace(b"\n", b" ")
    redacted = REDACTOR.lines(raw + b" \n" + secret.encode() + b"\n" + raw).data
    assert len(redacted.split(b"\n")) == 3
    assert secret.encode() not in redacted


def nested(depth: int) -> st.SearchStrategy[object]:
    """Values whose strings hold JSON themselves, quotes and backslashes above all."""
    leaves = st.one_of(quoted, st.booleans(), st.none(), st.integers(0, 10**12))
    if not depth:
        return leaves
    names = st.one_of(quoted, st.sampled_from(["password", "token", "api_key", "content"]))
    inner = st.deferred(lambda: nested(depth - 1))
    return st.one_of(leaves, st.dictionaries(names, inner, max_size=3), inner.map(json.dumps))


quoted = st.lists(
    st.one_of(st.sampled_from(['"', "\\", '""', "'", ",", ": ", "\n", "x"]), assignments), max_size=5
).map("".join)


@given(st.dictionaries(st.sampled_from(["password", "m", "token"]), nested(3), min_size=1, max_size=3))
def test_quotes_at_any_depth_end_no_string_and_no_field(record: dict[str, object]) -> None:
    line = json.dumps(record)
    result = REDACTOR.lines(line.encode())
    assert result.withheld == 0
    assert json.loads(result.data).keys() == record.keys()
    assert json.loads(REDACTOR.text(line).text) == json.loads(result.data)


rows = st.lists(
    st.sampled_from(
        ["name,password", "use the CLI, not an API key", "| a | token |", "|---|---|", "al,Winter88ab", "ok.", ""]
    ),
    min_size=1,
    max_size=5,
).map("\n".join)
signatures = st.integers(0, 50).map(lambda seed: made_up("{b64_60}", seed))
leaves = st.one_of(rows, texts, quoted, signatures, st.booleans(), st.none(), st.integers(0, 99))
plain_keys = st.sampled_from(["a", "content", "signature", "is_error", "type"])


def trees(depth: int) -> st.SearchStrategy[object]:
    """JSON whose strings may hold JSON themselves, under keys that name no secret."""
    if not depth:
        return leaves
    inner = st.deferred(lambda: trees(depth - 1))
    objects = st.dictionaries(plain_keys, inner, max_size=4)
    return st.one_of(leaves, objects, st.lists(inner, max_size=3), objects.map(json.dumps))


def shape(value: object) -> object:
    """Which keys, lists and values without text there are, also in strings that are JSON objects."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    if isinstance(value, str):
        return shape(json.loads(value)) if value.startswith('{"') and value.endswith("}") else str
    return value


@given(st.dictionaries(plain_keys, trees(3), min_size=1, max_size=4), st.booleans())
def test_no_redaction_leaves_its_json_string(record: dict[str, object], compact: bool) -> None:
    line = json.dumps(record, separators=(",", ":") if compact else None)
    try:
        expected = shape(record)
    except ValueError:
        return  # a text that only looks like JSON
    assert shape(json.loads(REDACTOR.lines(line.encode()).data)) == expected
    assert shape(json.loads(REDACTOR.text(line).text)) == expected
