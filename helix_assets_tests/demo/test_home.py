"""What holds for a sample home as a whole: the same bytes, the asked size, private, with bait and damage that count."""

import hashlib
import json
from datetime import date
from pathlib import Path

import pytest

from helix_assets.demo import Truth, make_home
from helix_assets.model.errors import StopRun
from helix_assets_tests.demo.recount import bad_lines


def _logs(home: Path) -> list[Path]:
    return sorted(home.rglob("*.jsonl"))


def _fingerprint(home: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(home)).encode() + b"\0" + path.read_bytes())
    for path in _logs(home):
        digest.update(b"%d" % path.stat().st_mtime_ns)
    return digest.hexdigest()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """A sample home of ordinary size, made once for all tests that only look at it."""
    home = tmp_path_factory.mktemp("sample") / "home"
    return home, make_home(home, seed=3, sessions=40)


def test_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_home(tmp_path / name, seed=5, sessions=12)
    assert _fingerprint(tmp_path / "one") == _fingerprint(tmp_path / "two")


def test_another_seed_gives_another_home(tmp_path: Path) -> None:
    for seed in (1, 2):
        make_home(tmp_path / str(seed), seed=seed, sessions=3)
    assert _fingerprint(tmp_path / "1") != _fingerprint(tmp_path / "2")


@pytest.mark.parametrize("megabytes", [2, 8.5])
def test_size_is_within_a_tenth_of_what_was_asked(tmp_path: Path, megabytes: float) -> None:
    truth = make_home(tmp_path / "sample", megabytes=megabytes)
    written = sum(path.stat().st_size for path in _logs(tmp_path / "sample"))
    assert written == truth.jsonl_bytes
    assert written == pytest.approx(megabytes * 1e6, rel=0.1)


def test_large_home_holds_one_outlier_of_about_a_seventh(tmp_path: Path) -> None:
    make_home(tmp_path / "sample", megabytes=51, agents=["claude"])
    sizes = sorted(path.stat().st_size for path in _logs(tmp_path / "sample"))
    assert 0.12 < sizes[-1] / 51e6 < 0.17
    assert sizes[-2] < sizes[-1] / 2


def test_as_many_sessions_as_asked(made: tuple[Path, Truth]) -> None:
    assert sum(session.parent_uid is None for session in made[1].sessions.values()) == 40


def test_sessions_lie_within_the_asked_days(tmp_path: Path) -> None:
    truth = make_home(tmp_path / "sample", sessions=25, days=4, today=date(2025, 11, 9))
    days = {session.as_row()[key][:10] for session in truth.sessions.values() for key in ("started_at", "ended_at")}
    assert min(days) >= "2025-11-06"
    assert max(days) <= "2025-11-09"


def test_every_line_is_json_but_the_counted_ones(made: tuple[Path, Truth]) -> None:
    home, truth = made
    found = {str(path.relative_to(home)): bad_lines(path) for path in _logs(home)}
    assert {name: bad for name, bad in found.items() if bad} == dict(truth.bad_lines)
    assert truth.bad_lines


def test_torn_files_are_those_without_a_last_newline(made: tuple[Path, Truth]) -> None:
    home, truth = made
    torn = [str(path.relative_to(home)) for path in _logs(home) if not path.read_bytes().endswith(b"\n")]
    assert torn == sorted(truth.torn_files) != []


def test_clean_home_has_no_damage(tmp_path: Path) -> None:
    truth = make_home(tmp_path / "sample", sessions=20, dirty=False)
    assert not truth.bad_lines
    assert not truth.torn_files


def test_every_planted_secret_can_be_found(made: tuple[Path, Truth]) -> None:
    home, truth = made
    for secret in truth.secrets:
        text = "".join((home / name).read_text("utf-8") for name in truth.sessions[secret.uid].files)
        assert json.dumps(secret.value)[1:-1] in text
    assert truth.secrets


def test_only_the_owner_may_read(made: tuple[Path, Truth]) -> None:
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in made[0].rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_credential_bait_lies_in_each_home(made: tuple[Path, Truth]) -> None:
    bait = ("claude/.credentials.json", "codex/auth.json", "grok/auth.json")
    assert all((made[0] / name).read_bytes() for name in bait)


def test_truth_is_written_beside_the_homes(made: tuple[Path, Truth]) -> None:
    assert json.loads((made[0] / "truth.json").read_text()) == made[1].as_dict()


def test_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(StopRun, match="not empty"):
        make_home(tmp_path)


def test_unknown_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StopRun, match="no such agent: aider"):
        make_home(tmp_path / "sample", agents=["claude", "aider"])
