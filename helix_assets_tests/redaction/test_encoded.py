"""Names that spell a secret in another way are found out."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from helix_assets.redaction import Redactor
from helix_assets.redaction.encoded import name_again

SECRET = "Xk29dkeLw02qZZ7"
CWD = f"/home/u/DB_PASSWORD={SECRET}"
redactor = Redactor(b"k" * 32)


@pytest.mark.parametrize(
    "name",
    [
        quote(CWD, safe=""),
        quote(CWD, safe="").replace("_", "%5F"),
        quote(quote(CWD, safe=""), safe=""),
        "".join(f"%{byte:02x}" for byte in CWD.encode()),
    ],
)
def test_secret_is_found_in_a_name_however_often_it_was_encoded(name: str):
    clean = name_again(redactor, f"/logs/sessions/{name}/s1/updates.jsonl")
    assert SECRET not in clean
    assert "[redacted:password:" in clean
    assert clean.startswith("/logs/sessions/")
    assert clean.endswith("/s1/updates.jsonl")
    assert name_again(redactor, clean) == clean


@pytest.mark.parametrize("path", ["/logs/%2Fhome%2Fu%2Fshop%5Fa/s1", "/a/100%/b", "/a/%zz/%00", "/a/b"])
def test_name_without_a_secret_stays_as_it_is(path: str):
    assert name_again(redactor, path) == path


def test_name_keeps_no_more_parts_than_it_had():
    clean = name_again(redactor, quote(f"{CWD}/below\nit", safe=""))
    assert "/" not in clean
    assert "\n" not in clean
