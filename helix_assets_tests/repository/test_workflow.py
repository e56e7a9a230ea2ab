"""The forge's workflow says what the project says. It has never run: only what can be read off it is proven here."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from helix_assets_tests.conftest import CHECKOUT


@pytest.fixture
def job() -> dict[str, Any]:
    path = Path(CHECKOUT, ".github", "workflows", "check.yml")
    (job,) = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    return dict(job)


def test_every_python_of_the_project_is_checked_and_no_other(job: dict[str, Any]) -> None:
    admitted = SpecifierSet(tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["requires-python"])
    wanted = [f"3.{minor}" for minor in range(30) if f"3.{minor}.0" in admitted]
    assert job["strategy"]["matrix"]["python"] == wanted


def test_linux_and_macos_are_checked_with_their_own_python(job: dict[str, Any]) -> None:
    assert [name.partition("-")[0] for name in job["strategy"]["matrix"]["os"]] == ["ubuntu", "macos"]
    assert job["runs-on"] == "${{ matrix.os }}"
    (python,) = [step["with"] for step in job["steps"] if "setup-python" in step.get("uses", "")]
    assert python == {"python-version": "${{ matrix.python }}"}


def test_the_one_command_is_check_on_a_clone_with_its_history(job: dict[str, Any]) -> None:
    (command,) = [step for step in job["steps"] if "run" in step]
    assert (command["run"], command["env"]) == ("./check", {"PYTHON": "python${{ matrix.python }}"})
    (clone,) = [step["with"] for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert clone == {"fetch-depth": 0}
