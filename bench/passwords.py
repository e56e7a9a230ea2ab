"""What redaction leaves of random passwords, and what it takes that is not a secret.

    python -m bench.passwords [NUMBER]                   share of passwords that survive, per format and alphabet
    python -m bench.passwords marks FOLDER [FOLDER ...]  every mark in logs and source files, with its surroundings
    python -m bench.passwords marks --judged FILE FOLDER ...   the same, without those that FILE says are secrets

A password survives if four of its characters in a row are left. FILE has one tag per line, the seven letters of a mark,
with anything behind it; so it can be kept where the secrets cannot.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from urllib.parse import quote

from helix_assets.redaction import Redactor

ALPHABETS = {
    "lower+digits": string.ascii_lowercase + string.digits,
    "alnum": string.ascii_letters + string.digits,
    "one dot": string.ascii_letters + string.digits,
    "some signs": string.ascii_letters + string.digits + "!@#$%^&*-_=+.?",
    "all signs": string.ascii_letters + string.digits + string.punctuation,
}
LENGTHS = range(10, 33)
NAMES = (
    "password",
    "db_password",
    "dbPassword",
    "adminPassword",
    "smtp_pass",
    "root_password",
    "keystore_passwd",
    "pwd",
    "pass",
    "pw",
)
_NO_PLAIN_SCALAR = re.compile(r"^[-?:,\[\]{}#&*!|>'\"%@`]|: | #|:$")
_MARK = re.compile(r"\[redacted:([a-z0-9_]+):([a-z2-7]{7})\]")
_LEFT = 4
_AROUND = 90


class CannotBeWrittenError(Exception):
    """The format cannot have this value without quotes."""


def _plain_yaml(secret: str) -> str:
    if _NO_PLAIN_SCALAR.search(secret):
        raise CannotBeWrittenError
    return secret


def _bare(secret: str) -> str:
    """Without quotes in a .env file or an INI file: no quote, backslash or comment begins it."""
    if secret[0] in "\"'`#;" or "\\" in secret:
        raise CannotBeWrittenError
    return secret


def _no(signs: str) -> Callable[[str], str]:
    def checked(secret: str) -> str:
        if any(sign in secret for sign in signs):
            raise CannotBeWrittenError
        return secret

    return checked


def _escaped(signs: str) -> Callable[[str], str]:
    return lambda secret: "".join(f"\\{char}" if char in signs else char for char in secret)


def _shell(secret: str) -> str:
    return secret.replace("'", "'\\''")


def _yaml_single(secret: str) -> str:
    return secret.replace("'", "''")


FORMATS: dict[str, tuple[str, Callable[[str], str]]] = {
    "JSON": ('{{\n  "user": "app",\n  "{name}": "{value}",\n  "port": 5432\n}}', lambda s: json.dumps(s)[1:-1]),
    "JSON, one line": ('{{"user":"app","{name}":"{value}","port":5432}}', lambda s: json.dumps(s)[1:-1]),
    ".env": ("HOST=db\n{NAME}={value}\nPORT=5432\n", _bare),
    '.env ""': ('HOST=db\n{NAME}="{value}"\nPORT=5432\n', _escaped('"\\$`')),
    ".env ''": ("HOST=db\n{NAME}='{value}'\nPORT=5432\n", _no("'")),
    "YAML": ("database:\n  user: app\n  {name}: {value}\n  port: 5432\n", _plain_yaml),
    'YAML ""': ('database:\n  user: app\n  {name}: "{value}"\n  port: 5432\n', lambda s: json.dumps(s)[1:-1]),
    "YAML ''": ("database:\n  user: app\n  {name}: '{value}'\n  port: 5432\n", _yaml_single),
    "PHP define": ("<?php\ndefine('{NAME}', '{value}');\ndefine('PORT', 5432);\n", _escaped("'\\")),
    "PHP array": ("return [\n    '{name}' => '{value}',\n];\n", _escaped("'\\")),
    "TOML": ('[db]\n{name} = "{value}"\nport = 5432\n', _escaped('"\\')),
    "TOML ''": ("[db]\n{name} = '{value}'\nport = 5432\n", _no("'")),
    "INI": ("[client]\nuser = app\n{name} = {value}\n", _bare),
    "properties": ("db.user=app\ndb.{name}={value}\ndb.port=5432\n", _bare),
    "export ''": ("export HOST=db\nexport {NAME}='{value}'\n", _shell),
    "compose": ("    environment:\n      - USER=app\n      - {NAME}={value}\n", _no("\"'\\#")),
    "compose map": ("    environment:\n      {NAME}: {value}\n", _plain_yaml),
    "URL": ("see postgres://app:{value}@db.example:5432/main for it\n", lambda s: quote(s, safe="")),
    "Terraform": ('  username = "app"\n  {name} = "{value}"\n', _escaped('"\\')),
    "Python": ("user = 'app'\n{name} = '{value}'\n", _escaped("'\\")),
    "argument": ("connect(host='db', {name}='{value}', port=5432)\n", _escaped("'\\")),
    "TypeScript": ('const {name}: string = "{value}";\n', _escaped('"\\')),
    "ADO": ("use Server=db;User Id=sa;Password={value};Encrypt=True here\n", _no("\"';")),
    "JDBC": ("url=jdbc:sqlserver://db.internal:1433;user=sa;password={value};encrypt=true\n", _no("\"';{}")),
    "appsettings": (
        '{{\n  "Db": "Server=db;User Id=sa;Password={value};Encrypt=True"\n}}',
        lambda s: json.dumps(_no("\"';\\")(s))[1:-1],
    ),
    "libpq": ('psql "host=db user=app password={value} sslmode=require"\n', _no("\"'\\")),
    "XML": ("<db>\n  <{name}>{value}</{name}>\n</db>\n", lambda s: s.replace("&", "&amp;").replace("<", "&lt;")),
}


def make(random: Random, alphabet: str, length: int) -> str:
    """Make a password of this alphabet, with at least one digit and one letter, as people's rules ask for."""
    while True:
        chars = random.choices(ALPHABETS[alphabet], k=length)
        if alphabet == "one dot":
            chars[random.randrange(1, length - 1)] = "."
        secret = "".join(chars)
        if any(char.isdigit() for char in secret) and any(char.isalpha() for char in secret):
            return secret


def sample(random: Random, form: str, alphabet: str) -> tuple[str, str]:
    """Return a text in this format and the password as it stands there."""
    template, write = FORMATS[form]
    while True:
        secret = make(random, alphabet, random.choice(LENGTHS))
        name = random.choice(NAMES)
        if name == "pass" and "{NAME}: " in template:
            continue  # `PASS: x` is what test runners print
        try:
            value = write(secret)
        except CannotBeWrittenError:
            continue
        capitals = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        return template.format(name=name, NAME=capitals, value=value), value


def survives(text: str, value: str, redacted: str) -> bool:
    """Whether four characters of the value in a row are left."""
    before, after = text.split(value, 1)
    left = redacted[len(before) :] if redacted.startswith(before) else redacted
    left = left.removesuffix(after) if after else left
    left = _MARK.sub("\0", left)
    return any(value[at : at + _LEFT] in left for at in range(len(value) - _LEFT + 1))


def survivors(redactor: Redactor, form: str, alphabet: str, number: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return the values that survive in some of `number` texts, and what is left of the texts."""
    random = Random(f"{seed} {form} {alphabet}")
    left = []
    for at in range(number):
        text, value = sample(random, form, alphabet)
        if at % 2:  # as an agent reads a file
            line = json.dumps({"content": text})
            redacted: str = json.loads(redactor.lines(line.encode()).data)["content"]
        else:
            redacted = redactor.text(text).text
        if survives(text, value, redacted):
            left.append((value, redacted))
    return left


def print_survivors(number: int, examples: int) -> None:
    redactor = Redactor(b"bench")
    redactor.prepare()
    print(f"{'% of ' + str(number) + ' that survive':24}" + "".join(f"{name:>14}" for name in ALPHABETS))
    shown, worst = [], 0.0
    for form in FORMATS:
        shares = []
        for alphabet in ALPHABETS:
            left = survivors(redactor, form, alphabet, number)
            shares.append(100 * len(left) / number)
            shown += [(form, *case) for case in left[:examples]]
        worst = max(worst, *shares)
        print(f"{form:24}" + "".join(f"{share:14.2f}" for share in shares), flush=True)
    print(f"worst cell: {worst:.2f} %")
    for case in shown:
        print(*map(repr, case))


def texts_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every line of the logs below a folder, source files whole, each text of a database."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else [folder]
    for path in files:
        data = path.read_bytes()
        if data.startswith(b"SQLite format 3"):
            yield from ((str(path), text) for text in _texts_of_database(path))
        elif b"\0" not in data[:4096]:
            yield str(path), data


def _texts_of_database(path: Path) -> Iterator[bytes]:
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as database:
        database.text_factory = bytes
        for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
            try:
                rows = database.execute(f"select * from [{table.decode()}]")
                yield from (value for row in rows for value in row if isinstance(value, bytes) and len(value) > 8)
            except sqlite3.DatabaseError as error:
                print(path, error, file=sys.stderr)


def marks(before: str, after: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield kind, tag, what was replaced and the text around it, for each mark in `after` that `before` lacks."""
    at = place = 0
    found = list(_MARK.finditer(after))
    for number, mark in enumerate(found):
        kept = after[place : mark.start()]
        start = at + len(kept) if before.startswith(kept, at) else before.find(kept, at) + len(kept)
        follows = after[mark.end() : found[number + 1].start() if number + 1 < len(found) else len(after)]
        end = before.find(follows[:60], start) if follows else len(before)
        if before.startswith(mark.group(), start):
            end = start + len(mark.group())  # it was there before
        else:
            yield mark[1], mark[2], before[start:end], before[max(0, start - _AROUND) : start], before[end : end + 40]
        at, place = end, mark.end()


def all_marks(redactor: Redactor, data: bytes) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the marks of a file: of its lines if these are records, else of all of it."""
    for raw in data.splitlines(keepends=True) if data[:1] == b"{" else [data]:
        if raw[:1] == b"{":
            redacted = redactor.lines(raw).data
        else:
            redacted = redactor.text(raw.decode("utf-8", "replace")).text.encode()
        if redacted != raw:
            yield from marks(raw.decode("utf-8", "replace"), redacted.decode("utf-8", "replace"))


def print_marks(folders: list[Path], judged: Path | None) -> None:
    """Print every mark that nobody has judged yet, and how many there are per MB."""
    known = {line.split()[0] for line in judged.read_text().splitlines() if line.strip()} if judged else set()
    redactor = Redactor(b"bench")
    redactor.prepare()
    size = secrets = 0
    others: Counter[str] = Counter()
    for name, data in (file for folder in folders for file in texts_below(folder)):
        size += len(data)
        for kind, tag, secret, head, tail in all_marks(redactor, data):
            if tag in known:
                secrets += 1
                continue
            others[kind] += 1
            print(f"{tag} {kind:14} {name[-60:]}\n    {kind} {head!r} >>>{secret[:120]!r}<<< {tail!r}")
    found = others.total()
    print(
        f"{size / 1e6:.1f} MB, {secrets} known secrets, {found} others: {found / size * 1e6:.2f} per MB", dict(others)
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.passwords", description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="1000", help="a number of passwords per cell, or `marks`")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--judged", type=Path)
    parser.add_argument("--examples", type=int, default=0, help="how many survivors of each cell are shown")
    options = parser.parse_intermixed_args()
    if options.what == "marks":
        print_marks(options.folders, options.judged)
    else:
        print_survivors(int(options.what), options.examples)


if __name__ == "__main__":
    main()
