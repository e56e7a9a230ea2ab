"""`helix redact` is a filter: what comes in goes out without its secrets."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from helix_assets.cli.main import run

KEY = "ghp_" + "k8Zq2VfX1mB7tYw4RjN6cLs9PaHe3DuG5oQi"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(f"take {KEY} for now\n".encode()))
    monkeypatch.setattr(sys, "stdin", stdin)


@pytest.mark.usefixtures("typed")
def test_a_text_comes_out_without_its_secret(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["redact"]) == 0
    out = capfdbinary.readouterr().out
    assert out.startswith(b"take [redacted:github:")
    assert out.endswith(b"] for now\n")


@pytest.mark.usefixtures("typed")
def test_a_program_is_told_how_many_secrets_there_were(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["redact", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["secrets"] == 1
    assert KEY not in answer["text"]


def test_lines_and_one_document_exclude_each_other() -> None:
    assert run(["redact", "--jsonl", "--json"]) == 2
