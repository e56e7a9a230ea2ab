"""Names of code read as words, random characters do not."""

import random
import string

import pytest

from helix_assets.redaction.judge import is_name, is_reference, is_slug, is_version
from helix_assets.redaction.words import reads_as_words

NAMES = [
    "Uint8Array",
    "ownerPrivateKey",
    "ed25519Seed",
    "form.password.value",
    "settings.DB_PASSWORD",
    "EthereumWeb3Credentials",
    "OAuth2Tokens",
    "process.env.S3_SECRET",
    "auth.signInForm",
    "maxPriorityFeePerGas",
    "assets/Login-CNESXyyM.js",
    "self.secret_key",
    "user.profile.email",
    "base64urlToken",
    "secp256k1.utils.randomPrivateKey",
    "x25519PublicKey",
    "Option<Vec<u8>>",
    "encodeURIComponent(token)",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_read_as_words(name: str) -> None:
    assert reads_as_words(name.encode())


@pytest.mark.parametrize(
    "alphabet", [string.ascii_letters + string.digits, string.ascii_letters + string.digits + string.punctuation]
)
def test_random_characters_do_not(alphabet: str) -> None:
    rng = random.Random(4)
    texts = ["".join(rng.choices(alphabet, k=rng.randint(10, 32))).encode() for _ in range(4_000)]
    assert sum(map(reads_as_words, texts)) <= 8


@pytest.mark.parametrize(
    "value",
    [
        *("os.environ", "config.dbPassword", "auth->user->password", "Settings::secret", "getpass.getpass()"),
        *("hash(password, 10)", "$DB_PASSWORD", "%APP_TOKEN%", "src/auth/token2.ts", "./keys/server1.pem"),
        *("jobs/job_abc12345/source/a.tar.gz", "aws.String(\"x-1\")", "str(uuid4())", "pkcs11:id=7375;object=key"),
        *("),o?React.createElement(", "+encodeURIComponent(name)+"),
    ],
)  # fmt: skip
def test_references_are_seen(value: str) -> None:
    assert is_reference(value.encode())


@pytest.mark.parametrize("value", ["aB3.kQ9xLmWz", "K8meT8R[l:^t", "(qS+RER|ho8)", "{6UgM[{fI@CS-1)x", "Sp8pud7.ty"])
def test_random_text_that_looks_like_code_is_none(value: str) -> None:
    assert not is_reference(value.encode())


@pytest.mark.parametrize("value", ["ghp_wordsaB3kQ9xLm7dE", "dvc_server_s46TehNCIXrNEwsth", "Copperlantern4821"])
def test_a_key_behind_words_and_a_password_of_words_are_no_names(value: str) -> None:
    assert not is_name(value.encode())


def test_slugs_and_versions() -> None:
    assert all(map(is_slug, (b"av-x0ym-wtg-dashboard", b"2026-01-14-test-session-1", b"credential-provider-node")))
    assert not any(map(is_slug, (b"k3jx9-qqz7xkvw2m", b"550e8400-e29b-41d4-a716-446655440000", b"copper")))
    assert all(map(is_version, (b"1.0.5", b"^3.972.0", b"pg@1.0.5", b"react-email@^6.9.1", b"1079/1107ms", b"98.5%")))
    assert not any(map(is_version, (b"1234", b"a1.b2", b"10.aB3kQ9")))
