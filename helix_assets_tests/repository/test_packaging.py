"""The locks, the project file, the launchers' files and the console script agree with each other."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import helix_assets
from helix_assets.__main__ import main
from helix_assets.serve.dagster_home import instance_config

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
LOCKS = ("requirements.lock", "requirements-dev.lock")
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==(?P<version>[^ ;\\]+)")


def entries(lock: str) -> dict[str, list[tuple[str, str]]]:
    """The pinned versions by name, each with the text of its whole entry."""
    found: dict[str, list[tuple[str, str]]] = {}
    for entry in re.split(r"\n(?=[A-Za-z0-9])", (CHECKOUT / lock).read_text()):
        if pin := _PIN.match(entry):
            found.setdefault(pin["name"].lower(), []).append((pin["version"], entry))
    return found


def requirements(*groups: str) -> list[Requirement]:
    texts = list(PROJECT["project"]["dependencies"])
    for group in groups:
        texts += PROJECT["dependency-groups"][group]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_names_no_host_and_no_index(lock: str) -> None:
    text = (CHECKOUT / lock).read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host| @ |^-", text, re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes(lock: str) -> None:
    without = [name for name, pins in entries(lock).items() for _, text in pins if "--hash=sha256:" not in text]
    assert entries(lock)
    assert not without


@pytest.mark.parametrize(("lock", "groups"), [(LOCKS[0], ["build"]), (LOCKS[1], ["build", "dev"])])
def test_lock_satisfies_the_project_file(lock: str, groups: list[str]) -> None:
    pinned = entries(lock)
    wrong = [
        f"{requirement} is locked at {version}"
        for requirement in requirements(*groups)
        for version, _ in pinned.get(requirement.name, [("nothing", "")])
        if version == "nothing" or version not in requirement.specifier
    ]
    assert not wrong


def test_dev_lock_moves_no_version_of_the_run_time_lock() -> None:
    run_time, dev = ({name: [v for v, _ in pins] for name, pins in entries(lock).items()} for lock in LOCKS)
    assert run_time == {name: dev[name] for name in run_time}


def test_locks_serve_every_python_that_the_project_names() -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.15"
    assert "(3, 11) <= sys.version_info[:2] <= (3, 14)" in (CHECKOUT / "scripts" / "make_environment").read_text()
    # A pin for some Pythons only comes with another for the rest.
    forked = [pins for pins in entries(LOCKS[1]).values() if any("python_full_version" in text for _, text in pins)]
    assert all(len(pins) > 1 for pins in forked)


def test_console_script_is_the_module() -> None:
    entry = importlib.metadata.EntryPoint("helix", PROJECT["project"]["scripts"]["helix"], "console_scripts")
    assert PROJECT["project"]["scripts"].keys() == {"helix"}
    assert entry.load() is main


def test_module_answers_like_the_console_script() -> None:
    command = [sys.executable, "-m", "helix_assets", "--version"]
    environ = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environ, check=True)
    assert ended.stdout == f"helix, version {helix_assets.__version__}\n"


def test_all_launchers_see_one_code_location() -> None:
    tool = PROJECT["tool"]
    (target,) = yaml.safe_load((CHECKOUT / "workspace.yaml").read_text())["load_from"]
    assert target["python_module"] == {"module_name": "helix_assets.definitions", "location_name": "helix_assets"}
    assert tool["dagster"] == {"module_name": "helix_assets.definitions", "code_location_name": "helix_assets"}
    assert tool["dg"]["project"]["code_location_name"] == "helix_assets"
    assert tool["dg"]["project"]["code_location_target_module"] == "helix_assets.definitions"


def test_dagster_yaml_says_what_helix_up_says() -> None:
    places = {"storage", "compute_logs", "local_artifact_storage"}
    by_hand = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    by_helix = instance_config(Path("/nowhere"))
    assert places <= by_hand.keys()
    ours_alone = places | {"run_launcher"}  # Dagster's own cannot start runs of definitions in its own process
    assert {key: by_hand[key] for key in by_hand.keys() - places} == {
        key: by_helix[key] for key in by_helix.keys() - ours_alone
    }


@pytest.mark.parametrize("script", ["up", "check", "scripts/make_environment", ".ci/run"])
def test_script_is_executable_and_parses(script: str) -> None:
    path = CHECKOUT / script
    shell = "bash" if path.read_text().startswith("#!/usr/bin/env bash") else "sh"
    assert os.access(path, os.X_OK)
    subprocess.run([shell, "-n", str(path)], check=True)


def test_up_says_what_it_does_before_it_installs_anything() -> None:
    ended = subprocess.run([CHECKOUT / "up", "--help"], capture_output=True, text=True, check=True)
    assert "helix up" in ended.stdout
    assert ended.stderr == ""


def test_changelog_knows_the_version() -> None:
    assert f"## {helix_assets.__version__}" in (CHECKOUT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("path", ["data/helix.db", "data/raw/a.parquet", "uv.lock", ".venv/bin/python", "helix.toml"])
def test_state_and_machine_files_stay_out_of_git(path: str) -> None:
    assert is_ignored(path)


def test_the_data_folder_is_in_git_with_its_readme_alone() -> None:
    listed = subprocess.run(["git", "ls-files", "data"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert not is_ignored("data/README.md")
    assert listed.stdout == "data/README.md\n"


def is_ignored(path: str) -> bool:
    if not (CHECKOUT / ".git").exists():
        pytest.skip("not a git checkout, so nothing can be committed")
    return subprocess.run(["git", "check-ignore", "--quiet", path], cwd=CHECKOUT, check=False).returncode == 0
