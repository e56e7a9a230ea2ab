"""Secrets assigned to a name that says so: `DB_PASSWORD=x`, `"api_key": "x"`, `<token>x</token>`, `--secret x`.

Belongs here: which names announce a secret, and where their value begins and ends. Rules for one vendor or one context
are data in `rules.py`.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from helix_assets.redaction.judge import (
    is_cache_key,
    is_name,
    is_passphrase,
    is_placeholder,
    is_reference,
    is_slug,
    is_version,
    is_wordlike,
    looks_chosen,
    looks_generated,
)
from helix_assets.redaction.names import Standard, name_standard
from helix_assets.redaction.verdict import is_report
from helix_assets.redaction.view import BLANK, Places
from helix_assets.redaction.words import reads_as_words

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
    r"|(?::\*{2}|\*{2}:)[ \t]{1,4}"  # Markdown's bold
    r"|[\"'`]?\]?\)?[ \t]{0,12}(?::?==?>?|=>|->|→|::?)[ \t]{0,8}"  # = := == => : -> →
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
_QUOTED_VALUE = r"(?:[ \t]{0,4}\[)?[ \t]{0,4}[bBnNrRfFuU]{0,2}[\"'`]{1,3}[\s\S]{4}"
_VALUE = rf"(?:{_QUOTED_VALUE}|[ \t]{{0,4}}(?:[!-~]{{5}}|[A-Za-z]{{3,5}}[ :=]))"
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
# A value that a person chose may have any sign in it; what is a reference is seen later.
_ANY = r"\S[^\n]{4}"
_SET = r"[ \t]?[=>][ \t]?[\\\"'`]*\S{2}[^\n]{3}"
_CHOSEN = rf"(?:{_OPEN}[^\s{{(\[]\S{{4}}|{_QUOTED}{_ANY})"
_DIGITS = rf"{_BODY}*[0-9]{_BODY}{{3}}"
# The second argument of a call; a record's next field has no space before it.
_SECOND = rf"(?:'[ \t]*,[ \t]*|\\*\"[ \t]*,[ \t]+)\\*[\"']{_ANY}"


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
    rf"{_PASS}{_MORE}(?:{_SET}|{_EQUALS}{_CHOSEN}|{_SECOND})",
    rf"{_TOKEN_NAME}{_EQUALS}{_OPEN}{_mixed(_BODY)}",
    # One pattern for both: the engine restarts for each pattern at each `token` in a log.
    rf"{_STRONG_NAME}(?:{_PAIR}[^\s\"'\\<>,;(){{}}\[\]$*&|/.](?:{_DIGITS}|{_BODY}{{3}}{_BODY}*[0-9])"
    rf"|{_APART}[\\\"'` ]*[^\s\"'`\\]{{4}})",
    rf"(?:[Pp]ass|_PASS|(?i:pw|psk))[0-9]?(?:{_SET}|{_EQUALS}{_CHOSEN}|{_SECOND})",
    rf"PASS[0-9]?(?:{_SET}|{_SECOND})",
    rf"(?:AUTH|LOGGED_IN|NONCE)_(?:KEY|SALT)[\\\"']*[ \t]*[,=][ \t]*\\*[\"']{_ANY}",  # WordPress
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
    rb"[ \t]{0,4}(?:\[[ \t]{0,4}(?=[\"']))?([bBnNrRfFuU]{1,2}(?=[\"']))?(\"\"\"|\"\"(?=[A-Za-z0-9])|'''|[\"'`])?"
)
_BARE = re.compile(rb"(?:[^\s\"'`<>,;&|\x00\x80-\xff]++|(?<=\w)&(?![\w.-]*=|&|\w+;)(?=[!-~]))+")
_VISIBLE = re.compile(rb"[!-~]+")
_LINE_ENDS = re.compile(rb"[ \t]*(?:\n|\Z)|[ \t]+#|\"")
_LINE_LEAD = re.compile(
    rb"(?:[\w./~-]{1,40}:(?:[0-9]+:)?)?[ \t>|+-]*(?:[0-9]+(?:\xe2\x86\x92|[:\t]))?[ \t+-]*"
    rb"(?:export |set |ENV )?[\w.-]*\Z"
)
_BEHIND_A_STRING = re.compile(rb"[\s,;.)\]}\"']|\Z")
_TEXT_OPENS = re.compile(rb"[:,\[] ?\"\Z")
_FIRST_ARGUMENT = re.compile(rb"\w\([ \t]?[\"']\Z")
_ASSIGNS = re.compile(rb"[\"'`]?[ \t]*(?::?==?>?[ \t]*|:[ \t]+)\Z")
_END_TAG = re.compile(rb"</[A-Za-z][\w:.-]*>")
_CLOSERS = {b")": b"(", b"]": b"[", b"}": b"{"}
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
_LONGEST_LINE = 512
# How far an unquoted value is read at first, and how many signs mean that it is not a value but more assignments.
_BARE_LENGTHS = ((128, 8), (512, 4), (_LONGEST + 1, 1))
# A word of the shell with a comma in it, and the rest of a value after a comma.
_SHELL_WORD = re.compile(rb"[^\s\"'`<>;&|=,\x80-\xff]+,[^\s\"'`<>;&|=\x80-\xff]+(?=[ \t])")
_BEHIND_A_COMMA = re.compile(rb",[^\s\"'`<>;&|=,()\[\]{}\x80-\xff]{4,}(?=[ \t\n]|\Z)")
_MORE_PAIRS = re.compile(rb"[&;,][a-z][a-z_]{2,}=|[&;][A-Z_]{4,}=")
_DIGIT = re.compile(rb"[0-9]")
_SESSION = re.compile(rb"(?i)(?:session|sid)\Z")
_ENDS_IN_UUID = re.compile(rb"(?i)(?:\A|[^0-9a-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_AGENT_ID = re.compile(rb"(?:ses|thread|conv|run)_[0-9A-Za-z]{10,}\Z")
_SNAKE = re.compile(rb"[a-z]+(?:_[a-z0-9]+)*\Z")
_IDENTIFIER = re.compile(rb"[A-Za-z_]+\d?\Z")
_OWN_NAME = re.compile(rb"(?i)password|passwd|secret")
_PLAIN_VALUE = re.compile(rb"[\w+/=.~:%|-]+\Z")
# An address of a blockchain or the hash of a function's name (keys are longer), a constant.
_NO_KEY = re.compile(rb"0x[0-9a-fA-F]{1,40}\Z|[A-Z][A-Z0-9]{0,9}(?:_[A-Z0-9]{1,12})+\Z|S-1-[0-9-]+\Z")
# A number as code has it: a mask of bits, with a type behind it.
_NUMBER = re.compile(
    rb"0x[0-9a-fA-F]{1,8}\Z|0x[0-9a-fA-F]{1,4}(?:_[0-9a-fA-F]{1,4})+\Z|[0-9_]+[iu](?:8|16|32|64|128|size)\Z"
)
_OF_A_NUMBER = re.compile(rb":[ ]?[iu](?:8|16|32|64|128|size)[ ]=")  # `const PASS: u32 = 7`
# An item of a list, what a call of that returns, a macro of Rust.
_ITEM = re.compile(
    rb"[A-Za-z_][\w.]*(?:[\[(][\w.:'\"-]{0,24}(?:[\[(][\w.:'\"-]{0,24}(?:\(\))?[\])]){0,2}[\])](?:\.[A-Za-z_]\w{0,24})*)+\Z"
    rb"|[A-Za-z_]\w{3,32}!?\(\Z|[a-z_]{4,32}!\(|\*[a-z_][\w-]*\Z"
)
_DOTTED = re.compile(rb"[A-Za-z_]{1,16}(?:\.[A-Za-z_]{1,24}){1,3}\Z")
_CAPITALS = re.compile(rb"[A-Z_]+\Z")
# Two signs of Chinese, Japanese or Korean in a row: a translation. Nobody types these where a password is asked for.
_EAST_ASIAN = re.compile(rb"(?:[\xe3-\xed][\x80-\xbf]{2}){2}")
# Words of other languages: letters, some of them not ASCII.
_ABROAD = re.compile(rb"(?:[A-Za-z'-]|[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2})+\Z")
_PUBLIC_BEFORE = re.compile(rb"(?i)\b(?:public|gpg|pgp|page)[ _-]\Z")
# Kapitan names a secret that is kept elsewhere: `?{gpg:app/db/password:1f2e3d4c}`.
_KEPT_ELSEWHERE = re.compile(rb"\?\{[a-z0-9]{2,12}:[^\s{}\"']{0,100}\Z")
# Types of Rust, Go and C that begin with a sign or have one in them: `&[u8]`, `[u8;32]`, `map[string]string`.
_BUILT_IN = (
    r"(?:[ui](?:8|16|32|64|128|size)|f32|f64|u?int\d*|float\d*|bytes?\d*|str|string|char|bool|any|map|Vec|Option|\d+)"
)
_TYPE = re.compile(rf"[&*\[<(]*(?:\]*{_BUILT_IN}[\[\]<>;,:&*()?]+)+(?:{_BUILT_IN})?\Z".encode())
# A type behind a colon, and what follows one.
_GENERIC = re.compile(rb"[A-Z]\w{0,24}<[A-Za-z&\[(]")
_BEHIND_A_TYPE = re.compile(rb"[?!]?[ \t]*(?:[,;)\]}|&>=\[{<])")
_ARRAY = re.compile(rb"\[\w*\][a-z][\w.]*\{")  # `[32]byte{}`
_SIZED = re.compile(rb"[A-Z][a-z]+(?:8|16|32|64|128|256)[A-Z][a-z]+\Z")
_COLOUR = re.compile(rb"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})(?:[;}]|\Z)")
# A call, an arrow.
_CODE = re.compile(rb"[A-Za-z_][\w.]*\[[^\]]*\]|.*(?:[A-Za-z_]\(|\(\)|=>|\)\{|\w!\[)")
# A bracket that is closed and was not opened: code, if the letters around it are.
_CLOSED = re.compile(rb"[^(\[{]*[)\]}].*[A-Za-z]")
# Minified code: names of up to three letters, and what joins them.
_SHORT_NAMES = re.compile(
    rb"[!+-]{0,2}(?:[A-Za-z_$]\w{0,2}|\d+)(?:[.?:,=&|!+(\[<>]{1,3}(?:[A-Za-z_$]\w{0,2}|\d+)[)\]]*)+\Z"
)


# Settings of a connection: `Server=db;User Id=sa;Password=`, `host=db user=app password=`; and where a value ends.
_SETTINGS = re.compile(
    rb"(?:\A|[\s\"';:])[A-Za-z][\w ]{1,24}=[^\s;=\"'&]{1,64};(?:[A-Za-z][\w ]{1,24}=[^;=\"\n]{0,64};)*\Z"
)
_SETTING = re.compile(rb"[^\s;\"'\x80-\xff]+(?=;|[\"'\s]|\Z)")
_LIBPQ = re.compile(rb"(?:\A|[\s\"'])(?:host|hostaddr|port|user|dbname|sslmode)=[^\s=\"';&,()]{1,64} \Z")
_WORD = re.compile(rb"[^\s\"'\x80-\xff]+(?=[ \"'\n]|\Z)")


class Form(NamedTuple):
    """How a value was written: in quotes, alone to the end of a line, loosely bound to its name (a pair, a table), or
    as a shell's variable (`NAME=value`), whose value is never the name of something else. `literal` is a place where no
    code can stand, only names of other things.
    """

    quoted: bool = False
    whole_line: bool = False
    loose: bool = False
    shell: bool = False
    literal: bool = False


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


def assigned_secret(places: Places, start: int, sign_start: int, sign_end: int) -> Value | None:
    """Return the secret that an assignment, flag or command gives to a name, or None if its value is not a secret.

    The places are those of a match: where the end of the name begins, and the sign.
    """
    view = places.text
    sign = view[sign_start:sign_end]
    if sign.isspace() and view.startswith(b"--", sign_end):
        return None  # the next flag
    before = view[max(0, start - 48) : start]
    name_start = start - len(before) + len(before.rstrip(_IN_NAMES))
    standard = name_standard(view[name_start:sign_start])
    if standard is None or (sign == b">" and view[name_start - 1 : name_start] not in (b"<", b":")):
        return None
    if (sign.startswith(b"(") and b"." in view[start:sign_start]) or _is_no_assignment(
        view, name_start, sign, sign_end
    ):
        return None
    if standard in ("weak", "token") and _PUBLIC_BEFORE.search(view, max(0, name_start - 8), name_start):
        return None
    value = _read_value(places, (name_start, sign_start), sign_end, sign)
    if value is None or BLANK in view[value.start : value.end + 1] or view[value.start - 1 : value.start] == BLANK:
        return None
    if not _is_secret(value.text, value.form, standard) or _is_type(view, sign, value):
        return None
    if sign.rstrip().endswith(b",") and not value.form.quoted:
        return None  # the next argument: `"--password", type=str`
    if _is_own_name(view[name_start:sign_start], value):
        return None
    if _SESSION.search(view, name_start, sign_start) and _is_no_session(value.text):
        return None
    name, place = (name_start, sign_start), (value.start, value.end)
    if is_report(view, name, place, quoted=value.form.quoted):
        return None
    behind = None if value.form.quoted or sign == b":" else _BEHIND_A_COMMA.match(view, value.end)
    return value._replace(end=behind.end()) if behind else value


def _is_no_assignment(view: bytes, name_start: int, sign: bytes, sign_end: int) -> bool:
    """Whether what stands around a name and a sign shows that these do not give it a value."""
    before = view[name_start - 1 : name_start]
    return (
        sign.strip() == b"::"
        or (b")" in sign and b">" in sign)  # what a call returns: `sign(text, 'secret') => '...'`
        or _OF_A_NUMBER.match(sign) is not None
        or view.startswith(b"::", max(0, name_start - 2))  # a resource type: `AWS::Redshift::EndpointAuthorization`
        or (sign == b":" and before == b"{" and view.startswith(b"?", sign_end))  # `${PASSWORD:?is not set}`
        or (sign == b":" and before == b"!" and view.startswith(b"!", sign_end))  # ciphers: `!PSK:!aECDH`
        or (sign == b":" and _KEPT_ELSEWHERE.search(view, max(0, name_start - 120), name_start) is not None)
    )


def _read_value(places: Places, name: tuple[int, int], at: int, sign: bytes) -> Value | None:
    if sign == b">":
        return _element(places, name, at)
    view = places.text
    if view[name[0] - 2 : name[0]] == b"{{" or view[name[0] - 3 : name[0]] == b"{{ ":
        return None  # a template's filter: `{{ .Password | b64enc }}`
    if sign.startswith(b"=") and (setting := _setting(places, name)):
        return _value(places, name[1] + 1, setting, Form(literal=True))
    is_pair = _ENDS_PAIR.match(sign) is not None
    opening = _OPENING.match(view, at)
    prefix, quote = opening.groups() if opening else (None, None)
    start = opening.end() if opening else at
    if (
        opening
        and quote
        and prefix
        and not _BEHIND_A_STRING.match(view, places.closing(start, quote, start + _LONGEST) + len(quote))
    ):
        quote, start = None, opening.start(1)  # `b"x"y` is not a string of bytes
    if quote and quote not in sign and places.is_same_quote(name[0] - 1, start - 1):
        return None  # it ends the string that the name is in: `"PWD="+path`
    if quote:
        if quote == b'""' and places.closing(start - 1, b'"', start) == start:
            quote, start = b'"', start - 1  # the second one is text
        end = places.closing(start, quote, min(len(view), start + _LONGEST))
        loose = (is_pair and not _is_constant(view, *name)) or b"|" in sign
        return _value(places, start, end, Form(quoted=True, loose=loose, literal=True))
    if is_pair:
        return None
    alone = _alone(places, name[0], start, sign)
    if alone is not None:
        return alone
    quoted = view[name[0] - 1 : name[0]]
    if sign == b"=" and quoted in (b'"', b"'"):  # `-e "PASSWORD=a&b"`
        end = places.closing(name[0], quoted, start + 256)
        text = places.literal(start, end) if view.startswith(quoted, end) else b""
        if _VISIBLE.fullmatch(text) and not _MORE_PAIRS.search(text):
            return _value(places, start, end, Form(whole_line=True, literal=True))
    shell = sign == b"=" and view[name[0] : at - 1].isupper()
    word = _SHELL_WORD.match(view, start) if shell else None
    end = word.end() if word else _bare_end(view, start)
    return _value(places, start, end, Form(loose=b"|" in sign, shell=shell, literal=shell or sign.isspace()))


def _setting(places: Places, name: tuple[int, int]) -> int | None:
    """Return where a value among the settings of a connection ends: any other sign may be in it."""
    before = places.text[max(0, name[0] - 200) : name[0]]
    rest = _SETTING if _SETTINGS.search(before) else _WORD if _LIBPQ.search(before) else None
    start = name[1] + 1
    value = rest.match(places.literal(start, start + _LONGEST_LINE)) if rest else None
    return start + value.end() if value else None


def _element(places: Places, name: tuple[int, int], at: int) -> Value | None:
    """The text of an XML element."""
    view = places.text
    end = view.rfind(b"</", at, max(at, view.find(view[name[0] : name[1]] + b">", at, at + _LONGEST)))
    if end < 0 or places.line_end(at, at) < end:
        return None
    return _value(places, at, end, Form(quoted=True, literal=True))


def _is_constant(view: bytes, name_start: int, name_end: int) -> bool:
    """Whether a name is the first argument of a call, all of it in capitals: `define('DB_PASSWORD', ...)`."""
    return (
        view[name_start:name_end].isupper()
        and _FIRST_ARGUMENT.search(view, max(0, name_start - 8), name_start) is not None
    )


def _alone(places: Places, name_start: int, start: int, sign: bytes) -> Value | None:
    """The value up to the end of the line, if the assignment has it to itself, as in .env and YAML files.

    Then any sign may be in it, quotes too.
    """
    line = _line_begun(places.text, name_start) if _ASSIGNS.match(sign) else None
    if line is None:
        return None
    word_end = places.word_end(line, start, start + _LONGEST_LINE)
    end = places.string_end(start, word_end)
    if end == word_end and not _LINE_ENDS.match(places.text, end):
        return None
    value = places.literal(start, end)
    if not _VISIBLE.fullmatch(value) or (b"=" in sign and _MORE_PAIRS.search(value)):
        return None
    length = len(_without_tail(value))
    # An argument of a call on a line of its own is indented and has a comma behind it.
    is_argument = places.text[line:name_start].isspace() and value.endswith(b",")
    whole = b"=" in sign and not sign[-1:].isspace() and not is_argument
    return _value(places, start, start + length, Form(whole_line=whole, literal=True))


def _without_tail(text: bytes) -> bytes:
    """Leave out what the code or the text around a value has behind it: a comma, a bracket or quote never opened."""
    element = _END_TAG.search(text)
    text = text[: element.start()] if element else text
    while text:
        last = text[-1:]
        is_extra = last in b",;" or (last in _CLOSERS and text.count(last) > text.count(_CLOSERS[last]))
        if not is_extra and not (last in b"\"'`" and text.count(last) % 2):
            break
        text = text[:-1]
    return text


def _line_begun(view: bytes, name_start: int) -> int | None:
    """Return where the line of a name begins if only what .env files, diffs and listings put there comes before it."""
    lowest = max(0, name_start - 64)
    line = 1 + max(view.rfind(mark, lowest, name_start) for mark in (b"\n", b"\x00", b'"'))
    if view[line - 1 : line] == b'"' and not _TEXT_OPENS.search(view, max(0, line - 4), line):
        return None
    return line if (line > 0 or lowest == 0) and _LINE_LEAD.match(view, line, name_start) else None


def _bare_end(view: bytes, start: int) -> int:
    """Find the end of an unquoted value. A long one is read whole only if it does not look like more assignments."""
    end = start
    for most, signs in _BARE_LENGTHS:
        bare = _BARE.match(view, start, start + most)
        end = bare.end() if bare else start
        if end < start + most or view.count(b"=", start, end) + view.count(b":", start, end) >= signs:
            break
    return end


def _value(places: Places, start: int, end: int, form: Form) -> Value | None:
    """Cut a value down to the secret: without the scheme before it, the host and punctuation after it."""
    if end - start < _SHORTEST:
        return None
    view = places.text
    scheme = _SCHEME.match(view, start, end if form.quoted else end + 8)
    if scheme:
        start = scheme.end()
        end = end if form.literal else _bare_end(view, start)
    if not form.literal:
        host = _HOST.search(view, start, end) if view.find(b"@", start, end) >= 0 else None
        end = host.start() if host else end
    text = places.literal(start, end).lstrip(b" ")
    start = end - len(text)
    text = text.rstrip(b" ")
    if not form.quoted and text[-1:] in _PUNCTUATION:
        brackets = b"(" in text or b"[" in text or b"{" in text
        text = text.rstrip(b"\\" if form.literal or brackets else _PUNCTUATION)
    return Value(start, start + len(text), text, form) if text else None


def _is_type(view: bytes, sign: bytes, value: Value) -> bool:
    """Whether a name is declared with its type, `password: Uint8Array | string`, and not given a value."""
    if value.form.quoted or not sign.strip().endswith(b":"):
        return False
    if _GENERIC.match(view, value.start) and view.startswith(b"<", value.end):
        return True
    if not value.text[-1:].isalpha() or not is_name(value.text, in_code=value.text[:1].isupper()):
        return False
    return _BEHIND_A_TYPE.match(view, value.end) is not None or _SIZED.match(value.text) is not None


def _is_own_name(name: bytes, value: Value) -> bool:
    """Whether a variable is handed on under its own name: `self.keyfilepwd = keyfilepwd`."""
    return not value.form.quoted and not value.form.whole_line and re.split(rb"[.$]", name)[-1] == value.text


def _is_no_session(text: bytes) -> bool:
    """Whether the value names a session of an agent, or a statement of a policy: `"Sid": "AllowPassRole"`."""
    return _ENDS_IN_UUID.search(text) is not None or _AGENT_ID.match(text) is not None or not _DIGIT.search(text)


@lru_cache(maxsize=4096)
def _is_secret(text: bytes, form: Form, standard: Standard) -> bool:
    """Judge a value by the standard of its name and by how it was written. Values repeat, so answers are cached."""
    if is_placeholder(text) or len(text) > _LONGEST or is_version(text) or _is_code(text, form):
        return False
    if (standard != "password" or form.loose) and (
        is_name(text, in_code=not form.literal or form.loose) or _NO_KEY.match(text)
    ):
        return False
    if standard in ("token", "weak") and (is_slug(text) or (_DOTTED.match(text) and not form.quoted)):
        return False
    if not text.isascii() and not form.whole_line and (_EAST_ASIAN.search(text) or _ABROAD.match(text)):
        return False
    if form.loose and _CAPITALS.match(text):
        return False
    if b" " in text:
        return looks_generated(text.replace(b" ", b""), 40) and not reads_as_words(text)
    if form.loose and not looks_generated(text, 12):
        chosen = (_BOTH.search(text) and not _SNAKE.match(text)) or (
            len(text) >= 8 and not reads_as_words(text, perhaps=True)
        )
        return standard == "password" and bool(chosen)
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
    if (
        _COLOUR.match(text)
        or _TYPE.match(text)
        or _NUMBER.match(text)
        or _ARRAY.match(text)
        or (_ITEM.match(text) and not form.quoted and not form.whole_line)
        or text.startswith(b"arn:")
        or is_reference(text, in_code=not form.literal)
    ):
        return True
    if form.literal:
        return False
    if _CLOSED.match(text) and reads_as_words(text, perhaps=True):
        return True
    return _CODE.match(text) is not None or _SHORT_NAMES.match(text) is not None


def _is_password(text: bytes, form: Form) -> bool:
    bare = not form.quoted and not form.whole_line and (not form.literal or reads_as_words(text))
    if bare and _IDENTIFIER.match(text) and not looks_generated(text) and not (form.shell and text[-1:].isdigit()):
        return False
    if not form.whole_line and _OWN_NAME.search(text) and is_wordlike(text) and not text[:1].isdigit():
        return False
    if not form.quoted and not form.whole_line and b"_" in text and _CAPITALS.match(text):
        return False  # a constant
    if text.isdigit():
        return len(text) >= 6
    if is_passphrase(text) and (form.quoted or form.whole_line):
        return True
    return looks_chosen(text) or looks_generated(text, 256) or (form.whole_line and len(text) >= 10 and text.isalpha())
