"""What looks like a secret and must stay: hashes, ids, signatures, images, placeholders, references, code, prose."""

import json

import pytest

from helix_assets.redaction import Redactor
from helix_assets_tests.redaction.made_up import made_up, password

REDACTOR = Redactor(b"k" * 32)

SURVIVORS = r"""
commit {hex40}
HEAD is now at {hex8} fix the login form
index {hex7}..{hex7} 100644
"uuid": "{uuid}", "parentUuid": "{uuid}"
"sessionId":"{uuid}","session_id":"{uuid}"
"tool_use_id": "toolu_01{an22}", "call_id":"call_{an24}", "id":"msg_01{an22}"
session_id={uuid} model_session_id={uuid}
Resumed session: `{uuid}`, sid={uuid}
We follow community guidelines; the community edition is free.
you can enable password authentication, then enable secret scanning
the key 5 represents the widget; password 0 indicates failure
set the requirepass directive in redis.conf
**Password:** required field, **Token:** optional
(0) 0x{hex40} (10000 ETH)
jwt.verify(token, process.env.JWT_SECRET)
requestId: req_011{an21}
"integrity": "sha512-{b64_86}=="
checksum = "{hex64}"
github.com/acme/lib v1.2.3 h1:{b64_43}=
--hash=sha256:{hex64}
numpy/typing/tests/data/reveal/ufunclike.pyi,sha256=sk_{url40},1346
Digest: sha256:{hex64}
ETag: "{hex32}"
MD5 (disk.img) = {hex32}
cache_key = "v3-deps-{hex64}"
{"type":"thinking","thinking":"Hm.","signature":"{b64_600}"}
{"type":"reasoning","summary":[],"encrypted_content":"gAAAAAB{url900}"}
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo{b64_3000}"}}
<img src="data:image/png;base64,{b64_900}">
//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozfQ{b64_400}
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64_43} me@host
API_KEY=your-api-key-here
GITHUB_TOKEN=<your_token>
TOKEN=xxxxxxxxxxxxxxxxxxxx
PASSWORD=********
SECRET_KEY=changeme
OPENAI_API_KEY=sk-...
AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE
password: ${DB_PASSWORD}
token: ${{ secrets.GITHUB_TOKEN }}
key: {{ .Values.secretKey }}
--password "$PGPASSWORD"
Authorization: Bearer $TOKEN
postgresql://$DB_USER:$DB_PASS@$DB_HOST/db
https://user:password@example.org/x
const token = process.env.API_TOKEN;
api_key=os.environ["API_KEY"]
password = getpass.getpass()
token = await self.get_token(session_id)
self.secret_key = secret_key or self._load_secret_key()
login(username=form.user.data, password=form.password.data)
const { accessToken, refreshToken } = useAuth()
passwordField.setAttribute('type', 'password')
def verify_password(password: str, hashed: str) -> bool:
password_hash text NOT NULL, api_key_prefix varchar(8), token_expires_at timestamptz
max_tokens=4096, token_count = 18231, "input_tokens": 48321
"primary_key": "id", foreign_key='orders.id'
{"nextPageToken": "{an40}"}
eos_token = "<|endoftext|>", pad_token_id = 50256
--- PASS: TestParserKeepsTokens2 (0.05s)
tests/test_auth.py::test_token_2 PASSED [ 51%]
ok  pass: shouldHandle3Items (3 ms)
--- pass: testbekifokalozoze (#.#s)
    --- PASS: TestParser/keeps_2_tokens (0.00s)
PASS: TestRetry3Times
XPASS: tst-cancel17
PASS: test_parser_2.sh 14 - reads all 3 lines
PASS: gdb.base/break2.exp: step 1 over x2y
pass: renders2Columns (12 ms)
✔ pass: keepsOrder2Times (0.321ms)
√ pass: returns404WhenMissing
[pass]: keepsOrder2Times
PASS TestHandle3Items
PASS  src/lib/a2b.test.ts (5.12 s)
pass: 123456, fail: 0
pass 123456, passed: 123456, pass=34 fail=2 skip=1
{"status":"pass","title":"handles3ItemsIn2Rows"}
pass: 98.5%
Pass: handles3Items
ok 1 - pass: handles3Items
ok 2 pass=handles3ItemsIn2Rows
PASS [   0.005s] my-crate tests::keeps_2_of_3
Session: ses_{an26}
key: Linux-pip-{hex64}
"key": "node-modules-v2-{hex40}"
TWILIO_ACCOUNT_SID=AC{hex32}
xoxb-your-token and sk-your-own-secret
Passwort vergessen? Das Passwort ist falsch. Passwort: erforderlich
"passwordTooShort": "El campo contraseña: mínimo ocho caracteres"
密码错误 パスワード: required пароль: обязательно
variable "db_password" {\n  type = string\n  description = "Password of the database"\n}
variable "db_password" {\n  default = var.fallback_password\n}
#define TOKEN_NAME "access_token"
net user list /domain, vault login succeeded, rabbitmqctl add_user failed
unexpected token "identifier" and secret "recipe-for-success"
PIN: 12 of GPIO 4, access code: see below
  ✓ login: redirectsTo2faPage (12 ms)
  ✕ password: rejects8CharMinimum (4 ms)
ok 3 - token: parses2Headers
PASSED tests/test_auth.py::TestLogin::test_login2FA - 0.32s
pass: auth/login_spec.rb:42
Pass: LoopVectorize128 took 0.3ms
opt: pass=simplifycfg2 done
cache key: node-modules-linux-x64-{hex32}
Cache restored from key: Linux-node-{hex40}
#12 CACHED key=sha256:{hex64}
Refreshing state... [id=arn:aws:secretsmanager:us-east-1:{dig12}:secret:db2-AbCdEf]
"Resource": "arn:*:secretsmanager:*:*:secret:AmazonMSK_*", "Sid": "AllowPassRoleOnSelfToSsm"
"AWS::Redshift::EndpointAuthorization": "{hex16}"
next_page_token: {lo24}, "syncToken": "{an24}", eos_token_id=50256
routing_key = "orders.created.v2", partition_key="{uuid}"
password:\n  type: string\n  format: password\n  example: your-password
forgot: "forgot-your-password-link", password: "confirm-new-password-field"
$ cat token_parser.py\nimport re2 as regex
$ echo $TOKEN_COUNT\n1048576
$ terraform output -raw instance_id\ni-0{hex16}
secret_id = "arn:aws:secretsmanager:eu-west-1:{dig12}:secret:crm/lotus-AbCdEf"
const{password:e1,token:t2}=req.body;
function m(e){return e.token||e.hammer?88:t[5]}var lx=b(2827);
$ openssl rand -hex 4\nusage: rand2 [options]
<key>TokenCount</key><string>42</string>
password: "%s", token: "%d/%s"
Pass: 98.5%
PWD=/home/sam/code2
OLDPWD=/home/sam/code42/app
"pwd": "/srv/app2/releases/20240115"
PIN: GPIO17
login=alice42
"encoding": "cl100k_base", token: cl100k_base
Running pass: InstCombine2Pass
first pass: tokenizeLine2Words
result=pass: e2e_login_3_users
The password field is required and must be at least 12 characters.
Bearer authentication is required
You need an API key; create one in the dashboard under Settings.
The session token expires after 30 minutes of inactivity.
-rw-r--r-- 1 u u 55971 Jun  5 12:44 secrets_2024.tf
-----BEGIN CERTIFICATE-----\n{b64_64}\n{b64_64}\n-----END CERTIFICATE-----
if line.startswith("-----BEGIN RSA PRIVATE KEY-----"): return parse_private_key(lines)
git@github.com:acme/app.git and https://github.com/acme/app/blob/{hex40}/src/app.py#L10
/nix/store/{lo32}-glibc-2.38
vpc-{hex17} subnet-{hex17} arn:aws:iam::{dig12}:role/app-ExecutionRole
ghp_****************************ab12
"password": ["required", "string", "confirmed"]
"tokens": ["the", "a1b2"], "key": ["Ctrl", "K"]
fn check(password: &str) -> bool; let token: &'static Token = self.token;
builder.password(config.password).token(token)
changed the password field from text to password and set the token to null
[redacted:github:abcdefg] and password=[redacted:password:abcdefg]
interface Keys {\n  ownerPrivateKey: Uint8Array;\n  sharedSecret: Uint8Array | null;\n}
export function seal(message: Uint8Array, privateKey: Uint8Array, nonce: Uint8Array): Uint8Array;
async encrypt(password: Uint8Array | string, salt: Base64Url): Promise<Uint32Array>
getUserInfo(token: OAuth2Tokens & { expectedIdTokenNonce?: string }): Promise<void>
pub fn derive(pass: &[u8], psk: [u8; 32], secret: Option<&[u8]>, token: &'static str) -> Vec<u8>
func Sign(secretKey []byte, token map[string]string, password: Array2D<u8>) error
const { privateKey: ed25519Seed, secret: x25519Secret } = keys; Keys are Uint8Array
let mut key: SessionKey = vec![0u8; sym_algo.key_size()?].into();
issuer_private_key = rsa_key_2048, PrivateKey=EC_SECP521R1_KEY, KEY_INBOUND = E2E_PREFIX + "x"
agent-browser --session av-x0ym-wtg-dashboard open https://example.org
agent-browser --session k3-beta-checkout-2 snapshot && tmux new --session build-x86-nightly
"@aws-sdk/credential-provider-node": "^3.972.0", "credential-provider-ini": "3.1.2-rc.1"
"pgpass": "1.0.5", "pgpass": ["pgpass@1.0.5", "", {}], "jsonwebtoken": "npm:jwt@^9.0.2"
**Versions to pin:** `react-email@^6.9.1`, `@scope/render@~2.1.0`
100% PASS | 1079/1107ms | 3 retries
PASS | 41/44 | 98.2% |, pass: 12.5ms, PASS: 30/30
$ jq 'keys' packages/core/Config2/generatedClients/schemaV2Index.json
source_bundle_key: 'jobs/job_abc12345/source/a.tar.gz',
m.f=["assets/Index-935WMal7.js","assets/ApiTokenManager-BsJDhfUk.js","assets/Action-CSkDCCbS.js"]
Session: 2026-01-08-{uuid}
Session: 2026-01-14-test-session-1
Cache hit occurred on the primary key node-cache-Linux-x64-npm-{hex64}, not saving
"API_KEY=\\(.apiKey)", "TOKEN=\\(.auth.token)"
setQuoteToken: '0x{hex8}', token: '0x{hex40}'
ARN: "arn:aws:secretsmanager:us-west-2:{dig12}:secret:MyTestDatabaseSecret-a1b2c3"
sign('', 'test_secret') => '{hex64}'
export const bearerToken = /*#__PURE__*/dual(2, (self, token) => self)
idToken: z.ZodOptional<z.ZodObject<{
"Password:"),o?React.createElement("code",null,x):null
cmd.Env = append(cmd.Env, "PWD="+cmd.Dir)
provisioner_password: {{ .Password | b64enc }}
ChangeToken: aws.String("{uuid}"),\n\t\tpat:  []byte("RIFF2x4"),
authorization: `Basic ${encode(toUtf8Bytes(this.#creds))}`
SigningKey: "pkcs11:id=7375;object=ecdsa-p521-key"
$repoCredential = New-Object System.Management.Automation.PSCredential
"key": "AAAAC3NzaC1lZDI1NTE5AAAAI{b64_43}"
  AuthPasskeyApi,\n  PasswordCredentials,\n  SolanaWeb3Credentials,\n  EthereumWeb3Token2Type,
kind: ConfigMap\napiVersion: v1\ndata:\n  theme: {an24}\n  level: info2
secretKeyRef:\n  kind: Secret\n  name: db-1\n  key: token2
{"kind":"ConfigMap","data":{"theme":"{an24}"},"items":[{"kind":"Secret","metadata":{"name":"x1"}}]}
Key             Value\n---             -----\nlease_duration  768h\ntoken_policies  ["default"]
[58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6, 64, 56]
    ProxyServer    REG_SZ    10.0.0.{dig2}:8080
openssl rsa -in k.pem -passin pass:$KEY_PASS -passout env:NEW
""".strip().splitlines()


@pytest.mark.parametrize("template", SURVIVORS)
def test_text_without_a_secret_stays(template: str) -> None:
    for seed in range(5):
        text = made_up(template, seed).replace("\\n", "\n")
        for form in (text, json.dumps({"content": f"ok\n{text}\n"}), json.dumps({"o": json.dumps({"p": text})})):
            assert REDACTOR.text(form).text == form


@pytest.mark.parametrize("template", SURVIVORS)
def test_text_without_a_secret_stays_beside_one_too(template: str) -> None:
    before = f"DB_PASSWORD={password(1)}\n"
    for seed in range(2):
        text = made_up(template, seed).replace("\\n", "\n")
        assert REDACTOR.text(before + text).text == REDACTOR.text(before).text + text


def test_images_are_never_read_twice() -> None:
    line = made_up('{"image":"{b64_900}","usage":{"input_tokens":5}}', 1).encode()
    assert REDACTOR.lines(line).data is line
