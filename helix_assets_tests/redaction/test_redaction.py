"""The contract of the redactor: marks, lines, JSON, what is withheld, the user's own rules."""

import json
import pickle

import pytest

from helix_assets.redaction import Redacted, RedactedLines, Redactor, Rule, RuleError, engine, strip_tags
from helix_assets.redaction.finder import Finder
from helix_assets.redaction.redactor import WITHHELD
from helix_assets_tests.redaction.made_up import made_up, password

REDACTOR = Redactor(b"k" * 32)
TOKEN = made_up("ghp_{an36}", 1)
OTHER = made_up("ghp_{an36}", 2)


def test_mark_names_the_kind_and_holds_nothing_of_the_secret() -> None:
    redacted = REDACTOR.text(f"push with {TOKEN}")
    assert redacted.hits == 1
    assert redacted.text.startswith("push with [redacted:github:")
    assert not any(TOKEN[i : i + 5] in redacted.text for i in range(len(TOKEN) - 5))


def test_same_secret_has_the_same_tag_in_nested_json() -> None:
    plain = REDACTOR.text(f"x {TOKEN}").text.split()[1]
    nested = REDACTOR.text(json.dumps({"o": json.dumps({"p": f"x\t{TOKEN}\n"})})).text
    assert plain in nested


def test_tags_differ_between_secrets_and_between_keys() -> None:
    tags = {REDACTOR.text(TOKEN).text, REDACTOR.text(OTHER).text, Redactor(b"other").text(TOKEN).text}
    assert len(tags) == 3


def test_strip_tags_leaves_kind_only() -> None:
    assert strip_tags(REDACTOR.text(f"a {TOKEN} b").text) == "a [redacted:github] b"


def test_text_without_secrets_is_returned_as_it_is() -> None:
    text = "nothing to see: max_tokens=4096, commit 0d8cf9d6"
    assert REDACTOR.text(text) == Redacted(text, 0)


def test_lines_keep_number_order_and_the_bytes_that_are_not_hit() -> None:
    clean = [b'{"n":1,  "odd" : "spacing \\u00e9"}', b"", b"not json \xff\xfe", b'{"n":3}']
    chunk = b"\n".join([clean[0], json.dumps({"t": TOKEN}).encode(), *clean[1:]]) + b"\n"
    out = REDACTOR.lines(chunk).data.split(b"\n")
    assert [out[0], *out[2:]] == [*clean, b""]
    assert len(out) == len(chunk.split(b"\n"))


def test_lines_unpack_as_data_and_hits() -> None:
    data, hits = REDACTOR.lines(f'{{"a":"{TOKEN}"}}\n{{"b":"{OTHER}"}}'.encode())
    assert hits == 2
    assert TOKEN.encode() not in data
    assert not data.endswith(b"\n")


def test_number_as_password_leaves_valid_json() -> None:
    line = '{"user":"app","password": 84512397,"port":5432}'
    out = json.loads(REDACTOR.lines(line.encode()).data)
    assert out["password"].startswith("[redacted:password:")
    assert out["port"] == 5432


def test_number_as_password_leaves_valid_json_inside_json() -> None:
    inner = json.dumps({"password": 84512397})
    out = json.loads(REDACTOR.lines(json.dumps({"o": inner}).encode()).data)
    assert json.loads(out["o"])["password"].startswith("[redacted:")


def test_invalid_utf8_around_a_secret_survives() -> None:
    line = b"\xff\xfe " + TOKEN.encode() + b" \xc3("
    out = REDACTOR.lines(line).data
    assert out.startswith(b"\xff\xfe [redacted:")
    assert out.endswith(b"] \xc3(")


def test_lone_surrogates_survive() -> None:
    assert REDACTOR.text(f"\ud83d {TOKEN}").text.startswith("\ud83d [redacted:")


def test_secrets_between_nul_bytes_are_found() -> None:
    secret = password(3)
    assert REDACTOR.text(f"HOME=/x\0DB_PASSWORD={secret}\0PATH=/y").text.count(secret) == 0


def test_colour_around_and_inside_a_key_does_not_hide_it() -> None:
    coloured = f"\x1b[1mghp_\x1b[0;31m{TOKEN[4:20]}\x1b[0m{TOKEN[20:]}\x1b[0m"
    for text in (coloured, json.dumps({"stdout": coloured}), json.dumps({"o": json.dumps({"s": coloured})})):
        redacted = REDACTOR.text(text).text
        assert TOKEN[4:20] not in redacted
        assert TOKEN[20:] not in redacted


def test_key_of_an_object_is_redacted() -> None:
    assert TOKEN not in REDACTOR.text(json.dumps({TOKEN: 1})).text


def test_line_that_cannot_be_redacted_is_withheld_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor(b"k")

    def broken(self: Finder, view: bytes) -> list[object]:
        raise ValueError("broken")

    monkeypatch.setattr(Finder, "spans", broken)
    line = json.dumps({"a": TOKEN}).encode()
    result = redactor.lines(b'{"clean":1}\n' + line + b"\n")
    assert result.withheld == 1
    stand_in = {"type": "helix_withheld", "reason": "redaction_failed", "bytes": len(line)}
    assert [json.loads(out) for out in result.data.splitlines()] == [{"clean": 1}, stand_in]
    assert redactor.text(TOKEN) == Redacted(WITHHELD, 1)


def test_redactor_pickles_with_its_rules() -> None:
    redactor = Redactor(b"k", [Rule("badge", "", r"B-\d{6}")], ["B-000000"])
    again = pickle.loads(pickle.dumps(redactor))
    assert again.version == redactor.version
    assert again.text("B-123456 B-000000") == redactor.text("B-123456 B-000000")


def test_version_follows_rules_and_allow_list_but_not_the_key() -> None:
    own = Redactor(b"k", [Rule("badge", "", r"B-\d{6}")])
    versions = {REDACTOR.version, Redactor(b"other").version, own.version, Redactor(b"k", allow=["x"]).version}
    assert len(versions) == 3


def test_own_rule_is_applied_with_its_group_and_keyword() -> None:
    redactor = Redactor(b"k", [Rule("my-badge", "Badge", r"Badge no ([a-z]+)")])
    assert strip_tags(redactor.text("Badge no hello, badge").text) == "Badge no [redacted:my_badge], badge"


@pytest.mark.parametrize(
    ("keyword", "pattern", "text"),
    [
        ("", r'badge="(\d+)"', 'my badge="70531234" is'),
        ("", r"badge:\s+(\d+)", "badge:\n 70531234"),
        ("", r"badgeü (\d+)", "badgeü 70531234"),
        ("", r"C:\\keys\\(\d+)", "in C:\\keys\\70531234"),
        ("", r"(?:badge|pass) no (\d+)", "pass no 70531234"),
        ("", r"\d{2}/(\d{6,})", "12/70531234"),
        ("SCHLÜSSEL", r"(?i)schlüssel (\d+)", "Schlüssel 70531234"),
        ("größe", r"(?i)größe-(\d+)", "GRÖßE-70531234"),
        ("é", r"caf(é+7053\d+)", "caféé70531234"),
        ("", r"badge.(\d{8})", "badgeü70531234"),
        ("", r"(?i)badge.+?(\d{8})", "BADGE is 70531234"),
        ("", r"[]abc]\x62adg(\d{8})", "cbadg70531234"),
    ],
)
@pytest.mark.parametrize("reads_much", [False, True])
def test_own_rule_holds_whatever_json_escapes(keyword: str, pattern: str, text: str, reads_much: bool) -> None:
    redactor = Redactor(b"k", [Rule("badge", keyword, pattern)])
    if reads_much:
        redactor.prepare()
    for ascii_only in (True, False):
        line = json.dumps({"m": [1, text]}, ensure_ascii=ascii_only)
        for form in (text, line, json.dumps({"o": line}, ensure_ascii=ascii_only)):
            assert "70531234" not in redactor.text(form).text
            assert b"70531234" not in redactor.lines(b'{"a":1}\n' + form.replace("\n", " ").encode() + b"\n").data


def test_own_pattern_counts_characters_and_not_bytes() -> None:
    redactor = Redactor(b"k", [Rule("pin", "PIN", "PIN-(.{6})")])
    assert strip_tags(redactor.text("PIN-äöüxyz, PIN-123456").text) == "PIN-[redacted:pin], PIN-[redacted:pin]"


def test_allowed_text_is_left_alone() -> None:
    redactor = Redactor(b"k", allow=[TOKEN])
    assert redactor.text(f"{TOKEN} {OTHER}").text.startswith(f"{TOKEN} [redacted:")


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("a(b", "position 1"),
        ("x(?=y)", "position 1"),
        (r"(a)\1", "position 3"),
        ("b|", "position 0"),
        (r"[$^]\$x$", "position 7"),
        (r"a|\Ab", "position 2"),
        ("[z-a]", "position"),
    ],
)
def test_bad_pattern_is_refused_with_its_position(pattern: str, position: str) -> None:
    with pytest.raises(RuleError, match=position):
        Redactor(b"k", [Rule("mine", "", pattern)])


def test_catastrophic_pattern_stays_linear() -> None:
    redactor = Redactor(b"k", [Rule("slow", "", r"(a+)+b{2}")])
    assert redactor.text("a" * 50_000 + "b").hits == 0


@pytest.mark.parametrize(
    "unit",
    ["password:", "secret=", "--pwd:", "pw->", "glrtr-.", "session.glsoat-", "pwxai-", "--eyJaaaaaaaaaa", "mergify_"],
)
def test_what_repeats_without_end_is_not_read_to_the_end_each_time(unit: str) -> None:
    """Each of these took minutes to hours when every name and every beginning of a token was read to the end."""
    assert Redactor(b"k").text(unit * (400_000 // len(unit))).hits < 10


TOKEN_PATH = "/home/jane/code/acme/platform/services/billing/src/main/resources/"


@pytest.mark.parametrize(
    "form",
    [
        "/workspace/services/app/§",
        f'{{"cwd":"{TOKEN_PATH}§"}}',
        f'{{"cwd":"{TOKEN_PATH * 3}§"}}',
        f"https://x.example/§{TOKEN_PATH}",
        '{"m":"\\"\\" §","next":"field"}',
        '{"token":"\\"\\" §","next":"field"}',
    ],
)
def test_token_is_found_in_long_paths_and_behind_quotes(form: str) -> None:
    text = form.replace("§", TOKEN)
    assert TOKEN not in REDACTOR.text(text).text
    redacted = REDACTOR.lines(text.encode()).data.decode()
    assert strip_tags(redacted) == form.replace("§", "[redacted:github]")


@pytest.mark.parametrize(
    "line",
    [
        r'{"m":"tok gh\u0070_Ab3dE6gH1jK4mN7pQ0sT9vW2yZ5cF8hJ1kLq"}',
        r'{"m":"tok ghp_Ab3\u0064E6gH1jK4mN7pQ0sT9vW2yZ5cF8hJ1kLq"}',
        r'{"m":"p\u0061ssword: 9FCVBos4TOEn7Zab7q"}',
        r'{"m":"password\u003a 9FCVBos4TOEn7Zab7q"}',
        r'{"m":"postgres:\u002F\u002Fapp:S3cretPw9x7Tq@db:5432\u002Fmain"}',
        r'{"DB_PASSWORD": "\"7RF6qiyNo6nCTPGwEFd5LfbZwIEZsS\""}',
    ],
)
def test_no_escape_of_a_letter_or_a_quote_hides_a_secret(line: str) -> None:
    result = REDACTOR.lines(line.encode())
    assert (result.hits, result.withheld) == (1, 0)
    json.loads(result.data)


def test_what_is_torn_where_the_reading_around_a_mark_begins_is_no_secret() -> None:
    kebab = "task-sk-" + "Ab1Cd2Ef3Gh4" * 4  # a token, were it not for the word before it
    secret = "ghp_" + "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2"
    for length in range(2_040, 2_060):
        before = f"{kebab}.".ljust(length, "y") + " "
        assert REDACTOR.text(f"{before}{secret} password=").text.startswith(f"{before}[redacted:github:")


@pytest.mark.parametrize("before", [0, 5_000, 12_280, 16_380, 16_384, 28_660, 100_000])
@pytest.mark.parametrize("secret", ["ID-" + "7" * 20, "ID-" + "7" * 30_000])
def test_own_rule_holds_anywhere_in_a_long_text(before: int, secret: str) -> None:
    redactor = Redactor(b"k", [Rule("mine", "", r"\bID-[0-9]+\b")])
    text = "x" * before + f" {secret} " + "y" * 20_000
    assert redactor.text(text).text == text.replace(secret, redactor.text(secret).text)


def test_own_rule_may_begin_with_a_quote() -> None:
    redactor = Redactor(b"k", [Rule("mine", "", r'"ID-[0-9]+"')])
    line = b'{"a":"ID-123456","b":"\\"ID-123456\\""}'
    assert redactor.lines(line).hits == 2
    assert b"ID-" not in redactor.lines(line).data
    assert json.loads(redactor.lines(line).data)


def test_scan_counts_secrets_but_not_marks() -> None:
    line = json.dumps({"a": TOKEN, "b": OTHER}).encode()
    assert REDACTOR.scan(line) == 2
    assert REDACTOR.scan(REDACTOR.lines(line).data) == 0
    assert REDACTOR.scan(f"plain {TOKEN}".encode()) == 1


def test_lines_result_is_a_plain_value() -> None:
    assert REDACTOR.lines(b'{"a":1}\n') == RedactedLines(b'{"a":1}\n', 0, 0)


class TestWithoutRe2:
    """The standard library's engine, where google-re2 has no wheel."""

    @pytest.fixture(autouse=True)
    def without_re2(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "re2", None)

    def test_built_in_rules_work_the_same(self) -> None:
        secret = password(2)
        text = json.dumps({"o": f"{TOKEN}\nDB_PASSWORD={secret}\nhttps://app:{secret}@db.example.org/"})
        redacted = Redactor(b"k" * 32).text(text)
        assert redacted == REDACTOR.text(text)
        assert redacted.hits == 3

    def test_own_rules_are_refused_with_the_reason(self) -> None:
        with pytest.raises(RuleError, match="google-re2"):
            Redactor(b"k", [Rule("mine", "", "x+y")])


@pytest.mark.parametrize("field", ["output", "output_delta", "data"])
def test_text_that_a_log_writes_as_numbers_is_redacted_as_numbers(field: str) -> None:
    said = f"first\nDB_PASSWORD={password(2)}\ntoken é {TOKEN} last".encode()
    array = {"type": "Buffer", field: list(said)}
    for record in ({"m": array}, {"o": json.dumps(array)}):
        result = REDACTOR.lines(json.dumps(record, separators=(",", ":")).encode())
        assert (result.hits, result.withheld) == (2, 0)
        inner = json.loads(result.data)
        numbers = (inner["m"] if "m" in inner else json.loads(inner["o"]))[field]
        assert strip_tags(bytes(numbers).decode()) == (
            "first\nDB_PASSWORD=[redacted:password]\ntoken é [redacted:github] last"
        )
        assert REDACTOR.lines(result.data) == RedactedLines(result.data, 0)


def test_numbers_that_are_no_text_stay() -> None:
    line = b'{"output":[1,2,3,400,5],"output_delta":[0,255,254,7],"stdout":[],"output_delta":[104,101,108,108,111]}'
    assert REDACTOR.lines(line) == RedactedLines(line, 0)
