"""Secrets assigned to a name that says so: `DB_PASSWORD=x`, `"api_key": "x"`, `<token>x</token>`, `--secret x`.

Belongs here: which names promise a secret, where their value begins and ends. Rules for one vendor or one context are
data in `rules.py`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from helix_assets.core.redaction.engine import Found
from helix_assets.core.redaction.judge import (
    is_placeholder,
    is_reference,
    is_wordlike,
    looks_chosen,
    looks_generated,
    switches_often,
)
from helix_assets.core.redaction.view import BLANK

Standard = Literal["password", "secret", "token", "weak"]

# A name holds one of these words; after a long one more may follow (`password_prod`), plurals are other things.
_PASS = r"(?i:pass(?:word|wd|wort|phrase|code)|pwd|secret|credential)"
_TOKEN = (
    r"(?i:token|authorization|(?:api|access|secret|private|account|auth|master|license|encryption|signing|webhook)[_.-]?key"
    r"|connection[_.-]?string)"
)
_MORE = r"(?:[A-Z0-9_.-][\w.-]*)?"
_WEAK = (
    r"(?i:key|auth|pass|pw|psk|sas|pat|jwt|salt|seed|pin|bearer|login|dsn|session|cookie|sid|privatekey|webhook_url)"
    r"(?:[_-]?[0-9]{1,2})?"
)
_NAME = rf"(?:(?:{_PASS}|{_TOKEN})(?:[A-Z0-9_.-][\w.-]{{0,24}})?|[A-Za-z0-9_.-]{_WEAK}|{_WEAK})"
# What stands between name and value: quotes, a bracket, then a sign of assignment.
_SIGN = (
    r"(?:[\"'`]?:[ ]?[A-Za-z][\w.\[\]|? ]{0,30}[ \t]=[ \t]{1,4}|:[ ]?(?i:str|string)=|[ \t]+(?i:string)[ \t]*=[ \t]*"  # typed: `token: str = `
    r"|[\"'`]?\]?\)?[ \t]{0,12}(?::?==?>?|=>|->|::?)[ \t]{0,8}"  # = := == => : ->
    r"|[\"'`]?[\s,]{1,24}[\"']?[Vv]alue[\"']?\s{0,3}[:=]\s{0,3}"  # name and value apart
    r"|[\"'][ \t]{0,4},[ \t]{0,4}"  # a pair in a call: setenv("NAME", "value")
    r"|[\"'`]?\]?\)?[ \t]{0,3}(?:\|\||\?\?)[ \t]{0,3}|[\"'`*]{0,2}[ \t]{1,30}\|[ \t]{1,30}"  # a default; a table
    r"|>|\([ \t]?)"
)
ASSIGNMENT = rf"({_NAME})({_SIGN})"
"""Over the view: group 1 is the tail of the name, group 2 the sign."""
_FLAG_NAME = rf"(?:[\w-]{{0,24}}?)(?:(?:{_PASS}|{_TOKEN})(?:[A-Z0-9_.-][\w.-]{{0,24}})?|{_WEAK})"
FLAG = rf"(?:^|[\s\"'`(,\[])(--?{_FLAG_NAME})([\"']?(?:[ \t]{{1,4}}|[\"'],\s{{0,4}}))"
"""Over the view: `--token x`, `["--token", "x"]`."""
_VERB = r"(?i:ENV|ARG|setx|setenv|set -g?x|set|put|add|write|secret|variable|config|--name)[ \t]{1,3}(?:--[\w-]+[ \t]+)?[\"']?"
COMMAND = (
    rf"({_VERB}(?:[\w./:-]{{0,48}}(?:{_PASS}|{_TOKEN}){_MORE}|(?:[\w./:-]{{0,48}}[_./:-])?{_WEAK}))"
    r"([\"']?[ \t]{1,4}(?:(?:--?(?:body|value|b|v)|/d)[ =])?)"
)
"""Over the view: `ENV API_TOKEN x`, `aws configure set aws_secret_access_key x`."""

# The same in raw bytes, where quotes are escaped: only has to find the lines worth a look, but few others.
_QUOTE = r"(?:[\\\"'`\])]|u00[0-9a-fA-F]{2}|&quot;)*"
_OPEN = r"(?:[\\\"'` \t(]|u00[0-9a-fA-F]{2}|&quot;|[bBrRfFuU][\\\"'])*"
_BODY = r"[^\s\"'\\<>,;(){}\[\]$*&|]"
_ANY = rf"{_OPEN}{_BODY}{{5}}"
_DIGITS = rf"{_OPEN}{_BODY}*[0-9]{_BODY}{{3}}"
_EQUALS = rf"{_QUOTE}[ \t]*(?::?==?>?|=>|->|::?|u003[dD]|:[ ]?[A-Za-z][\w.\[\]|? ]*=|(?i:string)[ \t]*=|\|\|?|\?\?|>)"
_PAIR = rf"(?:[\\\"']+[ \t]*,|{_QUOTE}\()"
_APART = rf"{_QUOTE}(?:[\s,\\\"']|\\[nrt])+[Vv]alue[\\\"']*\s*[:=]"
_SPACED = r"[\\\"']*(?:[ \t]+|[\\\"']+,\s*)"
_STRONG_NAME = rf"(?:{_PASS}|{_TOKEN}){_MORE}"
TRIGGER = (
    rf"{_PASS}{_MORE}{_EQUALS}{_ANY}|{_TOKEN}{_MORE}{_EQUALS}{_DIGITS}|{_STRONG_NAME}(?:{_PAIR}{_DIGITS}|{_APART}{_ANY})"
    rf"|(?i:pass|pw|psk)[0-9]?{_EQUALS}{_ANY}|{_WEAK}(?:{_EQUALS}|{_APART}|{_PAIR}){_DIGITS}"
    rf"|-[\w-]*(?:{_PASS}|(?i:pass|pw)){_MORE}{_SPACED}{_ANY}|-[\w-]*(?:{_TOKEN}{_MORE}|{_WEAK}){_SPACED}{_DIGITS}"
    rf"|(?i:ENV|ARG|setx|setenv|set|put|add|write|secret|variable|config|--name) [\w./:\\\"' -]*(?:{_STRONG_NAME}|{_WEAK})[\\\"']*[ \t]+"
    rf"(?:--?\w+[ =])?{_DIGITS}"
)

_PREFIX = re.compile(rb"[\w.$-]{1,48}\Z")
_SEGMENT = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OPENING = re.compile(rb"[ \t]{0,4}(?:[bBrRfFuU]{1,2}(?=[\"']))?(\"\"\"|'''|[\"'`])?")
_BARE = re.compile(rb"[^\s\"'`<>,;&|\x00\x80-\xff]+")
_LINE_VALUE = re.compile(rb"[!-~]+(?=[ \t]*(?:[\r\n]|\Z))")
_LINE_LEAD = re.compile(rb"(?:\A|[\n\x00])[ \t>|+-]*(?:[0-9]+(?:\xe2\x86\x92|[:\t]))?[ \t+-]*(?:export |set |ENV |- )?[\w.-]*\Z")
_SCHEME = re.compile(rb"(?i)(?:bearer|basic|token|apikey|api-key|key|ssws|splunk|geniekey|bot|oauth|jwt|flyv1|[a-z-]+(?:token|key))[ :=]\s*(?=\S)")

_HOST = re.compile(rb"@[\w-]+(?:\.[\w-]+)+[/:]")
_PAIR_SIGN = re.compile(rb"[\"'][ \t]*,[ \t]*\Z|\(")
_BOTH = re.compile(rb"[A-Za-z].*\d.*\d|\d.*\d.*[A-Za-z]")
_PLAIN_VALUE = re.compile(rb"[\w+/=.~:%|-]+\Z")
_CODE = re.compile(rb"[A-Za-z_][\w.]*(?:\[[^\]]*\]|\(.*\)|\()|.*(?:\(\)|=>|\)\{)")

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
    model models map list dict set array tuple iterator iter generator parser stream reader writer lexer tokenizer
    """.split()
)
_PUBLIC = frozenset(
    b"""public pub publishable cache primary foreign partition sort idempotency dedup dedupe row column shard routing
    translation i18n locale object event query react node parent child lookup index unique composite hash map dict
    page next continuation cursor pagination sync eos bos pad cls mask unk sep stop start end special added image
    host known fingerprint group item entry field data meta config storage primarykey keyboard hot modifier
    monkey donkey turkey hotkey keyof anon site csrf xsrf registry lock sourcemap build commit""".split()
)
_PUBLIC_TOKENS = frozenset(
    b"""public pub publishable page next continuation cursor pagination sync eos bos pad cls mask unk sep stop start end
    special added image cancellation""".split()
)
_PASSWORD_WORDS = frozenset(b"password passwd pwd passphrase passcode passwort pass pw psk pin login sshpass".split())
_SECRET_WORDS = frozenset(b"secret credential".split())
_TOKEN_WORDS = frozenset(b"token authorization apikey jwt pat bearer sas".split())
_KEY_QUALIFIERS = frozenset(
    b"""api access secret private account auth master license encryption signing app application consumer admin root
    service sdk server subscription shared webhook deploy license session personal project client test live prod
    integration ingest write read rest merchant partner developer sandbox production instrumentation team organization
    org user functions function management""".split()
)


@dataclass(frozen=True, slots=True)
class Value:
    """An assigned value in the view, and how it was written."""

    start: int
    end: int
    text: bytes
    quoted: bool
    whole_line: bool


def assigned_secret(view: bytes, found: Found) -> Value | None:
    """Return the secret that the assignment, flag or command `found` gives to its name, if it is one."""
    start, sign_start = found.span(1)
    sign = view[sign_start : found.end()]
    prefix = _PREFIX.search(view, max(0, start - 48), start)
    name_start = prefix.start() if prefix else start
    standard = name_standard(view[name_start:sign_start])
    if standard is None or _is_not_assigned(view, name_start, sign):
        return None
    value = _read_value(view, name_start, found.end(), sign)
    if sign.startswith(b"(") and b"." in view[start:sign_start]:
        return None
    if value and sign == b">" and view[value.end : value.end + 2] != b"</":
        return None
    if value is None or BLANK in view[value.start : value.end + 1] or view[value.start - 1 : value.start] == BLANK:
        return None
    return value if _is_secret(value, standard, sign) else None


@lru_cache(maxsize=4096)
def name_standard(name: bytes) -> Standard | None:
    """Say by which standard a value under this name is judged, or None where names like it hold no secrets."""
    segments = [segment.lower() for segment in _SEGMENT.findall(name)]
    while segments and segments[-1].isdigit():
        segments.pop()
    if not segments or (segments[-1] in _NOT_A_SECRET and not _ends_in_secret_id(segments)):
        return None
    words = set(segments)
    joined = b"".join(segments)
    if words & _PASSWORD_WORDS or joined.endswith((b"password", b"passwd", b"passphrase", b"pwd")) or (
        joined.endswith(b"pass") and not joined.endswith((b"bypass", b"buypass", b"minipass", b"compass", b"surpass", b"trespass"))
    ):
        return None if b"pass" in words and segments[-1] != b"pass" and len(segments) > 1 else "password"
    if words & _SECRET_WORDS or joined.endswith(b"secret"):
        return "secret"
    if words & _PUBLIC_TOKENS or (words & _PUBLIC and b"token" not in words and not joined.endswith(b"token")) and not words & {b"secret", b"password"}:
        return "weak" if words & {b"primary", b"storage", b"hash", b"host"} and len(segments) > 2 else None
    if words & _TOKEN_WORDS or joined.endswith((b"token", b"apikey", b"accesskey", b"privatekey", b"secretkey")):
        return "token"
    if b"key" in words and words & _KEY_QUALIFIERS:
        return "token"
    return "weak"


def _ends_in_secret_id(segments: list[bytes]) -> bool:
    return segments[-2:] == [b"secret", b"id"]


def _is_not_assigned(view: bytes, name_start: int, sign: bytes) -> bool:
    """Tell what only looks like an assignment: a tag that is not one, a call that is not quoted."""
    before = view[name_start - 1 : name_start]
    if sign == b">":
        return before not in b"</:" or not before
    return False


def _read_value(view: bytes, name_start: int, at: int, sign: bytes) -> Value | None:
    opening = _OPENING.match(view, at)
    quote = opening.group(1) if opening else None
    start = opening.end() if opening else at
    if quote:
        end = view.find(quote, start, start + 8192)
        line_end = view.find(b"\n", start, end if end >= 0 else start + 8192)
        end = line_end if line_end >= 0 else end if end >= 0 else min(len(view), start + 8192)
        return _trimmed(view, start, end, quoted=True, whole_line=False)
    if sign.startswith((b"(", b"'", b'"')) and not any(mark in sign for mark in b":=>v"):
        return None
    tight = not sign.endswith((b" ", b"\t"))
    lead = _LINE_LEAD.search(view, max(0, name_start - 64), name_start)
    whole = _LINE_VALUE.match(view, start) if lead and b"=" in sign and tight else None
    if whole and not re.search(rb"[&;,][\w.-]+=|[\"'`<>]|\)[;,]?\Z", whole.group()):
        return _trimmed(view, start, whole.end(), quoted=False, whole_line=True)
    bare = _BARE.match(view, start)
    return _trimmed(view, start, bare.end(), quoted=False, whole_line=False) if bare else None


def _trimmed(view: bytes, start: int, end: int, *, quoted: bool, whole_line: bool) -> Value | None:
    scheme = _SCHEME.match(view, start, end)
    if scheme:
        start = scheme.end()
    if not scheme and not quoted and _SCHEME.match(view, start, end + 8):
        again = _SCHEME.match(view, start, end + 8)
        bare = _BARE.match(view, again.end()) if again else None
        if again and bare:
            start, end = again.end(), bare.end()
    text = view[start:end]
    if not quoted:
        host = _HOST.search(view, start, end)
        end = host.start() if host else end
        text = view[start:end]
        text = text.rstrip(b".:!?*\\)]}" if not whole_line else b"\\")
        opened = view[start:end]
        if whole_line or opened.count(b"(") + opened.count(b"[") + opened.count(b"{") > 0:
            text = opened.rstrip(b"\\")
    text = text.strip(b" ")
    start = view.find(text, start) if text else start
    return Value(start, start + len(text), text, quoted, whole_line) if text else None


def _is_secret(value: Value, standard: Standard, sign: bytes) -> bool:
    text = value.text
    if is_placeholder(text) or len(text) > 8192:
        return False
    if _PAIR_SIGN.match(sign) and not looks_generated(text, 12) and not (standard == "password" and _has_both(text)):
        return False
    if b"|" in sign and not looks_generated(text, 10) and not (standard == "password" and _has_both(text)):
        return False
    if not value.quoted and is_reference(text) and (_CODE.match(text) or not switches_often(text)):
        return False
    if value.quoted and (text[:1] in b"$%{<" and is_reference(text) or (is_reference(text) and not looks_generated(text, 24))):
        return False
    if b" " in text and not looks_generated(text.replace(b" ", b""), 40):
        return False
    if standard == "password":
        return _is_password(value, sign)
    if standard == "secret":
        return looks_generated(text) or (_is_password(value, sign) and any(48 <= byte <= 57 for byte in text) and len(text) >= 8)
    if standard == "token":
        return looks_generated(text, 8)
    return looks_generated(text, 20) and not is_wordlike(text) and _PLAIN_VALUE.match(text) is not None


def _has_both(text: bytes) -> bool:
    return _BOTH.search(text) is not None and not re.fullmatch(rb"[a-z]+(?:_[a-z0-9]+)*", text)


def _is_password(value: Value, sign: bytes) -> bool:
    text = value.text
    lower = text.lower()
    if not value.quoted and not value.whole_line and re.fullmatch(rb"[A-Za-z_]+\d?", text) and not looks_generated(text, 8):
        return False
    if any(word in lower for word in (b"password", b"passwd", b"secret")) and is_wordlike(text) and not value.whole_line:
        return False
    if text.isdigit():
        return len(text) >= 6
    return looks_chosen(text) or (value.whole_line and len(text) >= 10 and text.isalpha())


def kind_of(name: bytes) -> str:
    """Name the kind of an assigned secret after the word in its name."""
    lower = name.lower()
    for word, kind in ((b"pass", "password"), (b"pwd", "password"), (b"secret", "secret"), (b"token", "token")):
        if word in lower:
            return kind
    return "password" if lower.strip(b"-_0123456789") in (b"pw", b"psk", b"pin") else "api_key"
