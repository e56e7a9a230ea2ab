"""The environment variables about a session for programs that run after it: HELIX_SESSION_UID and five more.

Belongs here: which session is meant, the six values, and how each shell sets them. Not here: the command line
(`cli.env`). The names are those that kaizen agents read; there are no others.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping

from helix_assets.ask.reading import proven_digest
from helix_assets.ask.withheld import refuse_unredacted
from helix_assets.derive.overhead import infra_overhead_share
from helix_assets.model.digest import Digest
from helix_assets.model.errors import NotFoundError
from helix_assets.store.catalog import sessions
from helix_assets.store.store import Store

_KEPT = "\n\u200d"
"""Not printable, but allowed in a .env file; the second joins emoji."""
_UNQUOTABLE = re.compile(r"['\\\n]")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+")


def newest_session(store: Store, folder: str | None = None) -> str:
    """The session with a digest that ended last, of all sessions or of those in this folder or below it."""
    refuse_unredacted(store)
    shown = None if folder is None else store.shown_path(folder).rstrip("/") or "/"
    with store.catalog.reading() as connection:
        uid = sessions.last_ended(connection, shown)
    if uid is None:
        where = f" of {folder}" if folder is not None else ""
        raise NotFoundError(f"no session{where} has a digest yet: run `helix sweep`")
    return uid


def closing_values(store: Store, session_uid: str) -> Mapping[str, str]:
    """The variables of a session. NotFoundError if it has no digest yet."""
    digest = proven_digest(store, session_uid)
    if digest is None:
        raise NotFoundError(f"{session_uid} has no digest yet: run `helix sweep`")
    return {
        "HELIX_SESSION_UID": digest.session_uid,
        "HELIX_REPO": digest.repo or "",
        "HELIX_FLAVOR": digest.flavor,
        "HELIX_TOKENS": str(tokens_of(digest)),
        "HELIX_INFRA_OVERHEAD_SHARE": str(
            infra_overhead_share(digest.tool_histogram, store.settings.kaizen.infra_tools)
        ),
        "HELIX_STORE_DB": os.path.abspath(store.settings.catalog_path),
    }


def tokens_of(digest: Digest) -> int:
    """Input and output tokens together, without the cache: the token figure of kaizen records."""
    return digest.cost.input_tokens + digest.cost.output_tokens


def as_bash(values: Mapping[str, str]) -> str:
    """Lines for `eval` in bash and zsh. Other POSIX shells show a control character as its escape."""
    return "".join(f"export {name}={_bash(value)}\n" for name, value in values.items())


def as_fish(values: Mapping[str, str]) -> str:
    """Lines for `eval` in fish."""
    return "".join(f"set -gx {name} {_fish(value)}\n" for name, value in values.items())


def as_dotenv(values: Mapping[str, str]) -> str:
    """A .env file. Values that are not plain are in single quotes, which all readers take literally.

    Only what cannot be in single quotes is in double quotes, escaped so that nothing in it is expanded.
    """
    return "".join(f"{name}={_dotenv(value)}\n" for name, value in values.items())


def as_json(values: Mapping[str, str]) -> str:
    """One JSON object of texts."""
    return json.dumps(dict(values), indent=2) + "\n"


SHELLS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "bash": as_bash,
    "fish": as_fish,
    "json": as_json,
    "dotenv": as_dotenv,
}


def _bash(value: str) -> str:
    if value.isprintable():
        return shlex.quote(value)
    # Nothing between these quotes can end them, not even in a shell that does not know $'...'.
    return "$'" + "".join(_bytes(char, "\\x{:02x}") if _is_escaped(char) else char for char in value) + "'"


def _fish(value: str) -> str:
    if value.isprintable():
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    # Fish knows such escapes only outside of quotes, where every character that is not plain must be escaped.
    return "".join(char if _PLAIN.fullmatch(char) else _bytes(char, "\\X{:02x}") for char in value)


def _dotenv(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    text = "".join(char if char.isprintable() or char in _KEPT else " " for char in value)
    if not _UNQUOTABLE.search(text):
        return f"'{text}'"
    for char in '\\"$`':
        text = text.replace(char, "\\" + char)
    return '"' + text.replace("\n", "\\n") + '"'


def _is_escaped(char: str) -> bool:
    return char in "\\'" or not char.isprintable()


def _bytes(char: str, form: str) -> str:
    return "".join(form.format(byte) for byte in char.encode("utf-8", "replace"))
