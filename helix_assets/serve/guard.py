"""The guard in front of Dagster's webserver: which requests it lets through, for HTTP and WebSocket alike.

A pure ASGI middleware that knows nothing of Dagster. A page in another tab can make the browser send requests to our
port, so each request must prove by its headers that our own page (or a program on this machine) sent it. The guard does
not terminate TLS, distinguish users of this machine, or read GraphQL.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from helix_assets.serve.loopback import is_ip, is_loopback

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
LOGIN_PATH = "/helix/login"

# Added to Dagster's own policy (script nonce, styles): no beacon by a remote image, no upload to a foreign host, no
# frame around the UI.
EXTRA_CSP = (
    "img-src 'self' data:; connect-src 'self'; font-src 'self' data:; media-src 'self'; frame-src 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
BODY_BYTES = 4 << 20
BODIES_BYTES = 8 * BODY_BYTES
"""How many bytes all unfinished bodies may take together: slow senders must not fill the memory."""
_LOGIN_BODY_LIMIT = 4096
_JSON = "application/json"
_PORT_DIGITS = 5
_HEADERS = 100

_LOGIN_PAGE = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>helix_assets: sign in</title>
<body style="font-family: sans-serif; max-width: 32em; margin: 4em auto">
<h1>helix_assets</h1>
<p>This page is open to other machines, so it asks for the token that is kept in <code>ui.token</code>
in the data folder of the machine that runs it.</p>
<form method="post" action="{LOGIN_PATH}">
<label>Token <input type="password" name="token" autocomplete="off" autofocus></label> <button>Sign in</button>
</form></body></html>
"""


@dataclass(frozen=True)
class GuardPolicy:
    """What the guard lets in.

    `host` is the bind address; `token` is required from every request once it is set.
    """

    port: int
    host: str = "127.0.0.1"
    read_only: bool = False
    token: str | None = None

    @property
    def cookie_name(self) -> str:
        """Name of the login cookie. Cookies ignore ports, so the name contains ours."""
        return f"helix_ui_{self.port}"

    def admits_host(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name, port = _split_host(host)
        if port != self.port:
            return False
        if is_loopback(self.host):
            return name in LOOPBACK_NAMES | {self.host}
        if self.host in {"0.0.0.0", "::"}:
            # DNS rebinding needs a name, so any literal address is safe; we do not know which one is ours.
            return name == "localhost" or is_ip(name)
        return name in {self.host.lower(), f"[{self.host.lower()}]"}

    def is_login(self, scope: Scope) -> bool:
        """Whether a request submits the login form, the only request that needs no token."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        return self.token is not None and is_post and scope["path"] == LOGIN_PATH

    def admits_token(self, offered: str | None) -> bool:
        """Compare an offered token with ours in constant time."""
        if self.token is None:
            return True
        return offered is not None and hmac.compare_digest(offered.encode(), self.token.encode())


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused: an HTTP status and one sentence of our own, with no text of the request."""

    status: int
    reason: str


class Guard:
    """ASGI middleware that answers refused requests itself and passes on the others with stricter headers."""

    def __init__(self, app: ASGIApp, policy: GuardPolicy) -> None:
        self._app = app
        self._policy = policy
        self._bodies = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = refuse(scope, self._policy)
        if scope["type"] == "websocket":
            await self._websocket(refusal, scope, receive, send)
        else:
            await self._http(refusal, scope, receive, send)

    async def _http(self, refusal: Refusal | None, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response | None = None
        if refusal:
            response = _refusal_response(refusal, scope)
        elif self._policy.is_login(scope):
            response = await self._log_in(receive)
        elif scope["method"] == "POST" and _content_type(_headers(scope)) == _JSON:
            response, receive = await self._with_body(scope, receive)
        await (response or self._app)(scope, receive, _with_safe_headers(send))

    async def _with_body(self, scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
        """Read the body. Returns a refusal unless it is a JSON object, and a `receive` that returns the body again."""
        length = int(_headers(scope).get("content-length", "0"))
        if self._bodies + length > BODIES_BYTES:
            return PlainTextResponse("Too many requests are being sent: try again.", 429), receive
        self._bodies += length
        try:
            body = await _read_body(receive, BODY_BYTES)
        finally:
            self._bodies -= length
        refused = None if _is_object(body) else PlainTextResponse("The body has to be one JSON object.", 400)
        return refused, _once(body, receive)

    async def _websocket(self, refusal: Refusal | None, scope: Scope, receive: Receive, send: Send) -> None:
        if refusal is None:
            await self._app(scope, receive, send)
            return
        await receive()  # websocket.connect; a refusal before it is a protocol error
        if "websocket.http.response" in scope.get("extensions", {}):
            await PlainTextResponse(refusal.reason, refusal.status)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.reason})

    async def _log_in(self, receive: Receive) -> Response:
        form = parse_qs((await _read_body(receive, _LOGIN_BODY_LIMIT)).decode("utf-8", "replace"))
        token = form.get("token", [""])[0].strip()
        if not self._policy.admits_token(token):
            return _login_page()
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(self._policy.cookie_name, token, httponly=True, samesite="strict")
        return response


def refuse(scope: Scope, policy: GuardPolicy) -> Refusal | None:
    """Decide whether a request is refused; None lets it pass. Pure: the scope's headers and path decide."""
    headers = _headers(scope)
    return (
        _refuse_size(scope, headers)
        or _refuse_path(scope["path"])
        or _refuse_origin(headers, policy)
        or _refuse_token(scope, headers, policy)
        or (_refuse_method(scope, headers, policy) if scope["type"] == "http" else None)
    )


def _refuse_size(scope: Scope, headers: Mapping[str, str]) -> Refusal | None:
    if len(scope["headers"]) > _HEADERS:
        return Refusal(431, "There are too many headers.")
    if "transfer-encoding" in headers:
        return Refusal(411, "A Content-Length header has to give the length of the body.")
    length = headers.get("content-length", "0")
    if not length.isdigit() or len(length) > len(str(BODY_BYTES)) or int(length) > BODY_BYTES:
        return Refusal(413, f"A body may have at most {BODY_BYTES} bytes.")
    return None


def _refuse_path(path: str) -> Refusal | None:
    """Refuse paths that Dagster answers with a traceback, because they lead out of the folder it serves."""
    first, *parts = path.strip("/").split("/")
    if ".." in (first, *parts) or not path.isprintable():
        return Refusal(400, "This server does not have such a path.")
    if first == "logs" and len(parts) < 2:
        return Refusal(404, "A log has the path /logs/<run>/<step>/<out or err>.")
    return None


def _refuse_origin(headers: Mapping[str, str], policy: GuardPolicy) -> Refusal | None:
    host = headers.get("host", "").lower()
    if not policy.admits_host(host):
        return Refusal(421, "The Host header does not name this server.")
    if headers.get("origin", f"http://{host}").lower() != f"http://{host}":
        return Refusal(403, "The request comes from a page of another origin.")
    if headers.get("sec-fetch-site", "none").lower() not in {"none", "same-origin"}:
        return Refusal(403, "The request comes from another site. Type the address instead of following a link.")
    return None


def _refuse_token(scope: Scope, headers: Mapping[str, str], policy: GuardPolicy) -> Refusal | None:
    if policy.token is None or policy.is_login(scope):
        return None
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    offered = bearer.strip() if scheme.lower() == "bearer" else _cookie(headers, policy.cookie_name)
    return None if policy.admits_token(offered) else Refusal(401, "A token is needed: see ui.token in the data folder.")


def _refuse_method(scope: Scope, headers: Mapping[str, str], policy: GuardPolicy) -> Refusal | None:
    path = scope["path"].rstrip("/")
    if scope["method"] in {"GET", "HEAD"}:
        # The UI posts its queries and only gets the GraphiQL page. Dagster would run a mutation from the URL.
        if path.endswith("/graphql") and (scope["query_string"] or "text/html" not in headers.get("accept", "")):
            return Refusal(405, "GraphQL is answered by POST only.")
        return None
    if scope["method"] != "POST":
        return Refusal(405, "Only GET, HEAD and POST are answered.")
    if policy.is_login(scope):
        return None if "origin" in headers else Refusal(403, "The login form was not sent by our own page.")
    if not _has_same_origin_evidence(headers):
        return Refusal(415, "A POST needs 'Content-Type: application/json' or an X- header.")
    if policy.read_only and not path.endswith("/graphql"):
        return Refusal(403, "This server is read-only.")
    return None


def _has_same_origin_evidence(headers: Mapping[str, str]) -> bool:
    """Both make a browser ask for permission first (CORS preflight), which is never given. The whole type is compared:
    'text/plain; application/json' needs no preflight, but Dagster would read it as JSON."""
    return _content_type(headers) == _JSON or any(name.startswith("x-") for name in headers)


def _content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").split(";")[0].strip().lower()


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name. A repeated one is joined, as HTTP says, and so fits no rule below."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _split_host(host: str) -> tuple[str, int]:
    name, colon, port = host.lower().rpartition(":")
    if not colon or port.endswith("]"):
        return host.lower(), 80
    is_port = port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS
    return name, int(port) if is_port else -1


def _cookie(headers: Mapping[str, str], name: str) -> str | None:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return morsel.value if morsel else None


async def _read_body(receive: Receive, limit: int) -> bytes:
    """The body of a request; nothing if it is longer than the limit."""
    body = bytearray()
    while len(body) <= limit:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)
    return b""


def _once(body: bytes, rest: Receive) -> Receive:
    """A `receive` for a request whose body was read already: it returns the body, then what comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else await rest()

    return receive


def _is_object(body: bytes) -> bool:
    """Whether a body is a JSON object that Python can parse: not a list of queries, not nested too deep."""
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


def _refusal_response(refusal: Refusal, scope: Scope) -> Response:
    if refusal.status == 401 and scope["method"] == "GET":
        return _login_page()
    return PlainTextResponse(refusal.reason, refusal.status)


def _login_page() -> Response:
    # Under no-referrer a browser sends 'Origin: null' with the form, which the guard refuses.
    headers = {"Referrer-Policy": "same-origin", "WWW-Authenticate": "Bearer", "Cache-Control": "no-store"}
    return HTMLResponse(_LOGIN_PAGE, 401, headers=headers)


def _with_safe_headers(send: Send) -> Send:
    async def send_safely(message: Message) -> None:
        if message["type"] == "http.response.start":
            _add_safe_headers(message)
        await send(message)

    return send_safely


def _add_safe_headers(message: MutableMapping[str, Any]) -> None:
    headers = MutableHeaders(scope=message)
    policy = headers.get("content-security-policy", "").rstrip("; ")
    headers["Content-Security-Policy"] = f"{policy}; {EXTRA_CSP}" if policy else EXTRA_CSP
    headers["X-Frame-Options"] = "DENY"
    headers["X-Content-Type-Options"] = "nosniff"
    if headers.get("referrer-policy") != "same-origin":
        headers["Referrer-Policy"] = "no-referrer"
    headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
