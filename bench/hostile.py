"""The texts that cost the redaction most: random pieces of what it looks for, repeated without end.

python -m bench.hostile SEED SECONDS

Prints the worst in CPU seconds per MB, in a short text and in one ten times as long: where the second is several times
the first, the cost grows faster than the text.
"""

from __future__ import annotations

import sys
import time
from random import Random

from helix_assets.redaction import Redactor, rules

_SHORT, _LONG = 30_000, 300_000
_WORST = 15
_NAMES = [
    *("password", "secret", "pwd", "token", "api_key", "key", "pw", "pin", "auth", "Authorization", "login", "bearer"),
    *("Cookie", "session", "value", "user", "name"),
]
_SIGNS = [
    *("=", ":", "->", "=>", ": ", "= ", " ", "':", "='", '="', "','", '","', "(", "('", "' or '", "::", "|", " = "),
    *("\\n", "\\t", "\t", "/", "@", "\n", "\r\n", ",", ";", "&", "?", "-", "--", "\\", '\\"', '"', "'", "`", "{", "}"),
    *(
        "[",
        "]",
        "<",
        ">",
        "$",
        "${",
        "%",
        "*",
        "+",
        "\x1b[31m",
        "\\u001b[0m",
        "\\u003d",
        "é",
        "→",
        "a",
        "Z",
        "0",
        "=3D",
    ),
    *("Ab1cd9", "x" * 20, "0123456789abcdef", "-----BEGIN ", "PRIVATE KEY-----", "://", "a:b@", "is ", "-p", "export "),
]
_KEYWORDS = [rule.keyword for rule in (*rules.TOKENS, *rules.CONTEXTS) if rule.keyword]


def cost(redactor: Redactor, unit: str, length: int) -> float:
    """CPU seconds per MB for a unit repeated to a length."""
    text = (unit * (length // len(unit) + 1))[:length]
    begin = time.process_time()
    redactor.text(text)
    return (time.process_time() - begin) / length * 1e6


def main(seed: int, seconds: float) -> None:
    """Try random units and print the worst."""
    random = Random(seed)
    redactor = Redactor(b"bench")
    redactor.prepare()
    tried: dict[str, float] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kinds = random.choices((_NAMES, _SIGNS, _KEYWORDS), k=random.randint(1, 4))
        unit = "".join(map(random.choice, kinds))
        if unit not in tried:
            tried[unit] = cost(redactor, unit, _SHORT)
    print(f"{len(tried):,} units; s/MB in {_SHORT:,} and in {_LONG:,} characters")
    for unit in sorted(tried, key=tried.__getitem__, reverse=True)[:_WORST]:
        print(f"{cost(redactor, unit, _SHORT):6.2f} {cost(redactor, unit, _LONG):6.2f}  {unit!r}")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
