"""Whether a text is made of words, as names in code, paths and sentences are, or of random characters.

Belongs here: how likely each character is to follow another in names, compared with chance. Not here: what follows from
that (`judge.py`).
"""

import re
from functools import lru_cache
from itertools import pairwise, starmap

# For each pair of letters, how much more often it occurs in names of code than by chance: `a` is -9, `j` 0, `n` 4, in
# half nats. Counted in 330,000 names from source trees of Python, TypeScript, Go and Rust. A row per first letter.
_PAIRS = (
    "djkkegjaibglklbjalkmigghhd"  # a
    "mgigmefdljemfekgejjhledbkc"  # b
    "lehelfeliakkgengbkhljebaha"  # c
    "mhhjnhgeleeihfjhcjjijfffga"  # d
    "jfkkhihdgcekjlgiimmleihkhb"  # e
    "kdgfkkgcnackfhmfakjjjccchb"  # f
    "jfhfnfiilddjhkjhcllijeebfd"  # g
    "mfkhnfedlbdgiflgfjikjdeegc"  # h
    "iikjjijacadkjnlicillchagai"  # i
    "jdfenfddgdfeeengddnfjeiddd"  # j
    "jgiinhiflbehhiihchlhjeidec"  # k
    "lfgjmlfcmbekeelfafjjkgdaia"  # l
    "miggneecladhjiklbfjhidccgb"  # m
    "leklljldjcgggikjbglmiheaga"  # n
    "hijjehhbhehkknikamijkhifeb"  # o
    "mgiimefijafkgeljbljkledaja"  # p
    "defgefcdeccledcgeghhndedcd"  # q
    "leiinficlahhiilgajkkiheaja"  # r
    "jekfngejlahhgfkjfhknjegbia"  # s
    "lfigngekmcdhgfkibkjjiefekd"  # t
    "ijihlhgajaalklfkblkmcbahab"  # u
    "nfhfngeemaaefeihdfggedfccc"  # v
    "mfhglfeincehfjlgcmkhefhdcd"  # w
    "jflglgefkccgifgmeginehehic"  # x
    "ihjhjghfidekkkindilkeghcdf"  # y
    "lfffnfeekdghfeledgigfdefii"  # z
)
# The same for kinds of characters: small letter, capital, digit, sign. The beginning counts as a sign.
_KINDS = {
    "small": {"small": 2, "capital": -4, "digit": -8, "sign": 0},
    "capital": {"small": 1, "capital": 0, "digit": -6, "sign": -1},
    "digit": {"small": -4, "capital": -2, "digit": 2, "sign": 1},
    "sign": {"small": 1, "capital": -1, "digit": -7, "sign": 0},
}
# Sizes, as in `Uint8Array` and `sha256`, say nothing about the letters around them.
_SIZE = re.compile(rb"(?<=[A-Za-z]{3})(?:8|16|32|64|128|256|384|512|1024|2048|4096)(?![0-9])|25519|(?<=x)509")
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SMALL, _CAPITAL, _DIGIT = range(97, 123), range(65, 91), range(48, 58)


def _kind(byte: int) -> str:
    if byte in _SMALL:
        return "small"
    if byte in _CAPITAL:
        return "capital"
    return "digit" if byte in _DIGIT else "sign"


@lru_cache(maxsize=1 << 16)
def _weight(first: int, second: int) -> int:
    weight = _KINDS[_kind(first)][_kind(second)]
    first, second = first | 32, second | 32
    if first in _SMALL and second in _SMALL:
        weight += ord(_PAIRS[(first - 97) * 26 + second - 97]) - ord("j")
    return weight


@lru_cache(maxsize=4096)
def reads_as_words(value: bytes, *, perhaps: bool = False) -> bool:
    """Whether the characters follow each other as in names, not by chance; with `perhaps` also in case of doubt.

    Of random characters, 10 to 32 of them, one in two thousand reads as words (small letters alone: one in eight); of
    names in code all but four in a hundred do. With `perhaps` it is one in a thousand and two in a hundred.
    """
    letters = len(value) - len(value.translate(None, _LETTERS))
    if 2 * letters < len(value):
        return False
    score = sum(starmap(_weight, pairwise(b"." + _SIZE.sub(b"", value))))
    return score > (-2 if perhaps else 2 + len(value) // 3)
