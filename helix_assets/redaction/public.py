"""Is this key public? A public key and a certificate are no secrets, whatever the name of the field they are in.

Belongs here: what the beginning of a key says about it, as base64 or hexadecimal. Not here: keys of SSH, whose text
says it (`judge.py`), and blocks with a header (`blocks.py`).
"""

import base64
import re

# The beginning of a key as DER. A sequence: a large number (the modulus of RSA; a private key begins with its version),
# an algorithm of keys, or a whole certificate.
_LENGTH = rb"(?:[\x00-\x7f]|\x81.|\x82..)"
_ALGORITHM = (
    rb"\x06(?:\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01[\x01\x0a]|\x07\x2a\x86\x48\xce\x3d\x02\x01|\x03\x2b\x65[\x6e-\x71])"
)
_PUBLIC = re.compile(
    rb"\x30%b(?:\x02(?:[\x40-\x7f]|\x81.|\x82..)|\x30%b%b|\x30%b(?:\xa0\x03\x02\x01|\x02))"
    % (_LENGTH, _LENGTH, _ALGORITHM, rb"(?:\x81.|\x82..)"),
    re.DOTALL,
)
_HEXADECIMAL = re.compile(rb"30[0-9a-fA-F]{46}")
_BASE64 = re.compile(rb"M[C-I][A-Za-z0-9+/_-]{30}")
_AGE = re.compile(rb"age1[02-9ac-hj-np-z]{58}\Z")


def is_public_key(value: bytes) -> bool:
    """Whether the value is a public key or a certificate: of RSA, of elliptic curves, of age."""
    if _HEXADECIMAL.match(value):
        return _PUBLIC.match(bytes.fromhex(value[:48].decode())) is not None
    if _BASE64.match(value):
        return _PUBLIC.match(base64.b64decode(value[:32], b"+/" if b"-" not in value[:32] else b"-_")) is not None
    return _AGE.match(value) is not None
