"""Made-up secrets of the usual shapes, and credential files that no reader may open.

Every value is put together at run time, so that no scanner mistakes this source for a leak.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from random import Random

from helix_assets.demo.private import write_private

_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_MIXED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _run(rng: Random, length: int, alphabet: str = _MIXED) -> str:
    return "".join(rng.choices(alphabet, k=length))


def _pem(rng: Random) -> str:
    body = base64.b64encode(rng.randbytes(240)).decode()
    lines = "\n".join(body[i : i + 64] for i in range(0, len(body), 64))
    label = " ".join(("RSA", "PRIVATE", "KEY"))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----"


def _jwt(rng: Random) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    return f"{head}.{_run(rng, 72)}.{_run(rng, 43)}"


_SHAPES: dict[str, Callable[[Random], str]] = {
    "aws_access_key_id": lambda rng: "AK" + "IA" + _run(rng, 16, _UPPER),
    "github_token": lambda rng: "gh" + "p_" + _run(rng, 36),
    "anthropic_key": lambda rng: "sk-" + "ant-api03-" + _run(rng, 93) + "AA",
    "openai_key": lambda rng: "sk-" + "proj-" + _run(rng, 48),
    "slack_token": lambda rng: "xo" + "xb-" + f"{rng.randrange(10**11, 10**12)}-{_run(rng, 24)}",
    "stripe_key": lambda rng: "sk_" + "live_" + _run(rng, 24),
    "url_password": lambda rng: "postgres://app:" + _run(rng, 18) + "@db.internal.example:5432/main",
    "jwt": _jwt,
    "private_key": _pem,
}


def secret(rng: Random) -> tuple[str, str]:
    """Make up a secret; returns (kind, value)."""
    kind = rng.choice(list(_SHAPES))
    return kind, _SHAPES[kind](rng)


def _credentials(rng: Random) -> dict[str, str]:
    token, refresh = "sk-" + "ant-oat01-" + _run(rng, 86) + "AA", _run(rng, 60)
    return {
        "claude/.credentials.json": f'{{"claudeAiOauth":{{"accessToken":"{token}","refreshToken":"{refresh}"}}}}\n',
        "codex/auth.json": f'{{"tokens":{{"access_token":"{_jwt(rng)}","refresh_token":"{_run(rng, 60)}"}}}}\n',
        "grok/auth.json": f'{{"access_token":"{"xa" + "i-"}{_run(rng, 80)}"}}\n',
    }


def write_credentials(out: Path, rng: Random, at_ms: int) -> None:
    """Put the credential files into the sample home."""
    for name, text in _credentials(rng).items():
        write_private(out / name, text, at_ms)
