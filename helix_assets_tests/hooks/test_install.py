"""Our hook goes into an agent's settings on request, beside whatever is there, and comes out again without a trace."""

import errno
import json
import os
import re
import stat
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from helix_assets.hooks.install import (
    CLOSING,
    apply,
    command_of,
    installed_events,
    plan_install,
    plan_uninstall,
    settings_file,
)
from helix_assets.model.errors import StopRun

NOW = datetime(2026, 6, 20, 12, 0, tzinfo=UTC)
CLAUDE = """{
  // my own settings
  "model": "opus",   /* the big one */
  "permissions": {"allow": ["Bash(git *)", "Read"]},
  "unheardOf": {"deep": [1, {"x": "} // no comment"}]},
  "hooks": {
    "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "say done"}]}],
    "PreToolUse": []
  },
  "env": {"A": "ä"}
}
"""
PLAIN = ["", "{}", "{}\n", '{"hooks": {}}', '{\n\t"a": 1\n}\n', '{"hooks": {"Stop": []}, "b": [1,\n2]}', CLAUDE]
CODEX = """# my codex
model = "gpt-5"  # the new one

[tui]
notifications = true
"""


@pytest.fixture
def claude(home: Path) -> Path:
    (home / ".claude").mkdir()
    return home / ".claude" / "settings.json"


@pytest.fixture
def codex(home: Path) -> Path:
    (home / ".codex").mkdir()
    return home / ".codex" / "config.toml"


def install(home: Path, agent: str, *, timings: bool = False) -> None:
    apply(plan_install(agent, home / "data", os.environ, timings=timings), NOW)


def uninstall(agent: str) -> None:
    apply(plan_uninstall(agent, os.environ), NOW)


def without_comments(text: str) -> str:
    return text.replace("// my own settings", "").replace("/* the big one */", "")


@pytest.mark.parametrize("text", PLAIN)
def test_what_was_there_stays_and_ours_is_added(home: Path, claude: Path, text: str) -> None:
    claude.write_text(text)
    install(home, "claude")
    found = json.loads(without_comments(claude.read_text()))
    was = json.loads(without_comments(text) or "{}")
    assert {name: found[name] for name in was if name != "hooks"} == {n: v for n, v in was.items() if n != "hooks"}
    assert installed_events("claude", os.environ) == sorted(CLOSING)
    for event, groups in was.get("hooks", {}).items():
        assert found["hooks"][event][: len(groups)] == groups


@pytest.mark.parametrize("text", PLAIN[2:])
def test_taken_out_again_nothing_is_left(home: Path, claude: Path, text: str) -> None:
    claude.write_text(text)
    install(home, "claude")
    uninstall("claude")
    assert installed_events("claude", os.environ) == []
    left, was = json.loads(without_comments(claude.read_text())), json.loads(without_comments(text))
    assert {n: v for n, v in left.items() if n != "hooks"} == {n: v for n, v in was.items() if n != "hooks"}
    assert left.get("hooks", {}).get("Stop", []) == was.get("hooks", {}).get("Stop", [])


def test_comments_and_bytes_around_it_stay(home: Path, claude: Path) -> None:
    claude.write_text(CLAUDE)
    install(home, "claude")
    kept = set(CLAUDE.splitlines()) - set(claude.read_text().splitlines())
    assert all("Stop" in line or "PreToolUse" in line or line.strip() in ("}", "},") for line in kept)
    uninstall("claude")
    assert claude.read_text() == CLAUDE


COMMENTED = [
    '{\n  "model": "opus", // the best\n  "hooks": {\n    // when it stops\n    "Stop": [ /* none yet */ ]\n  }\n}\n',
    '{\n  "hooks": {\n    "Stop": [\n      {"hooks": []} // mine\n    ] /* all */ // of them\n'
    '  }, // end\n  "x": 1 // last\n}\n',
    '{"hooks": {"Stop": [ // mine\n]}} // after\n',
    '// first\n{ // a\n} // b\n',
]  # fmt: skip


@pytest.mark.parametrize("text", COMMENTED)
def test_every_comment_stays_in_its_place(home: Path, claude: Path, text: str) -> None:
    claude.write_text(text)
    install(home, "claude")
    comments = re.compile(r"//[^\n]*|/\*.*?\*/")
    assert comments.findall(claude.read_text()) == comments.findall(text)
    uninstall("claude")
    assert comments.findall(claude.read_text()) == comments.findall(text)
    assert installed_events("claude", os.environ) == []


def test_a_remark_stays_on_the_line_that_it_is_about(home: Path, claude: Path) -> None:
    claude.write_text(COMMENTED[1])
    install(home, "claude")
    assert '{"hooks": []}, // mine\n' in claude.read_text()
    uninstall("claude")
    assert claude.read_text() == COMMENTED[1]


def test_a_comment_written_beside_our_hook_outlives_it(home: Path, claude: Path) -> None:
    claude.write_text('{\n  "a": 1\n}\n')
    install(home, "claude")
    text = claude.read_text().replace('"hooks": {\n', '// hooks of all kinds\n  "hooks": {\n', 1)
    claude.write_text(text.replace('"SubagentStop"', '// of helpers\n    "SubagentStop"'))
    uninstall("claude")
    left = claude.read_text()
    assert ("// hooks of all kinds\n" in left, "// of helpers\n" in left, "hook.py" in left) == (True, True, False)


def test_lines_end_as_they_did(home: Path, claude: Path) -> None:
    claude.write_bytes(b'{\r\n  "a": 1\r\n}\r\n')
    install(home, "claude")
    written = claude.read_bytes()
    assert written.count(b"\n") == written.count(b"\r\n") > 20


def test_two_edits_in_one_second_keep_two_backups(home: Path, claude: Path) -> None:
    claude.write_text('{"a": 1}\n')
    install(home, "claude")
    uninstall("claude")
    assert '{"a": 1}\n' in [path.read_text() for path in claude.parent.glob("*.before-helix-*")]
    assert len(list(claude.parent.glob("*.before-helix-*"))) == 2


def test_a_full_disk_changes_nothing_and_leaves_nothing(
    home: Path, claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    claude.write_text("{}\n")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StopRun, match=r"before-helix.* cannot be written .No space left"):
        install(home, "claude")
    assert [(path.name, path.read_text()) for path in claude.parent.iterdir()] == [("settings.json", "{}\n")]


def test_what_is_not_a_file_is_refused_without_waiting(home: Path, claude: Path) -> None:
    os.mkfifo(claude)
    with pytest.raises(StopRun, match="not a regular file"):
        plan_install("claude", home / "data", os.environ)


def test_installed_twice_is_installed_once(home: Path, claude: Path) -> None:
    install(home, "claude")
    assert not plan_install("claude", home / "data", os.environ).changes


def test_another_data_folder_takes_the_place_of_the_old_one(home: Path, claude: Path) -> None:
    claude.write_text(CLAUDE)
    install(home, "claude")
    apply(plan_install("claude", home / "elsewhere", os.environ), NOW)
    text = claude.read_text()
    assert text.count("hook.py") == len(CLOSING)
    assert text.count(str(home / "elsewhere" / "inbox")) == len(CLOSING)


def test_timings_are_extra_and_can_be_given_up(home: Path, claude: Path) -> None:
    install(home, "claude", timings=True)
    assert installed_events("claude", os.environ) == sorted([*CLOSING, "UserPromptSubmit", "PreToolUse"])
    install(home, "claude")
    assert installed_events("claude", os.environ) == sorted(CLOSING)


def test_the_file_as_it_was_is_kept_beside_it_and_its_mode_stays(home: Path, claude: Path) -> None:
    claude.write_text(CLAUDE)
    claude.chmod(0o644)
    backup = apply(plan_install("claude", home / "data", os.environ), NOW)
    assert backup is not None
    assert backup.read_text() == CLAUDE
    assert [stat.S_IMODE(path.stat().st_mode) for path in (claude, backup)] == [0o644, 0o600]


def test_a_link_to_a_folder_of_dotfiles_stays_one(home: Path, claude: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "claude.json").write_text("{}")
    claude.symlink_to(home / "dotfiles" / "claude.json")
    install(home, "claude")
    assert claude.is_symlink()
    assert "hook.py" in (home / "dotfiles" / "claude.json").read_text()


@pytest.mark.parametrize(
    "text", ['{"a": }', '{"a": 1,}', "[1]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"a":1} x', "[" * 9000]
)
def test_what_cannot_be_read_for_sure_is_left_alone(home: Path, claude: Path, text: str) -> None:
    claude.write_text(text)
    with pytest.raises(StopRun, match=r"settings\.json .*nothing was changed"):
        plan_install("claude", home / "data", os.environ)
    assert claude.read_text() == text


def test_a_file_that_changed_since_it_was_read_is_left_alone(home: Path, claude: Path) -> None:
    edit = plan_install("claude", home / "data", os.environ)
    claude.write_text('{"new": true}')
    with pytest.raises(StopRun, match="try again"):
        apply(edit, NOW)
    assert claude.read_text() == '{"new": true}'


def test_an_agent_that_is_not_there_is_refused(home: Path) -> None:
    with pytest.raises(StopRun, match=r"there is no .*\.claude"):
        plan_install("claude", home / "data", os.environ)


def test_codex_is_notified_and_its_comments_stay(home: Path, codex: Path) -> None:
    codex.write_text(CODEX)
    install(home, "codex")
    assert tomllib.loads(codex.read_text())["notify"] == command_of("codex", home / "data")
    assert codex.read_text().endswith(CODEX)
    assert installed_events("codex", os.environ) == ["Stop"]
    uninstall("codex")
    assert codex.read_text() == CODEX


def test_codex_with_a_program_of_its_own_is_refused(home: Path, codex: Path) -> None:
    codex.write_text('notify = ["notify-send"]\n')
    with pytest.raises(StopRun, match="another program"):
        plan_install("codex", home / "data", os.environ)


def test_codex_settings_with_an_error_are_left_alone(home: Path, codex: Path) -> None:
    codex.write_text("model = \n")
    with pytest.raises(StopRun, match=r"config\.toml .*nothing was changed"):
        plan_install("codex", home / "data", os.environ)


def test_grok_gets_a_file_of_its_own_that_goes_again(home: Path) -> None:
    (home / ".grok").mkdir()
    install(home, "grok")
    assert installed_events("grok", os.environ) == sorted(CLOSING)
    uninstall("grok")
    assert not settings_file("grok", os.environ).exists()
