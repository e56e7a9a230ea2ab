"""Private keys: whole, cut off, numbered, in a diff, split over the elements of an array."""

import base64
import json
import random

import pytest

from helix_assets.redaction import Redactor
from helix_assets_tests.redaction.made_up import made_up

REDACTOR = Redactor(b"k" * 32)
LINES = [made_up("{b64_64}", seed) for seed in range(6)] + [made_up("{b64_20}", 9) + "=="]
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
PEM = "\n".join([BEGIN, *LINES, END])
ENCRYPTED = "\n".join([BEGIN, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0011", "", *LINES, END])
PGP_NAME = "PGP PRIVATE KEY BLOCK-----"
PGP = "\n".join([f"-----BEGIN {PGP_NAME}", "Version: 2", "", *LINES, "=AbC4", f"-----END {PGP_NAME}"])
PUTTY = "\n".join(["PuTTY-User-Key-File-3: ssh-rsa", "Encryption: none", "Private-Lines: 7", *LINES, "Private-MAC: 00"])
OPENVPN = "\n".join(["-----BEGIN OpenVPN Static key V1-----", *LINES, "-----END OpenVPN Static key V1-----"])
FORMS = {
    "whole": PEM,
    "encrypted": ENCRYPTED,
    "pgp": PGP,
    "putty": PUTTY,
    "openvpn": OPENVPN,
    "crlf": PEM.replace("\n", "\r\n"),
    "cut off after": "\n".join([BEGIN, *LINES[:3]]),
    "cut off before": "\n".join([*LINES[2:], END, "done"]),
    "numbered": "\n".join(f"{number:6}→{line}" for number, line in enumerate(PEM.split("\n"), 1)),
    "numbered, cut off before": "\n".join(f"{number:6}→{line}" for number, line in enumerate([*LINES[2:], END], 9)),
    "diff, cut off before": "\n".join(f"+{line}" for line in [*LINES[2:], END]),
    "crlf, cut off after": "\r\n".join([BEGIN, *LINES[:3]]),
    "crlf, numbered": "".join(f"{number:6}→{line}\r\n" for number, line in enumerate(PEM.split("\n"), 1)),
    "with names of files": "\n".join(f"keys/id_rsa:{line}" for line in PEM.split("\n")),
    "literals of a program, in a diff": "\n".join(f'+    "{line}\\n"' for line in PEM.split("\n")),
    "diff": "\n".join(f"+{line}" for line in PEM.split("\n")),
    "quoted": "\n".join(f"> {line}" for line in PEM.split("\n")),
    "indented": "\n".join(f"    {line}" for line in PEM.split("\n")),
    "escaped": json.dumps({"private_key": PEM}),
    "escaped twice": json.dumps({"o": json.dumps({"private_key": PEM})}),
    "array of lines": json.dumps({"structuredPatch": [{"lines": [f"+{line}" for line in PEM.split("\n")]}]}),
    "on one line": f'KEY="{PEM}"'.replace("\n", "\\n"),
    "base64": "client-key-data: " + base64.b64encode(PEM.encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_line_of_a_private_key_is_left(form: str) -> None:
    redacted = REDACTOR.text(FORMS[form]).text
    assert "[redacted:private_key" in redacted
    assert [line for line in LINES if line[:20] in redacted] == []


@pytest.mark.parametrize("form", ["escaped", "escaped twice", "array of lines"])
def test_json_around_a_private_key_stays_valid(form: str) -> None:
    json.loads(REDACTOR.lines(FORMS[form].encode()).data)


def test_text_after_a_cut_key_stays() -> None:
    text = "\n".join([BEGIN, *LINES[:3], "$ ls -la", "total 12"])
    assert REDACTOR.text(text).text.endswith("]\n$ ls -la\ntotal 12")


def test_certificate_in_base64_stays() -> None:
    body = base64.b64encode(f"-----BEGIN CERTIFICATE-----\n{LINES[0]}\n".encode()).decode()
    assert REDACTOR.text(f"certificate-authority-data: {body}").hits == 0


def _array(numbers: list[int], separator: str = ",") -> str:
    return "[" + separator.join(map(str, numbers)) + "]"


def test_key_pair_written_as_numbers_goes() -> None:
    numbers = list(random.Random(3).randbytes(64))
    for separator in (",", ", ", ",\n  "):
        text = f"cat id.json\n{_array(numbers, separator)}"
        for form in (text, json.dumps({"p": text}), json.dumps({"o": json.dumps({"secretKey": numbers})})):
            redacted = REDACTOR.text(form).text
            assert "[redacted:private_key:" in redacted
            assert f"{numbers[20]}{separator}{numbers[21]}{separator}{numbers[22]}" not in redacted
    line = json.dumps({"secretKey": numbers, "z": 1}).encode()
    assert json.loads(REDACTOR.lines(line).data)["z"] == 1


def test_other_arrays_of_64_numbers_stay() -> None:
    rng = random.Random(3)
    for numbers in (
        list(range(64)),
        [2 * n for n in range(64)],
        rng.sample(range(64), 64),
        list(rng.randbytes(65)),
        [7] * 64,
    ):
        text = f"table =\n{_array(numbers)}\n"
        assert REDACTOR.text(text).text == text


def test_key_of_putty_goes_without_the_head_of_its_file() -> None:
    key = [random.Random(n).randbytes(48).hex()[:64] for n in range(2)]
    text = "\n".join(["Private-Lines: 2", *key, "Private-MAC: 00"])
    for form in (text, json.dumps({"p": text})):
        assert not any(line in REDACTOR.text(form).text for line in key)
