"""Is this value a secret, or a placeholder, a word, a reference, a path?

Belongs here: judgements on a value alone. Not here: which values are judged, and by which standard (`rules.py`,
`assignment.py`).
"""

import re
from itertools import pairwise

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
    rb"|change-?_?(?:me|this|it)|[-_]your[-_]|placeholder|example|dummy|redacted|masked|removed|hidden|censored|omitted|scrubbed"
    rb"|<[^<>]+>|\$\{|\$\(|\{\{|%\(|^%[a-z_]{2,}%$|#\{"  # to be filled in
    rb"|%[sdr](?![A-Za-z0-9]).{0,12}%[sdr](?![A-Za-z0-9])"
    rb"|\[\^?[a-z0]-[z9f]|\(\?[:=!P]"  # a pattern
    rb"|\*{3,}|\.{3}|x{5,}|\xe2\x80\xa6|\xe2\x80\xa2\xe2\x80\xa2|fake[-_]|not[-_]?a?[-_]?real|[-_]here$"
    rb"|\b(?:todo|tbd|fixme|lorem)\b|insecure-?default|1234567890|0123456789|abcdefghij"
)
_COMMON = frozenset(
    rb"""true false none null nil undefined nan yes no on off enabled disabled required optional default empty unset
    string str text bytes int integer number bool boolean object array any void never unknown varchar char uuid
    password passwd pass pwd passphrase secret token key apikey api_key credential credentials auth bearer basic
    user username admin root guest login name value email test testing tests foo bar baz foobar qux spam eggs abc abcd
    abc123 abcdef xyz hello world public private hunter postgres mysql redis mongo mongodb rabbitmq localhost
    utf-8 utf8 latin1 latin-1 ascii iso-8859-1 input hidden type field label title description header query cookie
    body path form json xml self this const let var
    function return async await import export class def lambda new old current previous next first last
    password1 password123 pass123 passw0rd secret123 test123 test1234 admin123 s3cr3t mypassword my_password mysecret
    secretkey mytoken letmein
    cl100k_base o200k_base p50k_base r50k_base
    qwerty 123456 12345678 user:pass user:password username:password""".split()
)
_ALGORITHM = re.compile(rb"(?i)^(?:sha-?\d{1,3}|md5|blake2[bs]|blake3|h1|crc32c?|xxh\d*|urn:uuid|gzip|utf-?8)[:=~-]")
_REFERENCE = re.compile(
    rb"^(?:[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[;,]?|[$@%&][A-Za-z_{(][\w.]*[)}%]?|[A-Za-z_][\w.]*[(\[{].*"
    rb"|[A-Za-z_$][\w$.]*\?[\w$.\[\]]{1,40}:.*|[(\[{|!:\\].*"
    rb"|.*(?:!=|\}=|\?\.|=void |=null|=this\.|\(\)|\)\{|\}\(|\)\.[a-z]\w|=>|&&|\|\||\?\?|===|::).*)$",
    re.DOTALL,
)
_PATH = re.compile(
    rb"^(?:[a-z][a-z0-9+.-]*://|\.{0,2}/[a-z._-]|~/|[A-Z]:\\|@[a-z][\w-]*/|file:)"
    rb"|\.(?:py|js|ts|tsx|json|ya?ml|toml|txt|md|pem|key|crt|env|go|rs|sh|html?|css|cfg|ini|conf|lock|log|sql|java|rb|php|xml|csv)(?::\d{1,6}){0,2}$"
)
_DIGIT = re.compile(rb"[0-9]")
_DOTTED = re.compile(rb"[A-Za-z]\w{3,}\.\w{4,}\Z")
_WORDS = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# `handles3Items`, `test_parses_v2`: what a test runner prints after PASS.
_TEST_NAME = re.compile(
    rb"(?:[Tt]est|[Ss]hould|spec|it|when|given|can|does|is|has|(?:return|handle|render|keep|parse|throw|create|update|delete"
    rb"|reject|accept|check|work|support|validate|show|write|read|load|save|find|call|set|get|add|remove|build|run)s?)"
    rb"(?:[0-9]{1,3}[A-Z]|[A-Z_])(?:[A-Za-z]|[0-9]{1,3}(?![0-9])|_)*(?<![0-9][0-9])\Z"
)
_UUID = re.compile(rb"(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_CACHE_KEY = re.compile(
    rb"(?i)(?:linux|macos|windows|darwin|ubuntu|node|npm|pnpm|yarn|pip|uv|cargo|go|gradle|maven|docker|v\d+)-.*-[0-9a-f]{32,}\Z"
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
_CALLED = re.compile(rb"[A-Za-z_]{4,}\w*[(\[]|\(\)|=>|\$\{")


def is_placeholder(value: bytes) -> bool:
    """Whether the value stands for a secret without being one: `changeme`, `<token>`, `xxxx`, `sk-...`."""
    body = value.strip(b"\"'`()[]{}<>.,;: ")
    if len(body) < 3 or len(set(body[-24:])) <= max(2, min(len(body), 24) // 6):
        return True
    return value.lower() in _COMMON or _PLACEHOLDER.search(value) is not None


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


def is_reference(value: bytes) -> bool:
    """Whether the value is code or names something else: a variable, a call, a path, a URL, a hash."""
    body = value.rstrip(b"?&|!=")
    if len(body) >= 8 and _DIGIT.search(body):
        value = body  # `Copper2041??` does not end in an operator
    if _DIGIT.search(value) and is_broken_by_a_dot(value):
        return False
    return bool(_REFERENCE.match(value) or (_PATH.search(value) and is_pathlike(value)) or is_digest(value))


def is_broken_by_a_dot(value: bytes) -> bool:
    """Whether what looks like `module.name` is random text with a dot in it: all kinds of characters, and no word."""
    if (
        not _DOTTED.match(value)
        or value.upper() == value
        or value.lower() == value
        or any(is_wordlike(part) for part in value.split(b"."))
    ):
        return False
    return looks_generated(value.replace(b".", b""), 10)


def is_mixed_with_signs(value: bytes) -> bool:
    """Whether the value has so many signs between letters and digits, and no word, that it is not code either."""
    if not 10 <= len(value) <= 128 or b" " in value or not _DIGIT.search(value) or is_wordlike(value):
        return False
    signs = set(value.translate(None, _LETTERS + _DIGITS + b"_-./"))
    return len(signs) >= 3 and value.upper() != value and value.lower() != value and not _CALLED.search(value)


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


def is_pathlike(value: bytes) -> bool:
    """Whether a value with slashes or a suffix looks like a path and not like base64."""
    return b"://" in value[:24] or is_wordlike(value) or len(value) < 12


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
