"""Secrets made up at run time, so that no scanner trips over the repository.

`made_up("ghp_{an36}")` fills a rule's example: `{an36}` is 36 random letters and digits; see `rules.py` for the rest.
"""

import base64
import random
import re
import string
import uuid

_ALPHABETS = {
    "an": string.ascii_letters + string.digits,
    "lo": string.ascii_lowercase + string.digits,
    "up": string.ascii_uppercase + string.digits,
    "az": string.ascii_letters,
    "dig": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "b32_": string.ascii_uppercase + "234567",
    "b64_": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
}
_BLANK = re.compile(r"\{(an|lo|up|az|dig|hex|HEX|b32_|b64_|url)(\d+)\}|\{(uuid|pair)\}")
_WORDS = ("copper", "lantern", "meadow", "harbor", "velvet", "pepper", "thunder", "saddle", "orchid", "walnut")


def made_up(template: str, seed: int) -> str:
    """Fill the blanks of a template with random characters; the same seed gives the same text."""
    rng = random.Random(f"{seed} {template}")

    def fill(blank: re.Match[str]) -> str:
        if blank[3] == "uuid":
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))
        if blank[3] == "pair":
            return base64.b64encode(f"app:{rng.getrandbits(60):x}Q".encode()).decode()
        # Edges are letters or digits, so that no case hangs on the punctuation around it.
        chars = rng.choices(_ALPHABETS[blank[1]], k=int(blank[2]))
        edges = [char for char in _ALPHABETS[blank[1]] if char.isalnum()]
        return "".join([rng.choice(edges), *chars[1:-1], rng.choice(edges)])

    return _BLANK.sub(fill, template)


def password(seed: int) -> str:
    """A password as people choose them: words and digits, or random characters."""
    rng = random.Random(seed)
    first, second = rng.sample(_WORDS, 2)
    number = rng.randrange(1000, 10_000)
    words = (f"{first.capitalize()}{second}{number}", f"{first}-{second}-{number}")
    return (*words, made_up("{an15}7", seed), made_up("{an7}!{an7}4", seed))[seed % 4]
