"""Secrets assigned to a name that says so: `DB_PASSWORD=x`, `"api_key": "x"`, `<token>x</token>`, `--secret x`.

Belongs here: which names announce a secret, and where their value begins and ends. Rules for one vendor or one context
are data in `rules.py`.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from helix_assets.redaction.judge import (
    is_broken_by_a_dot,
    is_cache_key,
    is_digest,
    is_mixed_with_signs,
    is_passphrase,
    is_placeholder,
    is_reference,
    is_uuid,
    is_wordlike,
    looks_chosen,
    looks_generated,
    switches_often,
)
from helix_assets.redaction.names import Standard, name_standard
from helix_assets.redaction.verdict import is_report
from helix_assets.redaction.view import BLANK

# A name contains one of these words. More may follow a long one (`password_prod`); plurals mean other things.
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
    r"(?:[\"'`]?:[ \t]{1,4}!![a-z/]{3,24}[ \t]{1,4}"  # YAML's tag
    r"|[\"'`]?:[ ]?(?:&(?:'\w{1,16} )?)?[A-Za-z\[][\w.\[\]|? ]{0,30}[ \t]=[ \t]{1,4}"  # typed: `token: str = `
    r"|:[ ]?(?i:str|string)="
    r"|[ \t]+(?i:string)[ \t]*=[ \t]*"
    r"|[\"'`]?\]?\)?[ \t]{0,12}(?::?==?>?|=>|->|→|::?)[ \t]{0,8}"  # = := == => : -> →
    r"|(?::\*{2}|\*{2}:)[ \t]{1,4}"  # Markdown's bold
    r"|[\"']?[ \t]{1,4}\{[ \t]{0,4}\n(?:[^\n{}]{0,100}\n){0,4}[^\n={}]{0,48}default[ \t]{1,12}=[ \t]{1,4}"  # Terraform
    r"|[\"'`]?[\s,]{1,24}[\"']?(?:\d{1,6}(?:→|[:\t ])|[+-])?\s{0,24}[\"']?"  # two lines
    r"(?:[Vv]alue|example)[\"']?\s{0,3}[:=]\s{0,3}"
    r"|[\"'`]?\]?\)?[ \t]{0,3}(?:\|\||\?\?)[ \t]{0,3}|[\"'`*]{0,2}[ \t]{1,30}\|[ \t]{1,30}"  # a default; a table
    r"|>)"
)
_PAIR_SIGN = (
    r"(?:[\"'][ \t]{0,4},[ \t]{0,4}|\([ \t]?"  # a pair in a call: setenv("NAME", "value")
    r"|[\"'`]?\]?\)?[ \t]{1,3}or[ \t]{1,3})"  # getenv("NAME") or "value"
)
# How a value begins, so that the many names without a value cost nothing.
_QUOTED_VALUE = r"(?:[ \t]{0,4}\[)?[ \t]{0,4}[bBnNrRfFuU]{0,2}(?:\"{1,3}[^\n\"]{4}|'{1,3}[^\n']{4}|`[^\n`]{4})"
_VALUE = (
    rf"(?:{_QUOTED_VALUE}|[ \t]{{0,4}}(?:[^\s\"'`<>,;&|\x80-\xff]{{5}}|[A-Za-z]{{3,5}}[ :=])"
    r"|[!-~]{5,64}[ \t]{0,8}(?:[\r\n\x00]|$)|[!#-&(-~]{5,64}[\"'])"
)
ASSIGNMENT = rf"({_NAME})(?:({_SIGN}){_VALUE}|({_PAIR_SIGN}){_QUOTED_VALUE})"
"""Over the view: group 1 is the end of the name, group 2 or 3 the sign; then a value begins that may be a secret."""
_FLAG_NAME = rf"(?:[\w-]{{0,24}}?)(?:(?:{_PASS}|{_TOKEN})(?:[A-Z0-9_.-][\w.-]{{0,24}})?|{_WEAK})"
FLAG = rf"(?:^|[\s\"'`(,\[])(--?{_FLAG_NAME})([\"']?(?:[ \t]{{1,4}}|[\"'],\s{{0,4}})){_VALUE}"
"""Over the view: `--token x`, `["--token", "x"]`."""
_VERB = (
    r"(?i:ENV|ARG|setx|setenv|set -g?x|set|put|add|write|secret|variable|config|--name)[ \t]{1,3}"
    r"(?:--[\w-]+[ \t]+)?[\"']?"
)
COMMAND = (
    rf"({_VERB}(?:[\w./:-]{{0,48}}(?:{_PASS}|{_TOKEN}){_MORE}|(?:[\w./:-]{{0,48}}[_./:-])?{_WEAK}))"
    rf"([\"']?[ \t]{{1,4}}(?:(?:--?(?:body|value|b|v)|/d)[ =])?){_VALUE}"
)
"""Over the view: `ENV API_TOKEN x`, `aws configure set aws_secret_access_key x`."""

# The same in raw bytes, where quotes and signs are escaped. They have to find the lines worth a look, and few others.
_QUOTE = r"(?:[\\\"'`\])]|u00[0-9a-fA-F]{2}|&quot;)*"
_OPEN = r"(?:\\*[\"'`]|[ \t(\[]|\\+(?:t|u00[0-9a-fA-F]{2})|&quot;|!!str )*(?:[bBnNrRfFuU]\\*[\"'])?"
_QUOTED = r"[ \t]*(?:[bBrRfFuU]?\\*[\"'`]|\\+u00[0-9a-fA-F]{2}|&quot;)+"
_ESCAPED = r"\\+[u/]"
_BODY = rf"(?:[^\s\"'\\<>,;(){{}}\[\]$*&|]|{_ESCAPED})"
_FURTHER = rf"(?:[^\s\"'`\\]|{_ESCAPED})"
_PLAIN = rf"(?:[\w+/=.~:%|-]|{_ESCAPED})"
# A value that a person chose begins with nearly anything, but `${` and `$NAME` are references and `***` is masked.
_CHOSEN = rf"{_OPEN}(?:{_BODY}{_FURTHER}{{4}}|[$*&][A-Za-z_]*[0-9!@#%^?~+=-]{_FURTHER}{{2}})"
_DIGITS = rf"{_BODY}*[0-9]{_BODY}{{3}}"


def _mixed(body: str) -> str:
    """Letters and digits, as in all values that machines make."""
    return rf"{body}*(?:[A-Za-z]{body}*[0-9]|[0-9]{body}*[A-Za-z]){body}{{2}}"


_MACHINE_NAME = (
    r"(?i:key|auth|sas|pat|jwt|salt|seed|bearer|dsn|session|cookie|sid|privatekey|webhook_url)(?:[_-]?[0-9]{1,2})?"
)
_CHOSEN_NAME = r"(?i:pass|pw|psk|pin|login)(?:[_-]?[0-9]{1,2})?"
# These names are shorter than above: each process pays for building them, and they match few other names.
_TOKEN_NAME = rf"(?i:token|authorization|[a-z][_.-]?key|connection[_.-]?string){_MORE}"
_STRONG_NAME = rf"(?i:pass(?:word|wd|wort|phrase|code)?|pwd|secret|credential|token|authorization|[_.-]key){_MORE}"
_EQUALS = (
    rf"{_QUOTE}(?:\*\*)?[ \t]*"
    r"(?:(?:[:=>|](?:\*\*)?|->|→|\\u2192|\?\?|u003[dD])[=>|:]*(?:[ ]?[A-Za-z&][\w.\[\]|? &']*=)?|(?i:string)[ \t]*=)"
)
_PAIR = rf"(?:[\\\"']+[ \t]*,|{_QUOTE}(?:\(|[ ]or[ ])){_QUOTED}"
_APART = r"[\\\"'`]*(?:[\s,]|\\[nrt])(?:[\s,\\\"'0-9:→+-]|\\(?:[nrt]|u2192))*(?:[Vv]alue|example)[\\\"']*\s*[:=]"
_SPACED = r"[\\\"']*(?:[ \t]+|[\\\"']+,\s*)"
TRIGGERS = (
    rf"(?i:authorization){_EQUALS}{_OPEN}[A-Za-z-]{{2,16}}[ =:]+{_mixed(_PLAIN)}",
    rf"{_PASS}{_MORE}{_EQUALS}{_CHOSEN}",
    rf"{_TOKEN_NAME}{_EQUALS}{_OPEN}{_mixed(_BODY)}",
    # One pattern for both: the engine restarts for each pattern at each `token` in a log.
    rf"{_STRONG_NAME}(?:{_PAIR}[^\s\"'\\<>,;(){{}}\[\]$*&|/.](?:{_DIGITS}|{_BODY}{{3}}{_BODY}*[0-9])"
    rf"|{_APART}[\\\"'` ]*[^\s\"'`\\]{{4}})",
    rf"(?:[Pp]ass|_PASS|(?i:pw|psk))[0-9]?{_EQUALS}{_CHOSEN}",
    rf"PASS[0-9]?=[\\\"']*{_BODY}{{5}}",
    rf"{_CHOSEN_NAME}(?:(?:{_EQUALS}|{_APART}){_OPEN}|{_PAIR}){_DIGITS}",
    rf"{_MACHINE_NAME}(?:(?:{_EQUALS}|{_APART}){_OPEN}|{_PAIR}){_mixed(_PLAIN)}",
    rf"-[\w-]*(?:{_PASS}|(?i:pass|pw)){_MORE}{_SPACED}{_CHOSEN}",
    rf"-[\w-]*(?:{_TOKEN}{_MORE}|{_WEAK}){_SPACED}{_OPEN}{_DIGITS}",
    rf"variable[ \t]+\\*[\"'][\w-]*(?:{_STRONG_NAME}|{_WEAK})\\*[\"'][ \t]*\{{",
    r"(?i:ENV|ARG|setx|setenv|set|put|add|write|secret|variable|config|--name) (?:--[\w-]+ )?[\\\"']*[\w./:-]*"
    rf"(?:{_STRONG_NAME}|{_WEAK})[\\\"']*[ \t]+(?:--?\w+[ =])?[^\s0-9]*[0-9]",
)

_IN_NAMES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$-"
_OPENING = re.compile(
    rb"[ \t]{0,4}(?:\[[ \t]{0,4}(?=[\"']))?(?:[bBnNrRfFuU]{1,2}(?=[\"']))?(\"\"\"|\"\"(?=[A-Za-z0-9])|'''|[\"'`])?"
)
_BARE = re.compile(rb"(?:[^\s\"'`<>,;&|\x00\x80-\xff]++|(?<=\w)&(?![\w.-]*=|&|\w+;)(?=[!-~]))+")
_LINE_VALUE = re.compile(rb"[!-~]+(?=[ \t]*(?:[\r\n]|\Z))")
_QUOTED_ASSIGNMENT = {b'"': re.compile(rb"[!#-~]{1,256}(?=\")"), b"'": re.compile(rb"[!-&(-~]{1,256}(?=')")}
_LINE_LEAD = re.compile(rb"[ \t>|+-]*(?:[0-9]+(?:\xe2\x86\x92|[:\t]))?[ \t+-]*(?:export |set |ENV )?[\w.-]*\Z")
_NEXT_NAME = (
    rf"[!-,./?@^\w-]{{0,2}}(?:\w{{1,16}}[_.-])?{_NAME}(?:[ \t]{{0,2}}[=:]{{1,8}}[ \t]{{0,2}}|->|→)(?=[!#-&(-_a-~])"
)
_NEXT_NAMES = re.compile(rf"(?:{_NEXT_NAME}(?={_NEXT_NAME}))*+(?={_NEXT_NAME})".encode())
_SCHEME = re.compile(rb"(?i)(?:bearer|basic|ssws|splunk|bot|oauth|jwt|flyv1|[a-z-]*(?:token|key))[ :=]\s*(?=\S)")
_HOST = re.compile(rb"@[\w-]+(?:\.[\w-]+)+[/:]")
_ENDS_PAIR = re.compile(rb"[\"'][ \t]*,[ \t]*\Z|\(")
_BOTH = re.compile(rb"[A-Za-z].*\d.*\d|\d.*\d.*[A-Za-z]")
_PUNCTUATION = b".:!?*\\)]}"
_SHORTEST = 4
_LONGEST = 8192
# How far an unquoted value is read at first, and how many signs mean that it is not a value but more assignments.
_BARE_LENGTHS = ((128, 8), (512, 4), (_LONGEST + 1, 1))
_REST_OF_LINE = re.compile(rb"[&;,|][!-~]{0,64}[\w!#$%^*?+=~.@-](?=[ \t]*(?:[\r\n]|\Z))")
# A word of the shell with a comma in it, and the rest of a value after a comma.
_SHELL_WORD = re.compile(rb"[^\s\"'`<>;&|=,\x80-\xff]+,[^\s\"'`<>;&|=\x80-\xff]+(?=[ \t])")
_BEHIND_A_COMMA = re.compile(rb",[^\s\"'`<>;&|=,()\[\]{}\x80-\xff]{4,}(?=[ \t\n]|\Z)")
_MORE_THAN_A_VALUE = re.compile(rb"[&;,][\w.-]+=|[\"'`<>]|\)[;,]?\Z")
_DIGIT = re.compile(rb"[0-9]")
_SESSION = re.compile(rb"(?i)(?:session|sid)\Z")
_AGENT_ID = re.compile(rb"(?:ses|thread|conv|run)_[0-9A-Za-z]{10,}\Z")
_SNAKE = re.compile(rb"[a-z]+(?:_[a-z0-9]+)*\Z")
_IDENTIFIER = re.compile(rb"[A-Za-z_]+\d?\Z")
_OWN_NAME = re.compile(rb"(?i)password|passwd|secret")
_PLAIN_VALUE = re.compile(rb"[\w+/=.~:%|-]+\Z")
# A bracket amid letters and digits, without anything else that code has.
_BROKEN_CALL = re.compile(rb"(?=[^0-9]*[0-9])[A-Za-z_]\w*[(\[{][^\s.,;:\"'=]*[^\s.,;:\"'=)\]}({\[]\Z")
_COLOUR = re.compile(rb"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})(?:[;}]|\Z)")
_CODE = re.compile(rb"[A-Za-z_][\w.]*(?:\[[^\]]*\]|\(.*\)|\()|.*(?:\(\)|=>|\)\{)")


class Form(NamedTuple):
    """How a value was written: in quotes, alone to the end of a line, loosely bound to its name (a pair, a table), or
    as a shell's variable (`NAME=value`), whose value is never the name of something else.
    """

    quoted: bool
    whole_line: bool
    loose: bool
    shell: bool = False


class Value(NamedTuple):
    """An assigned value in the view, and how it was written."""

    start: int
    end: int
    text: bytes
    form: Form


def next_name(view: bytes, at: int) -> int | None:
    """Return where the last name begins if names take the place of a value: `password=token=...`."""
    names = _NEXT_NAMES.match(view, at)
    return names.end() if names else None


def assigned_secret(view: bytes, start: int, sign_start: int, sign_end: int) -> Value | None:
    """Return the secret that an assignment, flag or command gives to a name, or None if its value is not a secret.

    The places are those of a match: where the end of the name begins, and the sign.
    """
    sign = view[sign_start:sign_end]
    if sign.isspace() and view.startswith(b"--", sign_end):
        return None  # the next flag
    before = view[max(0, start - 48) : start]
    name_start = start - len(before) + len(before.rstrip(_IN_NAMES))
    standard = name_standard(view[name_start:sign_start])
    if standard is None or (sign == b">" and view[name_start - 1 : name_start] not in (b"<", b":")):
        return None
    if (sign.startswith(b"(") and b"." in view[start:sign_start]) or sign.strip() == b"::":
        return None
    if view.startswith(b"::", max(0, name_start - 2)):
        return None  # a resource type: `AWS::Redshift::EndpointAuthorization`
    if sign == b":" and view.startswith(b"?", sign_end) and view[name_start - 1 : name_start] == b"{":
        return None  # `${PASSWORD:?is not set}`
    value = _read_value(view, name_start, sign_end, sign)
    if value is None or (sign == b">" and view[value.end : value.end + 2] != b"</"):
        return None
    if BLANK in view[value.start : value.end + 1] or view[value.start - 1 : value.start] == BLANK:
        return None
    value = _to_line_end(view, name_start, value)
    if not _is_secret(value.text, value.form, standard):
        return None
    if _SESSION.search(view, name_start, sign_start) and _is_no_session(value.text):
        return None
    name, place = (name_start, sign_start), (value.start, value.end)
    if is_report(view, name, place, quoted=value.form.quoted):
        return None
    behind = None if value.form.quoted or sign == b":" else _BEHIND_A_COMMA.match(view, value.end)
    return value._replace(end=behind.end()) if behind else value


def _read_value(view: bytes, name_start: int, at: int, sign: bytes) -> Value | None:
    if sign == b">":
        end = view.find(b"</", at, at + _LONGEST)
        return _value(view, at, end, Form(True, False, False)) if end > 0 and b"\n" not in view[at:end] else None
    is_pair = _ENDS_PAIR.match(sign) is not None
    opening = _OPENING.match(view, at)
    quote = opening.group(1) if opening else None
    start = opening.end() if opening else at
    if quote:
        limit = min(len(view), start + _LONGEST)
        end = view.find(quote, start, limit)
        end = limit if end < 0 else end
        line_end = view.find(b"\n", start, end)
        return _value(view, start, end if line_end < 0 else line_end, Form(True, False, is_pair or b"|" in sign))
    if is_pair:
        return None
    loose = b"|" in sign
    whole = _whole(view, name_start, start, sign)
    if whole and not _MORE_THAN_A_VALUE.search(whole.group()):
        return _value(view, start, whole.end(), Form(False, True, loose))
    shell = sign == b"=" and view[name_start : at - 1].isupper()
    word = _SHELL_WORD.match(view, start) if shell else None
    return _value(view, start, word.end() if word else _bare_end(view, start), Form(False, False, loose, shell))


def _to_line_end(view: bytes, name_start: int, value: Value) -> Value:
    """Add what a comma or the like cut off if name and value have the line to themselves, as in YAML."""
    rest = None if value.form.quoted else _REST_OF_LINE.match(view, value.end)
    if rest is None or _MORE_THAN_A_VALUE.search(rest.group()):
        return value
    if not _begins_line(view, name_start):
        return value
    return value._replace(end=rest.end(), text=view[value.start : rest.end()])


def _whole(view: bytes, name_start: int, start: int, sign: bytes) -> re.Match[bytes] | None:
    """The value up to the end of the line if the assignment has it to itself, or to the quote: `-e "PASSWORD=a&b"`."""
    if _stands_alone(view, name_start, sign):
        return _LINE_VALUE.match(view, start)
    before = view[name_start - 1 : name_start]
    return _QUOTED_ASSIGNMENT[before].match(view, start) if before in _QUOTED_ASSIGNMENT and sign == b"=" else None


def _stands_alone(view: bytes, name_start: int, sign: bytes) -> bool:
    """Whether the assignment has no spaces and begins its line, as in .env files."""
    return b"=" in sign and not sign.endswith((b" ", b"\t")) and _begins_line(view, name_start)


def _begins_line(view: bytes, name_start: int) -> bool:
    """Whether only what .env files, diffs and listings put there comes before a name in its line."""
    lowest = max(0, name_start - 64)
    line = 1 + max(view.rfind(b"\n", lowest, name_start), view.rfind(b"\x00", lowest, name_start))
    return (line > 0 or lowest == 0) and _LINE_LEAD.match(view, line, name_start) is not None


def _bare_end(view: bytes, start: int) -> int:
    """Find the end of an unquoted value. A long one is read whole only if it does not look like more assignments."""
    end = start
    for most, signs in _BARE_LENGTHS:
        bare = _BARE.match(view, start, start + most)
        end = bare.end() if bare else start
        if end < start + most or view.count(b"=", start, end) + view.count(b":", start, end) >= signs:
            break
    return end


def _value(view: bytes, start: int, end: int, form: Form) -> Value | None:
    """Cut a value down to the secret: without the scheme before it, the host and punctuation after it."""
    if end - start < _SHORTEST:
        return None
    scheme = _SCHEME.match(view, start, end if form.quoted else end + 8)
    if scheme:
        start = scheme.end()
        end = end if form.quoted else _bare_end(view, start)
    if not form.quoted:
        host = _HOST.search(view, start, end) if view.find(b"@", start, end) >= 0 else None
        end = host.start() if host else end
    text = view[start:end].lstrip(b" ")
    start = end - len(text)
    text = text.rstrip(b" ")
    if not form.quoted and text[-1:] in _PUNCTUATION:
        brackets = b"(" in text or b"[" in text or b"{" in text
        text = text.rstrip(b"\\" if form.whole_line or brackets else _PUNCTUATION)
    return Value(start, start + len(text), text, form) if text else None


def _is_no_session(text: bytes) -> bool:
    """Whether the value names a session of an agent, or a statement of a policy: `"Sid": "AllowPassRole"`."""
    return is_uuid(text) or _AGENT_ID.match(text) is not None or not _DIGIT.search(text)


@lru_cache(maxsize=4096)
def _is_secret(text: bytes, form: Form, standard: Standard) -> bool:
    """Judge a value by the standard of its name and by how it was written. Values repeat, so answers are cached."""
    if is_placeholder(text) or len(text) > _LONGEST or _is_code(text, form):
        return False
    if b" " in text and not looks_generated(text.replace(b" ", b""), 40):
        return False
    if form.loose and not looks_generated(text, 12):
        return standard == "password" and _BOTH.search(text) is not None and not _SNAKE.match(text)
    if standard == "password":
        return _is_password(text, form)
    if standard == "secret":
        chosen = len(text) >= 8 and _DIGIT.search(text) is not None and _is_password(text, form)
        return chosen or looks_generated(text)
    if standard == "token":
        return looks_generated(text)
    if is_cache_key(text):
        return False
    return looks_generated(text, 20) and not is_wordlike(text) and _PLAIN_VALUE.match(text) is not None


def _is_code(text: bytes, form: Form) -> bool:
    """Whether the value is an expression or a reference and not a literal."""
    if _COLOUR.match(text) or text.startswith(b"arn:"):
        return True
    if (form.quoted or form.whole_line) and is_mixed_with_signs(text):
        return False
    if not is_reference(text) or is_digest(text):
        return is_digest(text)
    if (form.quoted or form.whole_line) and _BROKEN_CALL.match(text):
        return False
    if form.quoted:
        return text[:1] in b"$%{<" or not (looks_generated(text, 24) or is_broken_by_a_dot(text))
    return _CODE.match(text) is not None or not switches_often(text)


def _is_password(text: bytes, form: Form) -> bool:
    bare = not form.quoted and not form.whole_line
    if bare and _IDENTIFIER.match(text) and not looks_generated(text) and not (form.shell and text[-1:].isdigit()):
        return False
    if not form.whole_line and _OWN_NAME.search(text) and is_wordlike(text) and not text[:1].isdigit():
        return False
    if text.isdigit():
        return len(text) >= 6
    if is_passphrase(text) and (form.quoted or form.whole_line):
        return True
    return looks_chosen(text) or looks_generated(text, 256) or (form.whole_line and len(text) >= 10 and text.isalpha())
