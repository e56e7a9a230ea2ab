"""Random passwords in the formats that people keep them in: hardly any survives, whatever its signs."""

import json
import sys
from pathlib import Path

import pytest

from bench.passwords import ALPHABETS, FORMATS, main, survivors
from helix_assets.redaction import Redactor
from helix_assets_tests.conftest import NIGHTLY

REDACTOR = Redactor(b"k" * 32)
# By day the seed is fixed, and a cell of the table may lose one of its 40.
NUMBER, MOST = (1_000, 10) if NIGHTLY else (40, 1)


@pytest.mark.parametrize("form", FORMATS)
def test_hardly_a_random_password_survives(form: str) -> None:
    left = {name: survivors(REDACTOR, form, name, NUMBER) for name in ALPHABETS}
    assert {name: cases for name, cases in left.items() if len(cases) > MOST} == {}
    assert sum(map(len, left.values())) <= 0.005 * NUMBER * len(ALPHABETS) + 1


# A password, and how it is written in a JSON string, in one in single quotes, and alone on a line.
SIGNS = (
    r"aB3.kQ9xLmWz",
    r"Zq.hvWxKtRpL",
    r"K8meT8R[l:^t",
    r'7f"Kq9"2mXw',
    r"7f'Kq9'2mXw",
    r"7f\Kq9\2mXw",
    r"7fKq9m\nX\t2L",
    r"[kQ9x(Lm){Wz",
    r"{aQ9=>xL&&m2",
    r"(Kq9$x)!Lm.z",
    r"$kQ9$xLm%W2z",
    r"&kQ,9x;Lm|W2",
    r"kQ9x#Lm<W2>z",
    r"x=Kq9?Lm::Wz",
    r"!!kQ9-xLm--W",
    r"u.q2(K9)[1]x",
)


def _escaped(secret: str, quote: str) -> str:
    return secret.replace("\\", "\\\\").replace(quote, f"\\{quote}")


@pytest.mark.parametrize("secret", SIGNS)
def test_any_sign_may_be_anywhere_in_a_password(secret: str) -> None:
    double, single = _escaped(secret, '"'), _escaped(secret, "'")
    texts = [
        f'{{"db_password": "{double}", "port": 1}}',
        f'a: 1\npassword: "{double}"\nport: 1\n',
        f"define('DB_PASSWORD', '{single}');\n",
        f"a = 1\nsmtp_password = '{single}'\nb = 2\n",
        f"HOST=db\nDB_PASSWORD={secret}\nPORT=1\n",
    ]
    for text in texts:
        for form in (text, json.dumps({"p": text}), json.dumps({"o": json.dumps({"p": f"x\n{text}"})})):
            left = REDACTOR.text(form).text
            assert "[redacted:password:" in left, form
            assert secret[-5:].replace("\\", "") not in left.replace("\\", ""), form


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("A=1\nPASSWORD=aB3kQ9xLm # for now\n", "A=1\nPASSWORD=§ # for now\n"),
        ("f(\n    password='aB3''kQ9xLm',\n)", "f(\n    password='§',\n)"),
        ("export PASSWORD='aB3'\\''kQ9xLm'; run", "export PASSWORD='§'; run"),
        ('{"password": "aB3\\"kQ9xLm", "a": "b"}', '{"password": "§", "a": "b"}'),
        ("  password: aB3\"kQ9'xLm,\n  b: 1", "  password: §,\n  b: 1"),
        ("PASSWORD=aB3kQ9xLm&user=bob\n", "PASSWORD=§&user=bob\n"),
        ("<pre>\nPASSWORD=aB3kQ9xLm</pre>\n", "<pre>\nPASSWORD=§</pre>\n"),
        ("run(\n    token=aB3kQ9xLm7dE2)\n", "run(\n    token=§)\n"),
        ("config/.env:3:DB_PASSWORD=aB3;kQ9xLm\n", "config/.env:3:DB_PASSWORD=§\n"),
        ('docker run -e "PASSWORD=aB3\'kQ9&xLm" x', 'docker run -e "PASSWORD=§" x'),
        ("<password>aB3&lt;kQ9xLm</password>", "<password>§</password>"),
    ],
)
def test_a_value_ends_where_its_format_says(text: str, left: str) -> None:
    for form, expected in ((text, left), (json.dumps({"p": text}), json.dumps({"p": left}, ensure_ascii=False))):
        redacted = REDACTOR.text(form).text
        before, after = expected.split("§")
        assert redacted.startswith(before)
        assert redacted.endswith(after)
        assert redacted.count("[redacted:") == 1
        assert len(redacted) - len(before) - len(after) < 30


def test_what_stands_after_the_end_of_a_json_string_is_not_the_value() -> None:
    line = json.dumps({"content": "DB_PASSWORD=aB3kQ9xLm", "type": "x", "next": "y"}, separators=(",", ":"))
    redacted = json.loads(REDACTOR.lines(line.encode()).data)
    assert redacted["content"].startswith("DB_PASSWORD=[redacted:")
    assert (redacted["type"], redacted["next"]) == ("x", "y")


@pytest.mark.parametrize(
    "last", ["password_hash_rounds = 12", "DB_PASSWORD=aB3kQ9xL", "  password: 'aB3kQ9x", 'DB_PASSWORD=a"B3kQ9']
)
def test_a_value_at_the_end_of_a_string_leaves_the_fields_behind_it(last: str) -> None:
    command = "echo " + "y " * 200 + "\n" + last
    arguments = json.dumps({"command": ["bash", "-lc", command], "workdir": "/home/x y/z"})
    line = json.dumps({"arguments": arguments, "call_id": "c"})
    nested = json.loads(REDACTOR.lines(json.dumps({"o": line}).encode()).data)["o"]
    for redacted in (REDACTOR.text(line).text, nested):
        left = json.loads(json.loads(redacted)["arguments"])
        assert left["workdir"] == "/home/x y/z"
        assert ("B3kQ9" in left["command"][-1]) is False


@pytest.mark.parametrize("secret", ["Kx7mQ2vLp)9wZab", "Kx7]mQ2vLp9wZ", "k9}XmQ2vLpwZ", "Kx7mQ)2v]Lp}9wZ"])
@pytest.mark.parametrize(
    "text",
    [
        "Server=db;User Id=sa;Password=SECRET;Encrypt=True",
        "jdbc:sqlserver://h:1433;user=sa;password=SECRET;encrypt=true",
        "host=db user=app password=SECRET sslmode=require",
        "use password=SECRET here",
        "mysql --password=SECRET app",
        '{"Db": "Server=db;User Id=sa;Password=SECRET;Encrypt=True"}',
    ],
)
def test_a_bracket_that_was_not_opened_makes_no_code_of_a_password(text: str, secret: str) -> None:
    for form in (text, json.dumps({"p": text}), json.dumps({"o": json.dumps({"p": f"x\n{text}\ny"})})):
        redacted = REDACTOR.text(form.replace("SECRET", secret)).text
        before, after = form.split("SECRET")
        assert redacted.startswith(f"{before}[redacted:password:")
        assert redacted.endswith(f"]{after}")


@pytest.mark.parametrize("signs", ["&", "(", "<", ">", "|", "$", "=", ">=", "`"])
def test_any_sign_may_be_in_the_password_of_a_connection(signs: str) -> None:
    for before, after in (("Server=db;User Id=sa;Password=", ";Encrypt=True"), ("host=db user=a password=", " port=1")):
        for secret in (f"Kx7{signs}mQ2vLp9wZ", f"{signs}Kx7mQ2vLp9wZ", f"Kx7mQ2vL{signs}p9"):
            redacted = REDACTOR.text(f"{before}{secret}{after}").text
            assert redacted.startswith(f"{before}[redacted:password:")
            assert redacted.endswith(f"]{after}")


@pytest.mark.parametrize(
    "text",
    [
        "foo(password=db.password)",
        "f(a, password=pw)}, b",
        "Server=db;User Id=sa;Password=$DB_PASSWORD;Encrypt=True",
        "host=db user=app password=${PW} sslmode=require",
        "let a=b;password=getPassword();",
    ],
)
def test_code_and_references_among_settings_stay(text: str) -> None:
    assert REDACTOR.text(text).text == text


@pytest.mark.parametrize("before", [["--judged"], ["--judged", "--examples"]])
def test_options_of_the_list_of_marks_may_stand_before_the_folders(
    before: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "judged").write_text("abcdefg known\n")
    (tmp_path / "a.env").write_text("PASSWORD=aB3kQ9xLm\n")
    options = {"--judged": str(tmp_path / "judged"), "--examples": "2"}
    given = [word for name in before for word in (name, options[name])]
    for words in (["marks", *given, str(tmp_path / "a.env")], ["marks", str(tmp_path / "a.env"), *given]):
        monkeypatch.setattr(sys, "argv", ["bench.passwords", *words])
        main()
        assert "1 others" in capsys.readouterr().out


@pytest.mark.parametrize(
    "secret", ["~Kx7mQ2vLp9w", "/Kx7mQ2vLp9w", "~/Kx7mQ2vLp9w", "/k9!xQ2vL$p", "/Kx7m/Q2vLp9wZ", "~k9(xQ2)vLp"]
)
@pytest.mark.parametrize("name", ["pwd", "PWD", "OLDPWD", "pass", "pw", "db_pwd"])
def test_a_password_may_begin_as_a_path_does(name: str, secret: str) -> None:
    for text in (f"A=1\n{name}={secret}\nB=2\n", f'{{"{name}": "{secret}", "port": 1}}', f"Uid=sa;{name}={secret};A=b"):
        for form in (text, json.dumps({"p": text}), json.dumps({"o": json.dumps({"p": f"x\n{text}"})})):
            assert "[redacted:" in REDACTOR.text(form).text, form


@pytest.mark.parametrize(
    "folder",
    [
        "/",
        "~",
        "/home/ann/projects/web-app2",
        "~/src/my_tool",
        "/tmp/tmp.Xk29LmQ7",
        "/tmp/tmpx8d2k1qz/work",
        "/var/lib/docker/overlay2",
        "/usr/lib/python3.12/site-packages",
        "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T",
        "/builds/3f9c2e4a-1b7d-4c55-9e0a-8d1f6b2c7a90/src",
        "/nix/store/6wkyn9qmk9v9nqy1dw3p1zm7c3wl8v2r-hello-2.12",
        "/Users/Ann Lee/My Files",
        "C:\\\\Users\\\\ann\\\\src",
    ],
)
@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "pwd"])
def test_a_working_directory_stays(name: str, folder: str) -> None:
    for text in (
        f"SHELL=/bin/sh\n{name}={folder}\nHOME=/root\n",
        f'{{"{name}": "{folder}", "port": 1}}',
        f"{name}={folder} ls",
    ):
        for form in (text, json.dumps({"p": text})):
            assert REDACTOR.text(form).text == form
