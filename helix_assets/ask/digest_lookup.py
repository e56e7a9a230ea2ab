"""`python -m helix_assets.ask.digest_lookup UID [--json]`: one digest, as fast as SQLite can answer. For programs.

Belongs here: reading one row by the contract of docs/kaizen.md. Writes nothing, and imports neither Dagster nor the
rest of the product, unless the redaction rules may have changed since the last sweep.
Exit codes: 0 found, 1 not found, 2 wrong use or several sessions match, 65 the store is damaged, 75 withheld until the
next sweep, because the redaction rules changed.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence

from helix_assets.model.terminal import cell, json_safe, terminal_safe
from helix_assets.settings.rules_stamp import rules_stamp
from helix_assets.store.catalog.lookup import Found, digests_named

FOUND, MISSING, MISUSED, DAMAGED, WITHHELD = 0, 1, 2, 65, 75
_USAGE = "usage: python -m helix_assets.ask.digest_lookup UID [--json] | --schema"
_SCHEMA = "digest.schema.json"
_MANY = 20


def main(arguments: Sequence[str]) -> int:
    """Answer one call; the digest goes to stdout, errors to stderr."""
    if list(arguments) == ["--schema"]:
        sys.stdout.write(schema())
        return FOUND
    uids = [word for word in arguments if word != "--json"]
    if len(uids) != 1 or uids[0].startswith("-") or not uids[0]:
        return _complain(_USAGE, MISUSED)
    try:
        path = _store_path()
    except Exception as exc:  # noqa: BLE001 - settings refused: naming the class would import its module
        return _complain(str(exc), MISUSED)
    if not os.path.isfile(path):
        return _complain(f"there is no store at {path}: run `helix sweep`, or set HELIX_STORE_DB", MISSING)
    try:
        found = _rows(path, uids[0])
    except sqlite3.Error as exc:
        # Python's own message about a value that is not UTF-8 quotes it.
        reason = exc if hasattr(exc, "sqlite_errorname") else "a value in it is damaged"
        return _complain(f"{path} cannot be read: {reason}", DAMAGED)
    if not found:
        return _complain(f"no digest of {uids[0]!r} in {path}", MISSING)
    if _is_withheld(found[0]):
        return _complain("the digests are withheld, because the redaction rules changed: run `helix sweep`", WITHHELD)
    if len(found) > 1:
        names = "".join(f"\n  {row[0]}" for row in found[:_MANY])
        return _complain(f"{uids[0]!r} may mean any of these sessions:{names}", MISUSED)
    return _print(path, found[0], as_json="--json" in arguments)


def _store_path() -> str:
    """The SQLite file to read: HELIX_STORE_DB, else helix.db of the data folder."""
    named = os.environ.get("HELIX_STORE_DB")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    from helix_assets.settings import load_settings

    return str(load_settings().catalog_path.absolute())


def schema() -> str:
    """The JSON Schema of a digest, as shipped with the package."""
    with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "model", _SCHEMA), encoding="utf-8") as file:
        return file.read()


def _rows(path: str, text: str) -> list[Found]:
    """The digest of exactly this uid, else those of sessions that begin with it."""
    try:
        text.encode()
    except UnicodeEncodeError:  # not UTF-8, as no uid is: SQLite would refuse it
        return []
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(f"file:{escaped}?mode=ro", uri=True, timeout=10)
    try:
        return digests_named(connection, text)
    finally:
        connection.close()


def _print(path: str, row: Found, *, as_json: bool) -> int:
    _, text, mark, _, _ = row
    if not _is_proven(path, text, mark):
        return _complain("that digest is damaged: run `helix verify`", DAMAGED)
    try:
        for line in [json_safe(text)] if as_json else _fields(text):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone, as in `| head`: else Python would complain when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FOUND


def _fields(digest: str) -> Iterator[str]:
    import json

    for name, value in json.loads(digest).items():
        yield cell(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")


def _is_withheld(row: Found) -> bool:
    """Whether the digests are redacted by other rules than those in force.

    Computing the version of the rules takes longer than the whole answer, so it is done only if their stamp differs.
    """
    *_, version, stamp = row
    if version is None:
        return True
    if stamp == rules_stamp(os.environ):
        return False
    try:
        from helix_assets.settings import load_settings
        from helix_assets.store.store import rules_in_force

        return rules_in_force(load_settings()).version != version
    except Exception:  # noqa: BLE001 - as above; without rules nothing may be shown
        return True


def _is_proven(path: str, text: str, mark: str) -> bool:
    """Whether this is the digest that was written. Without the key next to the file that is assumed."""
    from hashlib import blake2b

    try:
        with open(os.path.join(os.path.dirname(path), "key"), "rb") as file:
            key = file.read()
    except FileNotFoundError:
        return True
    return blake2b(text.encode(), digest_size=16, key=key).hexdigest() == mark


def _complain(message: str, code: int) -> int:
    sys.stderr.write(terminal_safe(message) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
