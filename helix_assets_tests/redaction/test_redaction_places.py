"""Where people leave passwords and keys that have no vendor's shape: each place, plain and in nested JSON.

In a template `§` is the secret; `\\n`, `\\r` and `\\\\` are written as in Python.
"""

import json

import pytest

from helix_assets.redaction import Redactor
from helix_assets_tests.redaction.made_up import made_up, password

REDACTOR = Redactor(b"k" * 32)
KEYS = ("{an40}", "{hex32}", "{an24}", "{hex40}")

PASSWORD_PLACES = r"""
export DB_PASSWORD=§
DB_PASSWORD="§"
DATABASE_PASSWORD: §
  password: §
  password: "§"
password = §
password='§'
"password": "§",
'password': '§',
{"username":"app","password":"§","host":"db"}
spring.datasource.password=§
password: !!str §
passwd = os.getenv("X_PASS") or "§"
admin password → §
INSERT INTO staff (id, password, note) VALUES (7, '§', now());
psexec.py LAB/eva:§@10.1.1.1
the password they use for now is §
javax.net.ssl.keyStorePassword=§
<password>§</password>
<property name="password" value="§"/>
<user username="tomcat" password="§" roles="manager"/>
define( 'DB_PASSWORD', '§' );
$db_pass = '§';
$config['db']['password'] = '§';
mysql_connect('localhost', 'root', '§');
[client]\nuser=root\npassword=§
- POSTGRES_PASSWORD=§
docker run -e "POSTGRES_PASSWORD=§" postgres
12→- name: DB_PASSWORD\n13→  value: "§"
+- name: DB_PASSWORD\n+  value: "§"
12→db.example:5432:main:app:§
test: ["CMD", "redis-cli", "-a", "§", "ping"]
**Password:** §
- **password**: §
Bitte melde dich mit dem Kennwort § an.
J'ai changé le mot de passe admin en §.
Зайди под sa, пароль: §
$conn = mysqli_connect('db', 'app', '§', 'gateway');
client.get(url).basic_auth("app", Some("§"));
ldap_default_authtok = §
$ echo 'app:§&&' | sudo chpasswd
<password>§?</password>
{"db_password": {"value": "§", "type": "string", "sensitive": true}}
  6   - name: DB_PASSWORD\n  7     value: "§"
public string Password { get; set; } = "§";
password: >-\n    §
<key>password</key>\n<string>§</string>
SET PASSWORD FOR 'app'@'%' = PASSWORD('§');
curl --digest -u app:'§' http://10.0.0.1/
printf '%s\\n' '§' | sudo -S -p '' id
$ terraform output -raw db_password\n§
$ kubectl get secret db -o jsonpath='{.data.password}' | base64 -d\n§
$ cat ~/.vault_pass.txt\n§
WIFI:T:WPA;S:home;P:§;;
{"element":"Password textbox","ref":"e7","text":"§","submit":true}
      MYSQL_ROOT_PASSWORD: §
- name: DB_PASSWORD\n  value: "§"
- name: DB_PASSWORD\n  value: §
{"name": "DB_PASSWORD", "value": "§"}
{"Key":"db_password","Value":"§"}
helm upgrade app ./chart --set db.password=§
kubectl create secret generic db --from-literal=password=§
dotnet user-secrets set "Db:Password" "§"
docker login -u app -p § registry.example.org
docker run -e MYSQL_PASSWORD=§ mysql
echo § | docker login -u app --password-stdin
PGPASSWORD=§ psql -h db
PGPASSWORD='§' pg_dump
mysql -u root -p§ app
mysqldump -uroot --password=§ app
sshpass -p § ssh root@host
sshpass -p '§' scp a b:
redis-cli -h cache -a § ping
mongosh -u app -p § mydb
psql "host=db user=app password=§ dbname=x"
psql "postgresql://app:§@db/app"
mongodb://app:§@h1:27017,h2:27017/db
amqp://app:§@mq:5672/
ftp://app:§@files.example.org/x
https://app:§@git.example.org/a/b.git
curl -u app:§ https://example.org
curl --user "app:§" https://example.org
curl -u 'app:§' https://example.org
wget --user=app --password=§ https://example.org
http -a app:§ example.org
ldapsearch -x -D cn=admin -w § -b dc=x
openssl rsa -in k.pem -passin pass:§
keytool -list -keystore k.jks -storepass §
zip -P § out.zip f
7z x a.7z -p§
unzip -P § a.zip
gpg --batch --passphrase § -d f.gpg
ansible-playbook x.yml -e "ansible_become_pass=§"
ansible_ssh_pass=§
smbclient //srv/share -U app%§
net use Z: \\\\srv\\share § /user:app
xfreerdp /u:app /p:§ /v:host
ipmitool -H bmc -U admin -P § chassis status
sqlcmd -S db -U sa -P § -Q "select 1"
snmpwalk -v3 -u app -A § -l authPriv host
CREATE USER app WITH PASSWORD '§';
ALTER ROLE app WITH ENCRYPTED PASSWORD '§';
CREATE USER 'app'@'%' IDENTIFIED BY '§';
ALTER USER 'root'@'localhost' IDENTIFIED WITH mysql_native_password BY '§';
SET PASSWORD FOR 'app'@'%' = PASSWORD('§');
CREATE LOGIN app WITH PASSWORD = '§';
GRANT ALL ON *.* TO 'app'@'%' IDENTIFIED BY "§";
requirepass §
masterauth §
AUTH §
AUTH default §
machine api.example.org login app password §
machine api.example.org\n  login app\n  password §
db.example.org:5432:app:app:§
//srv/share /mnt cifs username=app,password=§,uid=1000 0 0
network={\n ssid="home"\n psk="§"\n}
wpa_passphrase=§
nmcli dev wifi connect home password §
nmcli d wifi connect "home" password "§"
app * "§" *
%any %any : PSK "§"
the password is §
The password is §.
the password is `§`
password is "§"
my password: §
Password: §
pw: §
pass: §
USER: admin  PASS: §
username=app\nPASS: §
ftp pass: §
passwd: §
PIN/password = §
login: admin / password: §
username: admin\npassword: §
user admin, password §
use password § to log in
log in with admin / §
creds are admin:§
credentials: admin / §
admin password is now §
I changed the root password to §
set the password to § please
the db password for staging is §
passphrase is §
Your temporary password is: §
Das Passwort ist §
le mot de passe est §
la contraseña es §
| password | § |
| DB_PASSWORD | `§` |
Server=db;Database=x;User Id=sa;Password=§;Encrypt=True
Server=db;Uid=sa;Pwd=§;
jdbc:mysql://db/x?user=app&password=§&useSSL=false
jdbc:oracle:thin:app/§@db:1521/x
sqlplus app/§@db
new MailClient("smtp.example.org", "app", "§")
server.login("app@example.org", "§")
smtp.login('app', '§')
requests.get(url, auth=("app", "§"))
requests.get(url, auth=HTTPBasicAuth('app', '§'))
paramiko.connect(host, username="app", password="§")
User.objects.create_user("app", password="§")
user.set_password("§")
password := "§"
const password = "§";
let dbPassword: string = "§"
var password string = "§"
String password = "§";
private static final String DB_PASSWORD = "§";
password => "§",
:password => "§",
password: '§',
setPassword("§")
.password("§")
.withPassword("§")
cy.get('#password').type('§')
page.fill('input[name="password"]', '§')
page.getByLabel("Password").fill("§")
driver.find_element(By.NAME, "password").send_keys("§")
expect "assword:"\nsend "§\\r"
echo '§' | sudo -S apt update
echo "root:§" | chpasswd
sudo -S ls <<< '§'
htpasswd -b .htpasswd app §
ConvertTo-SecureString "§" -AsPlainText -Force
$env:DB_PASSWORD = "§"
$env:DB_PASSWORD='§'
set DB_PASSWORD=§
setx DB_PASSWORD §
set -x DB_PASSWORD §
ENV DB_PASSWORD §
ENV DB_PASSWORD=§
ARG DB_PASSWORD=§
export PASSWORD='§'
gh secret set DB_PASSWORD --body "§"
gh secret set DB_PASSWORD -b §
heroku config:set DB_PASSWORD=§
vault kv put secret/app password=§
aws ssm put-parameter --name /app/db_password --value § --type SecureString
aws secretsmanager create-secret --name db --secret-string '{"password":"§"}'
az login --service-principal -u x -p § --tenant t
fly secrets set DB_PASSWORD=§
pulumi config set --secret dbPassword §
npm config set //registry.example.org/:_password §
git config --global user.password "§"
os.environ["DB_PASSWORD"] = "§"
os.environ['DB_PASSWORD']='§'
os.environ.setdefault("DB_PASSWORD", "§")
os.getenv("DB_PASSWORD", "§")
process.env.DB_PASSWORD || '§'
process.env.DB_PASSWORD ?? "§"
ENV['DB_PASSWORD'] = '§'
password=§&grant_type=password&username=app
grant_type=password&username=app&password=§
curl -d 'username=app&password=§' https://example.org/login
curl -d '{"user":"app","password":"§"}' https://example.org/login
--password §
--password=§
--password '§'
["--user","app","--password","§"]
app login --user app --pass §
PASS §
USER app\r\nPASS §
a1 LOGIN app §
Enter password: §
New password: §
[sudo] password for app: §
sftp> password §
secret: §
API_SECRET=§
db_pwd: §
dbPwd="§"
SA_PASSWORD=§
MINIO_ROOT_PASSWORD=§
KEYCLOAK_ADMIN_PASSWORD=§
GF_SECURITY_ADMIN_PASSWORD=§
RABBITMQ_DEFAULT_PASS=§
ELASTIC_PASSWORD=§
SMTP_PASS=§
EMAIL_HOST_PASSWORD = '§'
SQLALCHEMY_DATABASE_URI = 'postgresql://app:§@db/x'
REDIS_URL=redis://:§@cache:6379/0
https_proxy=http://app:§@proxy:3128
bind_pw: §
bindpw §
ldap.bindCredential=§
rootpw §
password-hash ignored; password: §
enable secret §
username admin password 0 §
snmp-server community § RO
rocommunity §
truststore.password=§
ssl.key.password=§
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="§";
"dbPassword" : "§"
"DB_PASS":"§"
DB_PASS=§
dbpass=§
"pwd": "§"
<add key="DbPassword" value="§" />
<Password>§</Password>
<wsse:Password Type="x">§</wsse:Password>
wifi password is §
guest wifi: home / §
vnc password §
unlock code is §
access code: §
the root password was changed to §
the db password has been set to §
connect with ssh app@host (pw §)
pass phrase: §
<pre>use password §</pre>
<td>Password</td><td>the password is §</td>
variable "db_password" {\n  default = "§"\n}
+variable "db_password" {\n+  type = string\n+  default = "§"\n+}
"+  - name: DB_PASSWORD", "+    value: §"
#define WIFI_PASSWORD "§"
keyPassword "§"
CREATE LOGIN app WITH PASSWORD = N'§'
Passwort für den Server: §
Kennwort: §
Zugangsdaten: admin / §
Mot de passe : §
mot de passe admin : §
Contraseña: §
la clave es §
Senha: §
a senha é §
la password è §
Wachtwoord: §
het wachtwoord is §
hasło: §
lösenordet är §
пароль: §
Пароль от сервера — §
パスワードは§です
密码是§
비밀번호는 §입니다
mật khẩu: §
user app on >§ ~* +@all
  wpa-psk §
radius-server key §
rabbitmqctl add_user app §
net user app § /add
wpa_passphrase home §
mc alias set s3 http://h:9000 app §
openssl passwd -6 §
openssl enc -aes-256-cbc -k § -in a
security unlock-keychain -p § login.keychain
hydra -l app -p § ssh://host
kinit app <<< '§'
ConvertTo-SecureString -AsPlainText "§" -Force
"password": ["§"]
let pw: &str = "§";
const DB_PASSWORD: &'static str = "§";
builder.user("app").password("§")
pwd for the vm = §
changed the password from x to §
rootpw --plaintext §
set system login user bob authentication plain-text-password-value §
EXEC sp_addlogin 'bob', '§';
rclone config create x sftp pass §
rclone obscure §
echo -e "§\n§" | passwd bob
cy.get('#pw').type('§')
chpasswd: {list: "root:§"}
RABBITMQ_ERLANG_COOKIE=§
erl -sname a -setcookie §
    ProxyPassword    REG_SZ    §
    client_secret    REG_EXPAND_SZ    §
    DB_Token    REG_MULTI_SZ    §
openssl pkcs12 -in a.p12 -passout pass:§
openssl enc -aes-256-cbc -pass 'pass:§'
run(["openssl", "rsa", "-passin", "pass:§"])
define( 'DB_PASSWORD', '§' );
define("SMTP_PASS", "§");
setenv("DB_PASSWORD", "§", 1)
""".strip().splitlines()

KEY_PLACES = r"""
export API_KEY=§
API_KEY="§"
api_key: §
apiKey: "§",
"apiKey": "§"
X-API-Key: §
x-api-key: §
-H "X-Api-Key: §"
Authorization: §
Authorization: Token §
Authorization: Bearer §
Authorization: ApiKey §
authorization: "Bearer §"
headers = {"Authorization": "Bearer §"}
headers: { Authorization: `Bearer §` }
'Authorization' => 'Bearer §'
.header("Authorization", "Bearer §")
req.Header.Set("Authorization", "Bearer §")
req.Header.Add("X-Auth-Token", "§")
setRequestHeader("X-Api-Key", "§")
https://api.example.org/v1?api_key=§
https://api.example.org/v1?key=§&x=1
https://api.example.org/v1?x=1&access_token=§
https://api.example.org/v1?token=§
wss://x.example.org/socket?auth=§
client = Client(api_key="§")
client = Client(token='§')
new Client({ apiKey: "§" })
openai.api_key = "§"
--api-key §
--api-key=§
--token §
-token=§
ACCESS_TOKEN=§
access_token = "§"
"access_token":"§"
"refresh_token": "§"
"accessToken":"§"
"sessionToken":"§"
"client_secret": "§"
CLIENT_SECRET=§
clientSecret: '§'
SECRET_KEY=§
secret_key_base: §
JWT_SECRET=§
SESSION_SECRET="§"
ENCRYPTION_KEY=§
SIGNING_KEY=§
STRIPE_KEY=§
MAILGUN_KEY=§
SOME_APP_KEY=§
FOO_ADMIN_KEY=§
BAR_LICENSE_KEY="§"
BAZ_PAT=§
AUTH_TOKEN=§
GH_PAT: §
**API Key:** `§`
Authorization: SSWS §
127.0.0.1:6379> AUTH §
REDISCLI_AUTH=§
COOKIE_SECRET=§
webhook_secret: §
<apiKey>§</apiKey>
<add key="ApiKey" value="§"/>
api_token = "§"
auth_token: §
bot_token='§'
private_token=§
PRIVATE-TOKEN: §
X-Vault-Token: §
X-Auth-Token: §
Ocp-Apim-Subscription-Key: §
x-functions-key: §
Cookie: session=§
Set-Cookie: sid=§; Path=/; HttpOnly
Cookie: a=b; JSESSIONID=§; c=d
curl -b "session=§" https://x
set API_TOKEN §
ENV API_TOKEN §
npm config set //npm.example.com/:_authToken §
//npm.example.com/:_authToken=§
pypi-token.pypi = "§"
poetry config pypi-token.pypi §
vault login §
wandb login §
ngrok config add-authtoken §
flyctl auth token §
cargo login §
gh auth login --with-token <<< §
snow sql --token §
credentials "app.terraform.io" {\n  token = "§"\n}
[default]\naws_secret_access_key = §
aws configure set aws_secret_access_key §
AccountKey=§;EndpointSuffix=core.windows.net
SharedAccessKey=§
sig=§
token: §
token=§
"token":"§"
'token': '§',
token := "§"
const token = "§"
let token: String = "§"
api key is §
the api key is §
my token is `§`
here is the token: §
here's my key: §
use this token: §
key: "§"
{"key":"api_token","value":"§"}
- name: API_TOKEN\n  value: §
oauth2:§@gitlab.example.org
https://§@github.com/acme/app.git
https://x-token-auth:§@bitbucket.org/a/b
https://oauth2:§@gitlab.com/a/b.git
| API_KEY | § |
API key: §
Token: §
Secret: §
secret access key: §
Secret Access Key = §
"SecretAccessKey": "§"
"aws_session_token": "§"
SENTRY_AUTH_TOKEN=§
apikey=§
Bearer §
bearer: §
x-amz-security-token: §
_authToken: §
registry_token="§"
machine_token: §
sessionKey=§
csrf_secret: §
hmac_key: "§"
shared_secret = '§'
consumer_secret="§"
oauth_token_secret="§"
variable "acme_api_key" {\n  default = "§"\n}
{:acme-api-key "§"}
api_key "§";
<p>your token is §</p>
""".strip().splitlines()


def _survives(secret: str, text: str) -> bool:
    piece = max(6, min(24, -(-len(secret) // 2)))
    return any(secret[i : i + piece] in text for i in range(len(secret) - piece + 1))


def _leaks(place: str, secret: str) -> list[str]:
    """The forms of the text, plain and nested, in which a long piece of the secret is left."""
    text = place.replace("\\n", "\n").replace("\\r", "\r").replace("\\\\", "\\").replace("§", secret)
    nested = json.dumps({"o": json.dumps({"p": text})})
    forms = {"plain": text, "json": json.dumps({"p": f"x\n{text}\ny"}), "nested": nested}
    redacted = {name: REDACTOR.text(form).text for name, form in forms.items()}
    json.loads(json.loads(redacted["nested"])["o"])
    return [name for name, form in redacted.items() if _survives(secret, form)]


@pytest.mark.parametrize("place", PASSWORD_PLACES)
def test_password_is_found(place: str) -> None:
    assert [(seed, leaks) for seed in range(4) if (leaks := _leaks(place, password(seed)))] == []


@pytest.mark.parametrize("place", KEY_PLACES)
def test_key_without_a_shape_is_found(place: str) -> None:
    secrets = [made_up(key, 5) for key in KEYS]
    assert [(secret, leaks) for secret in secrets if (leaks := _leaks(place, secret))] == []


SIGNS = (
    "Xk$9mPq2!",
    "P@$$w0rd!77",
    "a*7Kd&mq29",
    "$Tr0ng*Pass4",
    "k|8dJ2;mz9",
    "&7hGf2kLm",
    "ab,cd12;x9",
    "Zq(8)dk2m!x",
)


@pytest.mark.parametrize("secret", SIGNS)
def test_password_may_hold_any_sign_in_quotes_and_in_env_files(secret: str) -> None:
    for text in (f'"password": "{secret}"', f"password='{secret}'", f"A=1\nDB_PASSWORD={secret}\nB=2"):
        for form in (
            text,
            json.dumps({"o": json.dumps({"p": text})}),
            text.replace("&", "\\u0026").replace("<", "\\u003c"),
        ):
            assert secret[2:8] not in REDACTOR.text(form).text


def test_password_in_quotes_may_have_a_dot_in_it_and_what_names_something_stays() -> None:
    for place in ('"password": "§"', "$dbpass = '§'", 'fetch(u, {body: JSON.stringify({password: "§"})})'):
        assert "CYxo.y" not in REDACTOR.text(place.replace("§", "bDCYxo.yOBlEr")).text
        for name in ("settings.password", "auth.signInForm", "process.env", "myConfig.dbPassword"):
            assert REDACTOR.text(place.replace("§", name)).hits == 0


def test_password_reaches_to_the_end_of_its_line_in_yaml() -> None:
    for secret in ("Yl7RefIut;LUYJ7", "L9Yxe9FZ,wU4Vf", "kd92Lq|mz9&Xk3"):
        text = f"database:\n  user: app\n  password: {secret}\n  port: 5432\n"
        assert secret[-5:] not in REDACTOR.text(text).text
    assert REDACTOR.text("password: Yl7RefIut, token: none").text.endswith(", token: none")
