"""What source trees have where a secret could stand: public keys, norms, items of lists, translations, ciphers."""

import base64
from collections.abc import Iterator
from random import Random

import pytest

from helix_assets.redaction import Redactor
from helix_assets.redaction.public import is_public_key
from helix_assets_tests.redaction.made_up import password

REDACTOR = Redactor(b"k" * 32)
RANDOM = Random(19)


def _bytes(number: int) -> bytes:
    return RANDOM.randbytes(number)


def _sequence(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return b"\x30\x82" + len(body).to_bytes(2, "big") + body


RSA = bytes.fromhex("300d06092a864886f70d0101010500")
EC = bytes.fromhex("301306072a8648ce3d020106082a8648ce3d030107")
MODULUS = b"\x02\x82\x01\x01\x00" + _bytes(256)
PUBLIC = {
    "RSA": _sequence(MODULUS, b"\x02\x03\x01\x00\x01"),
    "RSA, SPKI": _sequence(RSA, b"\x03\x82\x01\x0f\x00", _sequence(MODULUS)),
    "EC, SPKI": b"\x30\x59" + EC + b"\x03\x42\x00\x04" + _bytes(64),
    "Ed25519, SPKI": bytes.fromhex("302a300506032b6570032100") + _bytes(32),
    "certificate": _sequence(_sequence(b"\xa0\x03\x02\x01\x02\x02\x08" + _bytes(300))),
}
PRIVATE = {
    "RSA": _sequence(b"\x02\x01\x00", MODULUS, b"\x02\x03\x01\x00\x01"),
    "PKCS#8": _sequence(b"\x02\x01\x00", RSA, b"\x04\x82\x01\x00" + _bytes(256)),
    "EC": bytes.fromhex("30770201010420") + _bytes(32) + bytes.fromhex("a00a06082a8648ce3d030107"),
    "Ed25519": bytes.fromhex("302e020100300506032b657004220420") + _bytes(32),
    "random": _bytes(48),
}


def _written(key: bytes) -> Iterator[bytes]:
    yield base64.b64encode(key)
    yield key.hex().encode()
    yield key.hex().upper().encode()


@pytest.mark.parametrize("kind", PUBLIC)
def test_a_public_key_is_recognized_and_stays(kind: str) -> None:
    for text in _written(PUBLIC[kind]):
        assert is_public_key(text)
        for line in ('key = "{}"', "KEY = {}", '"signing_key": "{}"'):
            whole = line.format(text.decode())
            assert REDACTOR.text(whole).text == whole


@pytest.mark.parametrize("kind", PRIVATE)
def test_a_private_key_is_not_taken_for_a_public_one(kind: str) -> None:
    for text in _written(PRIVATE[kind]):
        assert not is_public_key(text)
        assert text.decode() not in REDACTOR.text(f'private_key = "{text.decode()}"').text


STAYS = r"""
private_key_ops: &p256::PRIVATE_KEY_OPS,
js.BitXorToken:     js.OpBitXor,
password = os.Args[4]
cfg.passwd = dup[2]
password = uuid.uuid4().hex
client.read_secret.side_effect = exc[0](exc[1])
    password=MYSQL_PASSWORD,
self.keyfilepwd = keyfilepwd
password: include_bytes!(concat!("data/", $name)),
pub const STENCIL_PASS_DEPTH_PASS: u32 = 2966u64 as u32;
pub const IOC_SET_PW: u32 = 1109422304;
pub const CKF_EXCLUDE_PIN: CK_FLAGS = 0x00000010;
var key = [32]byte{}
@pulumi.type_token("aws:transfer/tag:Tag")
client.get("/the-key", "http://127.0.0.1:5000/")
DigestCredentialFactory("md5", "localhost:8080")
api_key: os.environ/AZURE_API_KEY
DB_PASSWORD: ?{gpg:targets/app/db/password:7f90b2db}
"tests/test_token_trees.rs":"c30b921a96739c9334ec2bdd06552729891e0251b9d8fbdf0b8f5cc897babee5"
"sid": "S-1-5-21-1654078763-769949647-2968445802-513"
# public key: age1xmwwc06ly3ee5rytxm9mflaz2u56jjj36s0mypdrwsvlul66mv4q47ryef
Release GPG key: 9554F04D7259F04124DE6B476D5A82AC7E37093B
the private key is converted to PKCS#8 encoded form
reports that token is RFC2616 token
the password hasher is changed to Argon2id
the output of a password hashing function is **32-bytes** long
"ui.profile.change_password.submit":"Lähetä"
"Set User and Password": "設置用戶和密碼"
dialect+driver://gebruikersnaam:wachtwoord@host:port/db
"seed":"M20.7,3.3C20.7,3.3 19.3,3 17.2,3C11.4,3 8.7,6.1 7.8,8.8"
"pin":"pin-Latn-PG","pag":"pag-Latn-PH"
"onepassword":"M12,1C5.92,1 1,5.92 1,12C1,18.08 5.92,23 12,23"
"python-oauth:python-oauth-1.0.1-1:1.0.1-1": true
"key": "Array.Shape.0c1ec89f38a496d79fd06df0e76cb61d82a8fdf7"
ERRCODE_INVALID_PASSWORD := "28P01"
set "PGPASSWORD", "PGAPPNAME", "PGSSLMODE"
copy(key[keyPrefixLen+keyFolderLen+keyHashLen:], name)
00aa:TLS_PSK_WITH_AES_256_GCM_SHA384:PSK:PSK:AES:GCM:256:AEAD:256:SHA384:DEFAULT:rfc5487
ssl_ciphers "HIGH:!aNULL:!PSK:!aECDH:!EDH-DSS-DES-CBC3-SHA:!KRB5-DES-CBC3-SHA";
click.option("--new-passphrase", required=True)
msbuild /maxcpucount:2 /p:Configuration=Release libzmq.vcxproj
-PasswordValidityPeriodInDays '2147483647'
""".strip().splitlines()


@pytest.mark.parametrize("line", STAYS)
def test_what_only_stands_where_a_secret_could_stays(line: str) -> None:
    assert REDACTOR.text(line).text == line
    assert REDACTOR.text(f"first\n{line}\nlast\n").text == f"first\n{line}\nlast\n"


def test_a_line_of_a_block_of_base64_has_no_token() -> None:
    """A token's prefix in the middle of a font or a picture is chance; on a line of its own it is none."""
    lines = [base64.b64encode(_bytes(48)).decode() for _ in range(6)]
    lines[3] = "EAAB" + lines[3][4:].replace("+", "a").replace("/", "b")
    block = "\n".join(lines)
    assert REDACTOR.text(block).text == block
    alone = f"see\n{lines[3]}\nfor it"
    assert lines[3] not in REDACTOR.text(alone).text


FOUND = (
    "    password=§,",
    "password = '§'",
    'ERROR_PASSWORD = "§"',
    '"public_host": "x", "password": "§"',
    "xfreerdp /u:app /p:§",
    'chap: app * "§" *',
    "    db_password: §",
    "os.environ['DB_PASSWORD'] = '§'",
)


@pytest.mark.parametrize("place", FOUND)
def test_a_secret_there_is_found(place: str) -> None:
    for seed in range(20):
        secret = password(seed)
        assert secret not in REDACTOR.text(place.replace("§", secret)).text, secret
