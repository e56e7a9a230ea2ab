"""Rules and an allow-list of the person's own, from helix.toml to what is stored; bad ones are refused at load."""

import json
import time
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets.model.errors import SettingsError
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import prompt
from helix_assets_tests.redaction.made_up import made_up

KEY = made_up("ghp_{an36}", 5)
BAD = [
    ("pattern = '['", 7, "rule 'second': bad pattern at position 0: unterminated character set"),
    ("pattern = 'ab(c'", 7, "rule 'second': bad pattern at position 2: missing ), unterminated subpattern"),
    ("pattern = 'a(?=b)'", 7, "rule 'second': bad pattern at position 1: '(?=' cannot run in linear time"),
    ("pattern = '(a)\\1'", 7, "rule 'second': bad pattern at position 3: '\\\\1' cannot run in linear time"),
    ("pattern = 'ab\\Z'", 7, "rule 'second': bad pattern at position 2: invalid escape sequence: \\Z"),
    ("pattern = 'ab$'", 7, "rule 'second': bad pattern at position 2: '$' does not work in logs"),
    ("pattern = 'x{1,9000}'", 7, "rule 'second': bad pattern at position 1: invalid repetition size: {1,9000}"),
    ("pattern = 'x*'", 7, "rule 'second': bad pattern at position 0: it matches the empty text"),
    ("pattern = '\\b'", 7, "rule 'second': bad pattern at position 0: it matches the empty text"),
    ("pattern = 5", 7, "pattern of a redaction rule 5 is not a text"),
    ("patern = 'x'", 7, "a redaction rule has no key 'patern'"),
    ("keyword = 'x'", 5, "a redaction rule needs a 'pattern'"),
]
CATASTROPHIC = ["(a+)+b{2}", "(a|aa)+\\d", "([a-z]+)*\\d{3}x", "(?s)a.*zzz|a", "[\\s\\S]*a", "(?:.{0,100}a){9}z"]


def write_rules(home: Path, text: str) -> None:
    (home / "no-helix.toml").write_text(text)


@pytest.mark.parametrize(("line", "number", "reason"), BAD, ids=lambda value: str(value)[:24])
def test_bad_rule_is_refused_with_its_line_and_position(
    home: Path, capsys: pytest.CaptureFixture[str], line: str, number: int, reason: str
) -> None:
    good = "[[redaction.rules]]\nname = 'first'\npattern = 'BADGE-\\d+'\n\n"
    write_rules(home, f"{good}[[redaction.rules]]\nname = 'second'\n{line}\n")
    assert run(["sweep"]) == 78
    assert f"no-helix.toml:{number}: {reason}" in capsys.readouterr().err
    assert not (home / "data").exists()


def test_rule_that_is_named_twice_is_refused_at_the_second(home: Path) -> None:
    rule = "[[redaction.rules]]\nname = 'one'\npattern = 'x+'\n"
    write_rules(home, rule + rule)
    with pytest.raises(SettingsError, match=r"toml:5: rule 'one' is defined twice"):
        load_settings()


def test_bad_rule_in_a_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIX_REDACTION_RULES", "[{name = 'x', pattern = 'x('}]")
    with pytest.raises(SettingsError, match=r"HELIX_REDACTION_RULES: rule 'x': bad pattern at position 1"):
        load_settings()


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_catastrophic_pattern_hangs_nothing(home: Path, pattern: str) -> None:
    write_rules(home, f"[[redaction.rules]]\nname = 'slow'\npattern = '{pattern}'\n")
    store = open_store(load_settings())
    line = b'{"content":"' + b"a" * 40 + b"bcd " * 30 + b'"}\n'
    begin = time.process_time()
    store.redactor.lines(line * 2_500)
    store.redactor.lines(b'{"content":"' + b"a bc" * 100_000 + b'"}\n')
    assert time.process_time() - begin < 10
    store.close()


def test_own_rule_hides_and_the_allow_list_lets_stand(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allowed = made_up("ghp_{an36}", 6)
    write_rules(
        home,
        f"[redaction]\nallow = ['{allowed}']\n[[redaction.rules]]\nname = 'badge'\npattern = 'BADGE-(\\d{{6}})'\n",
    )
    write_session(home, UID, prompt("p1", "10:00:00", f"BADGE-123456 {KEY} {allowed}"))
    assert run(["sweep"]) == 0
    capsys.readouterr()
    assert run(["show", UID, "--json"]) == 0
    (event,) = json.loads(capsys.readouterr().out)["events"]
    badge, github, rest = event["summary"].split(" ")
    assert badge.startswith("BADGE-[redacted:badge:")
    assert github.startswith("[redacted:github:")
    assert rest == allowed
