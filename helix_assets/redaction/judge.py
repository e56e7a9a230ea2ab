"""Is this value a secret, or a placeholder, a word, a reference, a path?

Belongs here: judgements on a value alone. Not here: which values are judged, and by which standard (`rules.py`,
`assignment.py`).
"""

import re
from itertools import pairwise

from helix_assets.redaction.public import is_public_key
from helix_assets.redaction.words import reads_as_words

# The letter pairs that make up 93 % of the words in English source code; random letters hit them far less often.
_PAIRS = frozenset(
    (ord(first), ord(second))
    for first, seconds in (
        group.split(":")
        for group in [
            "a:bcdgiklmnprstuvwxy",
            "b:aceilorsuy",
            "c:acehiklorstuy",
            "d:adeilorsu",
            "e:abcdefgilmnopqrstvwxy",
            "f:aefilorstu",
            "g:aehilnorsu",
            "h:aeiort",
            "i:abcdefglmnoprstvxz",
            "k:eis",
            "l:adeilostuy",
            "m:abeimopsu",
            "n:acdefgiklnopstuv",
            "o:abcdfgiklmnoprstuvw",
            "p:aehiloprstuy",
            "q:u",
            "r:acdefgiklmnoprstuy",
            "s:acdehiklmopstuy",
            "t:acdefhilmnoprstuy",
            "u:abcefilmnprst",
            "v:aei",
            "w:aeinors",
            "x:eipt",
            "y:npst",
            "z:e",
        ]
    )
    for second in seconds
)
_WORDLIKE_SHARE = 0.68

_PLACEHOLDER = re.compile(
    rb"(?i)^(?:your|enter|insert|replace|paste)[-_ .]|^(?:my|the|some|any|put|add|set|use|change|fill)[-_ .][a-z_ .-]*$"
    rb"|change-?_?(?:me|this|it)|[-_]your[-_]|placeholder|example|dummy|redacted|masked|removed|filtered|hidden|censored|omitted|scrubbed"
    rb"|^\?\{[a-z0-9]{2,12}:|^<[^<>]+>$|\$\{[a-z_][\w.]*(?:[:\[(][^}]*)?\}"
    rb"|^\$\{[a-z_][\w.]*(?:[:\[(]|$)"  # to be filled in
    rb"|^\$\([a-z][\w./-]*(?:[ )]|$)|^\\\(\.?[a-z]\w*[.)]"
    rb"|\$\([a-z_./-]{2,}[ )]|\{\{[^{}]*\}\}|^\{\{ |%\(\w+\)[sdr]|^%[a-z_]{2,}%$|#\{[a-z_@][\w.@]*\}"
    rb"|%[sdr](?![A-Za-z0-9]).{0,12}%[sdr](?![A-Za-z0-9])"
    rb"|\[\^?(?:a-z|a-f|0-9)|\(\?[:=!P]"  # a pattern
    rb"|^.{0,8}(?:\*{3,}|\.{3}).{0,8}$|\*{5}|^\*{3}|\*{3}$|\.{3}$|x{5,}|[-_]x{3,}$|\xe2\x80\xa6|\xe2\x80\xa2\xe2\x80\xa2|fake[-_]|not[-_]?a?[-_]?real|[-_]here$"
    rb"|^(?:todo|tbd|fixme)\b|\blorem\b|insecure-?default|abc-?123|[_-](?:123|1234|abc|xyz|foo|bar)$|^0?1234567?8?9?0?$|1234567890|0123456789|abcdefghij"
)
_TO_FILL_IN = re.compile(rb"<[^<>]+>|%[sdr]\b")
_COMMON = frozenset(
    rb"""true false none null nil undefined nan yes no on off enabled disabled required optional default empty unset
    string str text bytes int integer number bool boolean object array any void never unknown varchar char uuid
    password passwd pass pwd passphrase secret token key apikey api_key credential credentials auth bearer basic
    user username admin root guest login name value email test testing tests foo bar baz foobar qux spam eggs abc abcd
    abc123 abcdef xyz hello world public private hunter postgres mysql redis mongo mongodb rabbitmq localhost
    utf-8 utf8 latin1 latin-1 ascii iso-8859-1 input hidden type field label title description header query cookie
    and/or body path form json xml self this const let var
    function return async await import export class def lambda new old current previous next first last
    password1 password123 pass123 passw0rd secret123 test123 test1234 admin123 s3cr3t mypassword my_password mysecret
    secretkey mytoken letmein
    cl100k_base o200k_base p50k_base r50k_base
    qwerty 123456 12345678 user:pass user:password username:password x-oauth-basic
    db_password
    md5 sha1 sha256 sha384 sha512 sha-1 sha-256 sha-512 aes128 aes256 aes-128 aes-256 rsa2048 argon2 argon2i argon2d
    argon2id pbkdf2 ed25519 x25519 base64 base32 x509""".split()
)
# "Password" in other languages: in translated interfaces, and in addresses that say how to write one.
_ABROAD = frozenset(
    """passwort kennwort wachtwoord senha parola heslo hasło contraseña contrasena contrasenya clave motdepasse lösenord
    adgangskode passord salasana salasõna jelszó şifre pasahitza fjalëkalimi пароль 密码 密碼 パスワード
    비밀번호""".encode().split()
)
_ALGORITHM = re.compile(rb"(?i)^(?:sha-?\d{1,3}|md5|blake2[bs]|blake3|h1|crc32c?|xxh\d*|urn:uuid|gzip|utf-?8)[:=~(-]")
_REFERENCE = re.compile(
    rb"^(?:[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[;,]?|[$@%&][A-Za-z_{(][\w.]*[)}%]?|[A-Za-z_][\w.]*[(\[{<].*|/\*.*"
    rb"|[A-Za-z_$][\w$.]*\?[\w$.\[\]]{1,40}:.*|[(\[{|!:\\)\]},;=+?&.].*"
    rb"|.*(?:!=|\}=|\?\.|=void |=null|=this\.|\(\)|\)\{|\}\(|\)\.[a-z]\w|=>|&&|\|\||\?\?|===|::).*)$",
    re.DOTALL,
)
# A key that is kept elsewhere, the id of a key where it was used, a public key of SSH.
_ELSEWHERE = re.compile(
    rb"[a-z][a-z0-9]{2,15}:[a-z-]{2,}=|.*(?:aws|goog)4_request|AWS4-HMAC|(?:ssh-[a-z0-9]{3,8} )?AAAA[A-Z][23][NV]"
)
_CALL = re.compile(rb"(?:\[\])?[A-Za-z_][\w.:]{2,}!?\((?=[\"'`)]|.*\)\Z)")
# Brackets and other signs of code, without a letter.
_BRACKETS = re.compile(rb"[^A-Za-z]*[()\[\]{}][^A-Za-z]*\Z")
# A path without a beginning that shows it: more than one slash, or a suffix.
_PLACE = re.compile(rb"(?:[\w@.+:-]+/){2,}[\w@.+-]+\Z|[\w@.+:-]+/[\w@.+-]+\.[a-z]{1,5}\Z")
# A file with its folder, an address without user and query, names of a program joined by colons or added up.
_NO_DOUBT = re.compile(
    rb"[a-z][\w.-]*/[\w./-]*\w\.(?:[a-z]{2,5}|p8|p12)\Z|[a-z][a-z0-9+.-]{1,9}://[\w.-]+(?::[0-9]{1,5})?/?\Z"
    rb"|[&*]?(?:\w+(?:<[\w&, ]{1,24}>)?::)+\w+(?:\(\))?\Z|[a-z]+:[a-z0-9]+/[A-Za-z0-9]+:[A-Z][A-Za-z0-9]+\Z"
    rb"|[a-z][\w-]*(?:\.[a-z][\w-]*)+:[0-9]{2,5}\Z|(?:localhost|[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?::[0-9]{1,5})?\Z|os\.environ/[A-Z0-9_]+\Z"
    rb"|[a-z]{2,3}-[A-Z][a-z]{3}(?:-[A-Z]{2})?\Z|[a-z_]{3,24}=(?:[Tt]rue|[Ff]alse|None)\Z"
    rb"|_ZN\w+\Z|[A-Z0-9_-]{2,24}(?::{1,2}[A-Z0-9_-]{1,24}){3}[\w,:-]*\Z|(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]\Z|[a-z]+[0-9]{0,3}-(?:cts|cbc|gcm|ctr|ecb)(?:-[a-z0-9]{1,8})*\Z"
    rb"|[Mm]-?[0-9.]+[ ,-][-0-9.,MmLlHhVvCcSsQqTtAaZz ]{8,}\Z"  # a drawing of SVG
)
_SUM = re.compile(rb"[A-Za-z]+(?:\+[A-Za-z]+)+\Z")
# A name of a norm or an algorithm with its number.
_NORM = re.compile(
    rb"(?i)(?:[a-z]{2,9}[-_ ])?(?:rfc|pkcs|iso|iec|ieee|fips|x\.?|utf|ucs|sha|md|aes|rsa|argon|base|oauth|tls|ssl|pep"
    rb"|cve|ed|curve|blake|[ckg]mac)[-_#/]{0,2}v?[0-9][0-9.:-]{0,9}[a-z]{0,2}\Z"
)
_NAME = re.compile(
    rb"[A-Za-z_$][\w$]*(?:[.-][A-Za-z_$][\w$]*)*(?<![0-9]{2})\Z|[A-Za-z_$-]+(?:16|32|64|128|256|384|512|521|2048|4096)\Z"
)
_SLUG = re.compile(rb"[a-z0-9]+(?:[-_.:/][a-z0-9]+)+\Z")
_SEPARATOR = re.compile(rb"[-_.:/]")
_SHORT_PART = 6
_PARTS = re.compile(rb"[_.-]")
_LONG_PART = 8
_VERSION = re.compile(
    rb"(?:npm:|workspace:)?(?:@?[\w./-]+@)?[\^~<>=v]{0,3}[0-9]+(?:\.[0-9x*]+){1,12}(?:[-+][\w.+-]+)?\Z"
    rb"|[0-9][0-9.,]*(?:/[0-9][0-9.,]*)?(?:[mnu]?s|sec|min|%|[kKMG]i?B|px|r?em)\Z"
    rb"|[a-z][\w+.]*(?:-[a-z][\w+.]*)*-[0-9]+(?:\.[0-9]+)+-[0-9]+[\w.:-]*\Z"
    rb"|-?[0-9]+\.[0-9]+e[+-]?[0-9]+\Z|v[0-9]{1,3}(?:alpha|beta|rc|p)[0-9]{0,3}\Z|[a-z][a-z-]{1,32}(?:[<>=~!]=|[<>])[0-9]{1,4}(?:\.[0-9*]{1,6})*\Z"
    rb"|[0-9]{1,5}[ _-]?(?:bit|byte|octet|char|character|digit|letter|word|second|minute|hour|day|week|month|year)s?\Z"
)
_PATH = re.compile(
    rb"^(?:[a-z][a-z0-9+.-]*://|\.{0,2}/[a-z._-]|~/|[A-Z]:\\|@[a-z][\w-]*/|file:)"
    rb"|\.(?:py|js|ts|tsx|json|ya?ml|toml|txt|md|pem|key|crt|env|go|rs|sh|html?|css|cfg|ini|conf|lock|log|sql|java|rb|php|xml|csv)(?::\d{1,6}){0,2}$"
)
_DIGIT = re.compile(rb"[0-9]")
# Random signs are hardly ever this, however many there are.
_VARIABLE = re.compile(rb"[$@%&](?:[A-Z_][A-Z0-9_]*|[a-z_][a-z0-9_]*)[)}%]?\Z")
_WORDS = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# `handles3Items`, `test_parses_v2`: what a test runner prints after PASS.
_TEST_NAME = re.compile(
    rb"(?:[Tt]est|[Ss]hould|spec|it|when|given|can|does|is|has|(?:return|handle|render|keep|parse|throw|create|update|delete"
    rb"|reject|accept|check|work|support|validate|show|write|read|load|save|find|call|set|get|add|remove|build|run)s?)"
    rb"(?:[0-9]{1,3}[A-Z]|[A-Z_])(?:[A-Za-z]|[0-9]{1,3}(?![0-9])|_)*(?<![0-9][0-9])\Z"
)
_UUID = re.compile(rb"(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_CACHE_KEY = re.compile(
    rb"(?i)(?:linux|macos|windows|darwin|ubuntu|node|npm|pnpm|yarn|pip|uv|cargo|go|gradle|maven|docker|v\d+)-.*-[0-9a-f]{16,}\Z"
    rb"|(?:[a-z]+[.-])*[a-z]+\.[0-9a-f]{32,64}\Z"
)
_SWITCHES = re.compile(rb"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CAPITALS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
_DATE_OR_VERSION = re.compile(rb"^v?\d[\d.:TZ+_/-]*(?:[a-z]{1,5}\d*)?$")


_DICEWARE = re.compile(rb"[a-z]{3,9}(?:-[a-z]{3,9}){3,7}(?:-\d{1,4})?\Z")
_INTERFACE = frozenset(
    b"""password passwd reset forgot login logout user users username field input form page your the and for not new
    old current confirm change update must with label hint text error errors required secret key token auth account
    sign email button link icon modal dialog view admin root default test example min max length short long too show
    hide toggle strength invalid valid missing empty match same from this that file path name type value config
    settings policy""".split()
)


def is_placeholder(value: bytes) -> bool:
    """Whether the value stands for a secret without being one: `changeme`, `<token>`, `xxxx`, `sk-...`."""
    body = value.strip(b"\"'`()[]{}<>.,;: ")
    if len(body) < 3 or len(set(body[-24:])) <= max(2, min(len(body), 24) // 6):
        return True
    if (
        value.lower() in _COMMON
        or body.lower() in _COMMON
        or value.decode("utf-8", "replace").lower().encode() in _ABROAD
        or _PLACEHOLDER.search(value)
    ):
        return True
    return _TO_FILL_IN.search(value) is not None and reads_as_words(value)


def is_wordlike(value: bytes) -> bool:
    """Whether the letters of the value form words rather than random text."""
    pairs = hits = 0
    words = _WORDS.findall(value)
    if sum(map(len, words)) < 3.7 * len(words):
        return False
    for word in words:
        if len(word) < 4:
            continue
        lower = word.lower()
        pairs += len(lower) - 1
        hits += sum(map(_PAIRS.__contains__, pairwise(lower)))
    # Random text splits into many short pieces, names into few long ones.
    return pairs >= len(value) * 0.4 and hits >= pairs * _WORDLIKE_SHARE


def is_reference(value: bytes, *, in_code: bool = False) -> bool:
    """Whether the value is code or names something else: a variable, a call, a path, a URL, a hash.

    Random text may look like that, but its letters do not. With `in_code` it stands where code is likely.
    """
    body = value.rstrip(b"?&|!=")
    if len(body) >= 8 and _DIGIT.search(body):
        value = body  # `Copper2041??` does not end in an operator
    if _VARIABLE.match(value) or _BRACKETS.match(value) or _ELSEWHERE.match(value) or is_digest(value):
        return True
    if _NO_DOUBT.match(value) or is_public_key(value) or (_SUM.match(value) and reads_as_words(value)):
        return True
    if (call := _CALL.match(value)) and reads_as_words(call.group(), perhaps=True):
        return True
    if not (_REFERENCE.match(value) or _PLACE.match(value) or _PATH.search(value)):
        return False
    return reads_as_words(value, perhaps=in_code)


def is_name(value: bytes, *, in_code: bool = False) -> bool:
    """Whether the value is one word of a program: a type, a variable. People put more digits behind their words."""
    if not _NAME.match(value) or not reads_as_words(value, perhaps=in_code):
        return False
    long_parts = (part for part in _PARTS.split(value) if len(part) >= _LONG_PART)
    return all(reads_as_words(part, perhaps=True) for part in long_parts)  # else a key behind a vendor's prefix


def is_slug(value: bytes) -> bool:
    """Whether the value is words, numbers and short pieces with hyphens between them, as names of things are."""
    if not _SLUG.match(value):
        return False
    parts = [part for part in _SEPARATOR.split(value) if len(part) > _SHORT_PART]
    return bool(parts) and all(part.isalpha() and reads_as_words(part) for part in parts)


def is_version(value: bytes) -> bool:
    """Whether the value is a version, alone or behind a package, or a measure: `^1.2.3`, `pg@1.2`, `30/41ms`."""
    return _VERSION.match(value) is not None


def is_norm(value: bytes) -> bool:
    """Whether the value names a norm or an algorithm by its number: `RFC2616`, `PKCS#8`, `MONGODB-X509`."""
    return _NORM.match(value) is not None


def is_passphrase(value: bytes) -> bool:
    """Whether the value is four or more words, as chosen by dice, and not the name of a message or a style."""
    return _DICEWARE.match(value) is not None and not _INTERFACE.intersection(value.split(b"-"))


def is_digest(value: bytes) -> bool:
    """Whether the value is marked as a hash of something: `sha256:...`."""
    return _ALGORITHM.match(value) is not None


def is_uuid(value: bytes) -> bool:
    """Whether the value is a UUID and nothing else."""
    return _UUID.match(value) is not None


def is_cache_key(value: bytes) -> bool:
    """Whether the value looks like the key of a build cache: systems and tools, then a hash."""
    return _CACHE_KEY.match(value) is not None


def is_date(value: bytes) -> bool:
    """Whether the value looks like a date, a time or a version."""
    return _DATE_OR_VERSION.match(value) is not None


def is_blob(piece: bytes) -> bool:
    """Whether a piece of letters, digits and slashes is base64: a path has few capitals, a hash few characters."""
    return len(set(piece)) > 16 and len(piece) - len(piece.translate(None, _CAPITALS)) > len(piece) // 5


def is_test_name(value: bytes) -> bool:
    """Whether the value looks like the name of a test: a verb, then words, hardly a digit."""
    return _TEST_NAME.match(value) is not None


def looks_generated(value: bytes, shortest: int = 8) -> bool:
    """Whether a machine made the value: digits and letters in turns, or letters that do not form words."""
    if len(value) < shortest or _DATE_OR_VERSION.match(value) or not value.isascii():
        return False
    if len(value) >= 24 and max(map(value.count, set(value))) > len(value) * 0.3:
        return False
    if _UUID.match(value):
        return True
    letters = len(value) - len(value.translate(None, _LETTERS))
    digits = len(value) - len(value.translate(None, _DIGITS))
    if not letters:
        return False
    if not digits:
        mixed = not value.islower() and not value.isupper()
        return len(value) >= max(10, shortest) and (mixed or value.isalpha()) and not is_wordlike(value)
    switches = len(_SWITCHES.findall(value))
    if switches >= max(2, len(value) // 14):
        return switches >= len(value) // 4 or not (is_wordlike(value) and len(value) < 40)
    return (digits >= 2 or len(value) >= 12) and len(value) >= max(10, shortest) and not is_wordlike(value)


def switches_often(value: bytes) -> bool:
    """Whether letters and digits alternate more often than in the name of something."""
    return len(value) >= 24 and len(_SWITCHES.findall(value)) >= 4


def looks_chosen(value: bytes) -> bool:
    """Whether a person may have chosen the value as a password. `value` is not a placeholder and not a reference."""
    if len(value) < 5 or len(value) > 256 or b" " in value:
        return False
    has_digit = value.translate(None, _DIGITS) != value
    has_alpha = value.translate(None, _LETTERS) != value
    has_sign = any(byte in b"!#$%^&*~+=?@-_." for byte in value[1:])
    if has_digit:
        return has_alpha or has_sign or len(value) >= 6
    return has_alpha and len(value) >= 8 and (not is_wordlike(value) or any(byte in b"!#$%^&*~+=?@" for byte in value))
