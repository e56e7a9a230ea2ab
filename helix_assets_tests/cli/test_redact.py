"""`helix redact` is a filter: what comes in goes out without its secrets."""

import io
import json
import sys
from pathlib import Path
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
def test_json_says_how_many_secrets_there_were(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["redact", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["secrets"] == 1
    assert KEY not in answer["text"]


def lines(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], typed: bytes
) -> tuple[int, bytes]:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(typed)))
    code = run(["redact", "--jsonl"])
    out, err = capfdbinary.readouterr()
    assert b"Traceback" not in err
    return code, out


def test_ids_of_lines_come_out_as_they_went_in(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    typed = b'{"id": 123456789012345678901234567890, "text": "a"}\n{"id": null, "text": "\\ud800 b"}\n'
    assert lines(monkeypatch, capfdbinary, typed) == (0, typed)


@pytest.mark.parametrize(
    "line", [b"{bad\n", b'{"x":' + b"[" * 100_000 + b"\n", b'{"id":1}\n', b'{"text":5}\n', b"[1]\n"]
)
def test_line_that_is_no_text_is_named_after_those_before_it_came_out(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], line: bytes
) -> None:
    code, out = lines(monkeypatch, capfdbinary, b'{"id": 1, "text": "a"}\n' + line)
    assert code != 0
    assert out == b'{"id": 1, "text": "a"}\n'


def test_empty_key_and_closed_input_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    assert run(["redact", "--key-file", str(tmp_path / "key")]) == 2
    monkeypatch.setattr(sys, "stdin", None)
    assert run(["redact"]) == 2


def test_lines_and_one_document_exclude_each_other() -> None:
    assert run(["redact", "--jsonl", "--json"]) == 2
