"""Between a change of the redaction rules and the sweep that follows, no reader shows what the new rules hide."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from shutil import rmtree

import pytest

from helix_assets import Memory
from helix_assets.ask.digest_lookup import MISUSED, WITHHELD
from helix_assets.ask.digest_lookup import main as look_up
from helix_assets.ask.reports.all_reports import REPORTS
from helix_assets.ask.views import VIEWS
from helix_assets.cli.listing import COMMANDS
from helix_assets.cli.main import run
from helix_assets.kaizen.derived import write_correlated, write_scorecard
from helix_assets.model.errors import HelixError
from helix_assets.model.facts import FACTS
from helix_assets.settings import load_settings
from helix_assets.store.catalog import sessions
from helix_assets.store.parquet import read_rows
from helix_assets.store.store import open_store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import answer, call, line, prompt, result

WORD = "quokkaword1234"
ROWS_ONLY = "wombatwaltz"
"""A word that no digest, fact or name contains, only the texts of a session."""
CUT = "x" * 185 + f" {WORD} and more"
RULE = f"[[redaction.rules]]\nname = 'house-word'\npattern = '{WORD}'\n"
READERS: tuple[tuple[str, ...], ...] = (
    ("sessions",),
    ("sessions", "--json"),
    ("show", UID),
    ("show", UID, "--json"),
    ("show", UID, "--payload", "1"),
    ("show", UID, "--payload", "1", "--json"),
    ("digest", UID),
    ("digest", UID, "--json"),
    ("env", UID),
    ("env", "--latest"),
    ("search", "okapi"),
    ("search", "okapi", "--json"),
    ("export",),
    ("export", "--sessions"),
    *(("sql", f"select * from {view}", "--json") for view in VIEWS),
    *(("report", name, "--json") for name in REPORTS),
)
COUNTERS = (("status",), ("status", "--json"), ("doctor",), ("doctor", "--json"))
"""Commands that count what is withheld instead of refusing."""
ACTORS: tuple[tuple[str, ...], ...] = (
    ("evict",),
    ("evict", "--json"),
    ("evict", "--apply"),
    ("evict", "--apply", "--json"),
    ("pin", "claude:named"),
    ("unpin", "claude:named", "--json"),
    ("forget", "claude:named", "--yes", "--json"),
    ("rederive", "--force"),
    ("rederive", "--force", "--json"),
    ("verify",),
    ("verify", "--json"),
)
"""Commands that do something with sessions, and name these."""
QUIET = ("forget", "rederive", "verify")
"""Commands that name what the rules hide only where there is something to complain of."""
NO_READERS = {
    "up", "sweep", "hooks", "hook", "backup", "restore", "config", "demo", "service", "redact", "completion"
}  # fmt: skip
OF_TEXTS = {"show", "search", "export", "sql"}
"""Commands that show texts of sessions, which wait longer than digests and facts."""


@pytest.fixture
def outdated(home: Path) -> Path:
    """A session full of a word that no rule knew when it was swept; the rule is there since."""
    write_session(
        home,
        UID,
        prompt("p1", "10:00:00", f"okapi {CUT}", gitBranch=f"fix/{WORD}", cwd=f"/home/u/{WORD}"),
        call("c1", "10:00:01", "Read", "toolu_1", file_path=f"/home/u/{WORD}/a.py"),
        result("r1", "10:00:02", "toolu_1", f"Error: {WORD} is not there", failed=True),
        call("c2", "10:00:03", f"mcp__{WORD}__get", "toolu_2", path=WORD),
        b"no record " + WORD.encode() + b"\n",
        answer("a1", "10:00:04", f"the word is {WORD}", message="m1"),
        line(f"note-{WORD}", "n1", "10:00:05"),
        line("note", "n2", "10:00:06", hidden=ROWS_ONLY),
    )
    write_session(home, f"claude:named-{WORD}", prompt("p2", "11:00:00", "hello"))
    with redirect_stdout(StringIO()):
        assert run(["sweep"]) == 0
    (home / "no-helix.toml").write_text(RULE)
    return home


def shown(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert run(list(command)) == 0
    told = capsys.readouterr()
    return told.out + told.err


Answers = dict[tuple[str, ...], tuple[int, str]]


def programs() -> Iterator[tuple[str, Callable[[Memory], object]]]:
    """What other programs read: all of `Memory`, and what is made of digests for kaizen."""
    yield "digest", lambda memory: memory.digest(UID)
    yield "digests", lambda memory: memory.digests().fetchall()
    yield "events", lambda memory: memory.events().fetchall()
    yield "events of one", lambda memory: memory.events(UID).fetchall()
    yield "hook_events", lambda memory: memory.hook_events().fetchall()
    yield "sql", lambda memory: memory.sql("select * from sessions").rows
    yield "search", lambda memory: memory.search("okapi")
    for name in FACTS:
        yield name, lambda memory, name=name: memory.facts(name).fetchall()
    yield "frame of events", lambda memory: memory.frame("events").to_csv()
    yield "frame", lambda memory: memory.frame("tool_calls").to_csv()
    yield "report", lambda memory: memory.report("file_heatmap").frame().to_csv()
    yield "executions", lambda memory: write_correlated(memory._store)
    yield "scorecard", lambda memory: write_scorecard(memory._store)


def everything_read(capsys: pytest.CaptureFixture[str]) -> Answers:
    """The exit code and the output of every reader."""
    answers: Answers = {}
    for command in (*READERS, *COUNTERS):
        code = run(list(command))
        told = capsys.readouterr()
        answers[command] = (code, told.out + told.err)
    for arguments in ([UID, "--json"], [UID], ["claude:named"]):
        code = look_up(arguments)
        told = capsys.readouterr()
        answers["lookup", *arguments] = (code, told.out + told.err)
    for name, read in programs():
        answers["program", name] = _read(read)
    return answers


def _read(read: Callable[[Memory], object]) -> tuple[int, str]:
    try:
        with warnings.catch_warnings(record=True) as warned, Memory() as memory:
            warnings.simplefilter("always")
            return 0, repr(read(memory)) + "".join(str(one.message) for one in warned)
    except HelixError as exc:
        return exc.exit_code, str(exc)


def test_every_command_is_asked_or_reads_nothing() -> None:
    assert {command[0] for command in (*READERS, *COUNTERS, *ACTORS)} | NO_READERS == set(COMMANDS)


def test_before_the_sweep_every_reader_refuses_and_says_what_to_do(
    outdated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (outdated / "no-helix.toml").write_text("")
    before = everything_read(capsys)
    assert {answer for answer, (code, _) in before.items() if code} == set()
    assert {("digest", UID), ("lookup", UID), ("program", "tool_calls"), ("sql", "select * from records", "--json")} < {
        answer for answer, (_, text) in before.items() if WORD in text
    }
    rmtree(outdated / "data" / "kaizen")
    (outdated / "no-helix.toml").write_text(RULE)
    for reader, (code, text) in everything_read(capsys).items():
        assert WORD not in text, reader
        assert "quokkawo" not in text, reader
        assert "withheld" in text, reader
        assert "helix sweep" in text or reader in COUNTERS, reader
        assert code == (0 if reader in COUNTERS else WITHHELD), reader
    assert not any((outdated / "data" / "kaizen").rglob("*"))


@pytest.mark.parametrize("command", ACTORS, ids=" ".join)
def test_no_command_names_what_new_rules_hide(
    outdated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "1")
    (outdated / "no-helix.toml").write_text("")
    assert "--apply" in command or command[0] in QUIET or WORD in shown(capsys, *command)
    (outdated / "no-helix.toml").write_text(RULE)
    text = shown(capsys, *command)
    assert WORD not in text
    assert "quokkawo" not in text


def test_what_is_confirmed_before_it_is_forgotten_shows_no_title(
    outdated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda *_: False)
    assert run(["forget", UID]) != 0
    text = capsys.readouterr().out
    assert "(withheld)" in text
    assert WORD not in text


def test_once_digests_and_facts_are_redacted_they_are_shown_and_texts_are_not(
    outdated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(load_settings())
    sweep(store, only=())
    assert WORD in repr([list(read_rows([store.raw.path(name)], raw=True)) for name in store.raw.names()])
    store.close()
    after = everything_read(capsys)
    for reader, (code, text) in after.items():
        assert WORD not in text, reader
        assert "quokkawo" not in text, reader
        assert ROWS_ONLY not in text, reader
        assert code == (WITHHELD if reader[0] == "show" or reader[1:] == ("events of one",) else 0), reader
    for reader in (
        ("digest", UID),
        ("lookup", UID),
        ("program", "tool_calls"),
        ("sql", "select * from sessions", "--json"),
    ):
        assert "redacted:house_word" in after[reader][1]
    assert json.loads(after["status", "--json"][1])["withheld"] == {"digests": 0, "texts": 1, "sessions": 2}
    assert "Sessions whose texts are withheld" in after["export",][1]


def test_texts_that_wait_longer_than_digests_are_withheld_alone(
    outdated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(capsys, "sweep")
    before = everything_read(capsys)
    assert {answer[0] for answer, (_, text) in before.items() if ROWS_ONLY in text} >= {"export", "sql"}
    _withhold_texts_of(UID)
    after = everything_read(capsys)
    for reader, (code, text) in after.items():
        assert ROWS_ONLY not in text, reader
        if text != before[reader][1] and "select * from schema_versions" not in reader:  # names the rules, and no text
            assert reader[0] in (*OF_TEXTS, "program", "status", "doctor"), reader
            assert "withheld" in text, reader
        assert code == (WITHHELD if reader[0] == "show" or reader[1:] == ("events of one",) else 0), reader
    count = "Sessions whose texts are withheld, because the redaction rules changed: 1. Run `helix sweep`."
    for reader in (("export",), ("search", "okapi"), ("sql", "select * from events", "--json"), ("program", "events")):
        assert count in after[reader][1]
    assert json.loads(after["status", "--json"][1])["withheld"] == {"digests": 0, "texts": 1, "sessions": 2}


def _withhold_texts_of(uid: str) -> None:
    """As if the sweep with new rules had not come to the texts of this session yet."""
    store = open_store(load_settings())
    with store.catalog.writing() as connection:
        sessions.change(connection, sessions.one(connection, uid).id, redaction_version="older")
    store.close()


def test_status_and_doctor_count_what_is_withheld(outdated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "2 of 2 sessions withheld until the next sweep (new redaction rules): run `helix sweep`"
    assert sentence in shown(capsys, "status")
    found = json.loads(shown(capsys, "status", "--json"))
    assert found["withheld"] == {"digests": 2, "texts": 2, "sessions": 2}
    assert found["trouble"]["problem_count"] == 1
    assert found["trouble"]["problems"] == []
    assert "2 of 2 sessions are withheld" in shown(capsys, "doctor")
    shown(capsys, "sweep")
    found = json.loads(shown(capsys, "status", "--json"))
    assert found["withheld"] == {"digests": 0, "texts": 0, "sessions": 2}
    assert len(found["trouble"]["problems"]) == 1
    assert "withheld until" not in shown(capsys, "status")
    assert "are withheld" not in shown(capsys, "doctor")


def test_digest_of_an_evicted_session_waits_for_the_sweep(
    outdated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (outdated / "no-helix.toml").write_text("")
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "1")
    assert run(["evict", "--apply"]) == 0
    (outdated / "no-helix.toml").write_text(RULE)
    capsys.readouterr()
    for command in (["show", UID], ["digest", UID]):
        assert run(command) == WITHHELD
    shown(capsys, "sweep")
    for command in (["show", UID], ["digest", UID]):
        text = shown(capsys, *command)
        assert "house_word" in text
        assert WORD not in text


def test_restore_says_that_new_rules_do_not_reach_what_it_leaves(
    outdated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "restore", "--yes")
    (folder,) = (outdated / "data" / "set-aside").iterdir()
    assert f"{folder}. New redaction rules do not reach it" in text
    shown(capsys, "sweep")
    assert run(["verify", "--secrets"]) == 1
    assert f"set-aside/{folder.name}/helix.db" in capsys.readouterr().out


def test_sessions_that_may_be_meant_are_named_by_new_rules(outdated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(outdated, f"claude:named-{WORD}-too", prompt("p3", "12:00:00", "hello"))
    (outdated / "no-helix.toml").write_text("")
    assert run(["sweep"]) == 0
    for rule, is_shown in (("", True), (RULE, False)):
        (outdated / "no-helix.toml").write_text(rule)
        capsys.readouterr()
        assert run(["show", "named"]) == 2
        assert (WORD in capsys.readouterr().err) is is_shown
        assert look_up(["named"]) == (MISUSED if is_shown else WITHHELD)
        assert (WORD in capsys.readouterr().err) is is_shown


def test_restore_names_lost_sessions_by_new_rules(outdated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (outdated / "no-helix.toml").write_text("")
    shown(capsys, "backup")
    rmtree(outdated / "data" / "raw")
    (outdated / "no-helix.toml").write_text(RULE)
    text = shown(capsys, "restore", "--yes", "--json")
    assert any("named-[redacted:house_word:" in uid for uid in json.loads(text)["lost"])
    assert WORD not in text


def test_errors_are_redacted_by_the_rules_in_force(outdated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in (outdated / "data" / "raw").rglob("*.parquet"):
        part.write_bytes(b"damaged")
    assert run(["verify"]) != 0
    told = capsys.readouterr()
    assert "house_word" in told.out + told.err
    assert WORD not in told.out + told.err


def test_error_names_no_path_with_a_secret(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "data").mkdir(mode=0o700)
    (home / "data" / "helix.db").symlink_to(home / "none")
    (home / "no-helix.toml").write_text(RULE)
    assert run(["backup", "--json"]) != 0
    assert run(["restore", "--from", WORD]) != 0
    told = capsys.readouterr()
    assert "house_word" in told.err
    assert WORD not in told.out + told.err
