"""`helix redact`: the redaction rules as a filter, to try them or to clean a text.

Reads standard input, writes standard output, stores nothing. The rules and the allow-list of helix.toml apply.
"""

import json
import secrets
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from helix_assets.cli.output import emit, hand_over
from helix_assets.model.errors import SkipSource
from helix_assets.redaction import Redactor, Rule


@click.command()
@click.option("--jsonl", is_flag=True, help='Read lines {"id","text"} and write the same, redacted, in order.')
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document: the text, and how many secrets it had.")
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Key for the tags of the marks; without it tags differ from run to run.",
)
def redact(jsonl: bool, as_json: bool, key_file: Path | None) -> None:
    """Redact a text from standard input to standard output."""
    if jsonl and as_json:
        raise click.UsageError("--jsonl or --json, not both")
    key = key_file.read_bytes() if key_file else secrets.token_bytes(32)
    if not key:
        raise click.UsageError(f"--key-file: {key_file} is empty; a store's key is data/key")
    if sys.stdin is None:
        raise click.UsageError("standard input is closed; the text to redact is read from there")
    redactor = _redactor(key)
    if not jsonl:
        # Bytes that are not UTF-8 pass unchanged, but JSON cannot contain them.
        found = redactor.text(sys.stdin.buffer.read().decode("utf-8", "replace" if as_json else "surrogateescape"))
        if as_json:
            emit({"text": found.text, "secrets": found.hits}, as_json)
        else:
            hand_over(found.text.encode("utf-8", "surrogateescape"))
        return
    for line in redacted_lines(redactor, sys.stdin.buffer):
        hand_over(line)


def redacted_lines(redactor: Redactor, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each `{"id","text"}` line with its text redacted; other fields pass, blank lines are dropped."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            record = _record(line, number)
            record["text"] = redactor.text(record["text"]).text
            yield json.dumps(record).encode() + b"\n"


def _record(line: bytes, number: int) -> dict[str, str]:
    try:
        record = json.loads(line)  # takes lone surrogates and numbers of any length, which orjson does not
    except (ValueError, RecursionError) as error:
        raise SkipSource(
            f"standard input, line {number}: not JSON, or too deep; each line must be one object"
        ) from error
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise SkipSource(f'standard input, line {number}: an object with a string "text" is needed')
    return record


def _redactor(key: bytes) -> Redactor:
    from helix_assets.settings import load_settings

    own = load_settings().redaction
    rules = [Rule(rule.name, rule.keyword or "", rule.pattern) for rule in own.rules]
    return Redactor(key, extra_rules=rules, allow=own.allow)
