"""Columns of secrets in tables: Markdown, the consoles of databases, boxes, numbered listings."""

import json
from collections.abc import Callable

import pytest

from helix_assets.redaction import Redactor

REDACTOR = Redactor(b"tables")

TABLES = {
    "markdown": "| At | User | Password |\n|---|:-:|--:|\n| db1 | ana | `m4ngoTree` |\n| db2 | joe | Pa1ntedDoor! |\n",
    "psql": " name | password\n------+-----------\n ana  | m4ngoTree\n joe  | Pa1ntedDoor!\n(2 rows)\n",
    "mysql": "+------+--------------+\n| name | password     |\n+------+--------------+\n"
    "| ana  | m4ngoTree    |\n| joe  | Pa1ntedDoor! |\n+------+--------------+\n",
    "boxes": "│ name │ password     │\n├──────┼──────────────┤\n│ ana  │ m4ngoTree    │\n│ joe  │ Pa1ntedDoor! │\n",
    "csv": "host,user,password,port\ndb1,ana,m4ngoTree,22\ndb2,joe,Pa1ntedDoor!,22\n",
    "csv last": '"id";"name";"Password"\r\n"1";"ana";"m4ngoTree"\r\n"2";"joe";"Pa1ntedDoor!"\r\n',
    "tabs": "user\tpassword\trole\nana\tm4ngoTree\tadmin\njoe\tPa1ntedDoor!\tguest\n",
    "numbered": "   1→| name | password |\n   2→|---|---|\n   3→| ana | m4ngoTree |\n   4→| joe | Pa1ntedDoor! |\n",
}


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_cells_below_a_password_go_and_the_others_stay(table: str) -> None:
    for text in (table, json.dumps({"a": table}), json.dumps({"a": json.dumps({"b": table}, ensure_ascii=False)})):
        redacted = REDACTOR.text(text).text
        assert "m4ngoTree" not in redacted
        assert "Pa1ntedDoor" not in redacted
        assert "joe" in redacted
        assert REDACTOR.text(redacted).text == redacted


SIGNATURE = "EoYHq2Vw9xKp4Zt7Lm1Rb6Nc3Yd8Fg5Hs0Ja"
AROUND = {
    "a key behind": lambda text: {"type": "tool_result", "content": text, "is_error": False},
    "a text behind": lambda text: {"content": text, "signature": SIGNATURE},
    "a list": lambda text: [text, SIGNATURE, 1],
    "an object in a list": lambda text: [{"content": text}, {"signature": SIGNATURE, "id": SIGNATURE}],
    "a text with lines behind": lambda text: {"content": text, "signature": f"al,{SIGNATURE}\nal,{SIGNATURE}\n"},
}


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("around", AROUND.values(), ids=list(AROUND))
@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_the_last_row_ends_with_its_json_string(table: str, around: Callable[[str], object], *, compact: bool) -> None:
    separators = (",", ":") if compact else None
    for text in (table, table.rstrip("\n"), f"see:\n\n{table.rstrip()}"):
        line = json.dumps(around(text), separators=separators)
        nested = json.dumps({"o": line, "p": 1}, separators=separators)
        for redacted in (
            REDACTOR.text(line).text,
            json.loads(REDACTOR.lines(nested.encode()).data)["o"],
            json.loads(json.loads(REDACTOR.text(json.dumps({"n": nested})).text)["n"])["o"],
        ):
            assert "m4ngoTree" not in redacted
            assert "Pa1ntedDoor" not in redacted
            kept = REDACTOR.text(text).text
            assert json.loads(redacted) == around(kept)


@pytest.mark.parametrize(
    "record",
    [
        {"thinking": "use the CLI, not an API key\n\nok.", "signature": SIGNATURE},
        {"thinking": "use the CLI, not a password\nok", "signature": SIGNATURE, "x": [SIGNATURE]},
        {"a": "name,token", "b": f"x\ny,{SIGNATURE}"},
        {"a": "name;password", "signature": f"x\ny;{SIGNATURE}\n"},
        {"a": "| name | api key |\n|---|---|\n| a", "b": f" | {SIGNATURE} |\n| b | {SIGNATURE} |"},
    ],
)
def test_no_cell_lies_outside_the_json_string_of_its_header(record: dict[str, object]) -> None:
    for separators in ((",", ":"), (", ", ": ")):
        line = json.dumps(record, separators=separators)
        assert REDACTOR.text(line).text == line
        for outer in (json.dumps({"o": line}), json.dumps({"n": json.dumps({"o": line, "p": ""})})):
            assert REDACTOR.text(outer).text == outer


def test_a_column_of_tokens_is_judged_as_tokens_are() -> None:
    table = "| job | api key |\n|---|---|\n| ci | 9f3b7c21d05e48aa6b1c |\n| cd | not set |\n"
    assert REDACTOR.text(table).text.count("[redacted:token:") == 1


@pytest.mark.parametrize(
    "table",
    [
        "| Model | Input tokens | Output token |\n|---|---|---|\n| m-4-2025 | 1,234,567 | 98,765 |\n",
        "| Password | Rule |\n|---|---|\n| required | 12 characters |\n| ******** | hidden |\n",
        "| Field | Password |\n|---|---|\n| length | 12 |\n| source | settings.DB_PASSWORD |\n| else | changeme1 |\n",
        "| Variable | For |\n|---|---|\n| `APP_API_KEY` | all |\n| `E2E_MODEL_4B` | CI |\n| `K8S_APP_2_PW` | all |\n",
        "| Password |\n\n| after3 | the4Table |\n",
        "def connect(\n    user, password, host,\n    port2, timeout3x, retries4,\n):\n",
        "name,token,count\nthe,a1b2,12\ncat,k9,7\n",
        "import user, password, token\nself.x1, other_pass2, y3z\n",
        "pass | fail\n-----+-----\n 12  | a1b2c3d4\n",
    ],
)
def test_tables_without_secrets_stay(table: str) -> None:
    assert REDACTOR.text(table).text == table


VAULT = """====== Metadata ======
Key              Value
---              -----
created_time     2026-01-02T03:04:05Z
version          2

====== Data ======
Key         Value
---         -----
anything    velvet-lamp
other       x9Q2p

Key                Value
---                -----
lease_id           database/creds/app/x1
lease_duration     1h
password           A1a-2x3f5Dk9
token              hx7Kq2Lm9Zw4Rt1Yb6Nc
username           v-app-1
"""


def test_values_that_vault_lists_go_and_what_describes_them_stays() -> None:
    for text in (
        VAULT,
        json.dumps({"a": VAULT}),
        "".join(f"{n:6}\u2192{row}\n" for n, row in enumerate(VAULT.split("\n"))),
    ):
        redacted = REDACTOR.text(text).text
        for secret in ("velvet-lamp", "x9Q2p", "A1a-2x3f5Dk9", "hx7Kq2Lm9Zw4Rt1Yb6Nc"):
            assert secret not in redacted
        for kept in ("2026-01-02T03:04:05Z", "database/creds/app/x1", "1h", "v-app-1", "anything"):
            assert kept in redacted
