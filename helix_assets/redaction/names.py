"""What a name announces: a password, a token, perhaps a key, or nothing secret at all.

Belongs here: the words in names of settings, fields and flags, and how much the value under such a name has to look
like a secret. Not here: reading values (`assignment.py`) and judging them (`judge.py`).
"""

import re
from functools import lru_cache
from typing import Literal

Standard = Literal["password", "secret", "token", "weak"]
"""password: chosen by a person; secret: the same, but not only words; token: made by a machine; weak: made by a
machine, long and plain."""

_SEGMENT = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_NOT_A_SECRET = frozenset(
    b"""count counts type types name names url uri path file filename files field fields id ids length len size limit
    expiry expires expiration expired at in ttl header headers prefix suffix class version policy required hint label
    placeholder regex pattern format arn ref env var variable param parameter index idx usage used total max min budget
    cost price rate rotation strength rules rule validator validation error errors message reset change changed
    confirmation confirm input box form page screen link manager provider encoder store service factory handler helper
    util utils client command cmd prompt column table schema hash hashed hasher salt algorithm alg digest last
    mode state status source kind option options setting settings config configs callback fn func function exists
    enabled disabled present valid invalid visible shown show hide hidden toggle icon title description text info
    endpoint address host port user username email owner issuer scope scopes audience role created updated modified
    cidr cidrs usec encryption
    second seconds minute minutes hour hours day days week weeks period errcode uuid guid
    stores shadow filesystem submit button msg tooltip
    model models map list dict set array tuple iterator iter generator parser stream reader writer lexer tokenizer
    """.split()
)
# Words that make a key public anywhere in a name, and those that do so only right before `key`.
_PUBLIC = frozenset(
    b"""public pub publishable pubkey publickey websocket cache idempotency dedup dedupe translation i18n locale known
    fingerprint anon site csrf xsrf registry lock sourcemap primarykey keyboard hotkey keyof monkey donkey
    turkey""".split()
)
_PUBLIC_KEYS = frozenset(
    b"""primary foreign partition sort row column shard routing object event query react node parent child lookup index
    unique composite hash map dict page next continuation cursor pagination sync eos bos pad cls mask unk sep stop start
    end special added image host group item entry field data meta config storage hot modifier build commit""".split()
)
_KEYS_OF_SERVICES = frozenset(b"primary storage hash host event data".split())
_PUBLIC_TOKENS = frozenset(
    b"""page next continuation cursor pagination sync eos bos pad cls mask unk sep stop start end special added image
    cancellation idempotency type""".split()
)
_PUBLIC_WORDS = frozenset(b"public pub publishable".split())
_PASSWORD_WORDS = frozenset(b"password passwd pwd passphrase passcode passwort pass pw psk pin sshpass".split())
_SECRET_WORDS = frozenset(b"secret credential".split())
_TOKEN_WORDS = frozenset(b"token authorization apikey jwt pat bearer sas".split())
_KEY_QUALIFIERS = frozenset(
    b"""api access secret private account auth master license encryption signing app application consumer admin root
    service sdk server subscription shared webhook deploy license session personal project client test live prod
    integration ingest write read rest merchant partner developer sandbox production instrumentation team organization
    org user functions function management""".split()
)


_REQUEST = [b"client", b"request", b"token"]
_SOURCE_FILE = re.compile(
    rb"\.(?:rs|go|py|pyi|js|mjs|cjs|jsx|ts|tsx|css|html|java|rb|c|h|cc|cpp|hpp|sh|sql|md|txt|json|ya?ml|toml)\Z"
)
_LOCALE = re.compile(rb"(?:\A|[^A-Za-z])[a-z]{2,3}(?:-[A-Z][a-z]{3})?-[A-Z]{2}\Z")
# All signs and spaces may be in these.
_WORDPRESS = frozenset(
    b"""AUTH_KEY SECURE_AUTH_KEY LOGGED_IN_KEY NONCE_KEY AUTH_SALT SECURE_AUTH_SALT LOGGED_IN_SALT NONCE_SALT""".split()
)


@lru_cache(maxsize=4096)
def name_standard(name: bytes) -> Standard | None:
    """The standard by which a value under this name is judged, or None if such names do not have secrets."""
    if name.isupper() and name.strip(b"\"'") in _WORDPRESS:
        return "password"
    segments = [segment.lower() for segment in _SEGMENT.findall(name)]
    while segments and segments[-1].isdigit():
        segments.pop()
    if not segments or (segments[-1] in _NOT_A_SECRET and not _ends_in_secret_id(segments)):
        return None
    if (
        _SOURCE_FILE.search(name)
        or _LOCALE.search(name)
        or segments[-3:] == [b"web", b"socket", b"key"]
        or segments[0] == b"errcode"
    ):
        return None  # what a list of checksums has; a handshake
    if segments[-2:] in ([b"account", b"sid"], [b"token", b"data"]) or segments[-3:] == _REQUEST:
        return None  # Twilio's id of an account; the tables of a parser; what makes a request to AWS unique
    words = set(segments)
    joined = b"".join(segments)
    if (
        words & _PASSWORD_WORDS
        or joined.endswith((b"password", b"passwd", b"passphrase", b"pwd"))
        or (
            joined.endswith(b"pass")
            and not joined.endswith((b"bypass", b"buypass", b"minipass", b"compass", b"surpass", b"trespass"))
        )
    ):
        return None if b"pass" in words and segments[-1] != b"pass" and len(segments) > 1 else "password"
    if segments[-2:] == [b"rediscli", b"auth"]:
        return "password"
    if words & _SECRET_WORDS or joined.endswith(b"secret"):
        return "secret"
    if _is_public(name, segments, words):
        return "weak" if words & _KEYS_OF_SERVICES and len(segments) > 2 else None
    if words & _TOKEN_WORDS or joined.endswith((b"token", b"apikey", b"accesskey", b"privatekey", b"secretkey")):
        return "token"
    if b"key" in words and words & _KEY_QUALIFIERS:
        return "token"
    return "weak"


def _is_public(name: bytes, segments: list[bytes], words: set[bytes]) -> bool:
    """Whether a key or token of this name is not a secret: `publishable_key`, `cache-key`, `next_page_token`."""
    before = segments[-2] if len(segments) > 1 else b""
    if b"token" in words or segments[-1].endswith(b"token"):
        # `syncToken` names the next page of a calendar; `CRM_SYNC_TOKEN` is a variable with a secret.
        return bool(words & _PUBLIC_WORDS) or (before in _PUBLIC_TOKENS and not (before == b"sync" and name.isupper()))
    return bool(words & _PUBLIC) or before in _PUBLIC_KEYS or segments[-1] in _PUBLIC_KEYS


def _ends_in_secret_id(segments: list[bytes]) -> bool:
    return segments[-2:] == [b"secret", b"id"]


def kind_of(name: bytes) -> str:
    """The kind of an assigned secret, after the word in its name."""
    lower = name.lower()
    for word, kind in ((b"pass", "password"), (b"pwd", "password"), (b"secret", "secret"), (b"token", "token")):
        if word in lower:
            return kind
    return "password" if lower.strip(b"-_0123456789") in (b"pw", b"psk", b"pin") else "api_key"
