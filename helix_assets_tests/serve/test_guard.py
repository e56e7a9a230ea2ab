"""The guard without a server: each rule on the smallest app there is."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.serve.guard import BODIES_BYTES, BODY_BYTES, LOGIN_PATH, Guard, GuardPolicy, refuse

PORT = 3000
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"
JSON = {"content-type": "application/json"}
TOKEN = "t" * 43
READ_HEADERS = {
    "host",
    "origin",
    "sec-fetch-site",
    "authorization",
    "cookie",
    "content-type",
    "content-length",
    "accept",
}
LOCAL = GuardPolicy(port=PORT)
REMOTE = GuardPolicy(port=PORT, host="192.0.2.7", token=TOKEN)


async def answer_ok(scope: Any, receive: Any, send: Any) -> None:
    """An app that answers everything, as trusting as Dagster's, with a policy header of its own."""
    headers = [(b"content-security-policy", b"script-src 'nonce-abc'; "), (b"referrer-policy", b"origin")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


def ask(
    policy: GuardPolicy, method: str = "GET", path: str = "/", headers: Mapping[str, str] | None = None, **kwargs: Any
) -> httpx.Response:
    """One request through the guard; it comes from the address bar unless `headers` say otherwise."""
    host = f"{policy.host}:{PORT}" if policy.token else HOST

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(Guard(answer_ok, policy))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await client.request(method, path, headers={"host": host, **(headers or {})}, **kwargs)

    return asyncio.run(send())


def shake_hands(policy: GuardPolicy, headers: Mapping[str, str], **extra: Any) -> list[dict[str, Any]]:
    """What the guard sends in answer to a WebSocket handshake; the app behind it accepts."""
    sent: list[dict[str, Any]] = []

    async def accept(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "path": "/graphql", "query_string": b"", "headers": raw, **extra}
    asyncio.run(Guard(accept, policy)(scope, receive, send))
    return sent


@pytest.mark.parametrize("host", [HOST, f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_our_own_names_are_served(host: str) -> None:
    assert ask(LOCAL, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:3001",
        f"127.0.0.1.evil.example:{PORT}",
        f"localhost.:{PORT}",
        f"127.0.0.1:{PORT}@evil.example",
        f"10.0.0.1:{PORT}",
        "127.0.0.1:٣000",
        "127.0.0.1:" + "1" * 5000,
        "",
    ],
)
def test_a_foreign_host_is_misdirected(host: str) -> None:
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"host", host.encode())]}
    refusal = refuse(scope, LOCAL)
    assert refusal is not None
    assert refusal.status == 421


@given(st.dictionaries(st.sampled_from(sorted(READ_HEADERS)), st.binary(max_size=80)), st.sampled_from(["GET", "POST"]))
def test_no_header_makes_the_guard_stumble(headers: dict[str, bytes], method: str) -> None:
    raw = [(name.encode(), value) for name, value in headers.items()]
    for policy, host in ((LOCAL, HOST), (REMOTE, "192.0.2.7:3000")):
        for sent in (raw, [*raw, (b"host", host.encode())]):
            scope = {"type": "http", "method": method, "path": "/", "query_string": b"", "headers": sent}
            refusal = refuse(scope, policy)
            assert refusal is None or 400 <= refusal.status < 500


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"x-a", b"")] * 100, 431),
        ([(b"transfer-encoding", b"chunked")], 411),
        ([(b"content-length", str(BODY_BYTES + 1).encode())], 413),
        ([(b"content-length", b"9" * 5000)], 413),
    ],
)
def test_what_is_too_much_is_refused_before_it_is_read(headers: list[tuple[bytes, bytes]], status: int) -> None:
    sent = [(b"host", HOST.encode()), (b"content-type", b"application/json"), *headers]
    refusal = refuse({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": sent}, LOCAL)
    assert refusal is not None
    assert refusal.status == status


def test_bodies_that_are_sent_slowly_do_not_fill_the_memory() -> None:
    async def attack() -> list[int]:
        guard, never, statuses = Guard(answer_ok, LOCAL), asyncio.Event(), list[int]()
        sent = [
            (b"host", HOST.encode()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % BODY_BYTES),
        ]
        scope = {"type": "http", "method": "POST", "path": "/graphql", "query_string": b"", "headers": sent}

        async def wait() -> dict[str, Any]:
            await never.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        slow = [asyncio.create_task(guard(scope, wait, send)) for _ in range(100)]
        await asyncio.sleep(0.1)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return statuses

    assert asyncio.run(attack()) == [429] * (100 - BODIES_BYTES // BODY_BYTES)


@pytest.mark.parametrize(
    "body", ["", "[{}]", "[" * 100_000, "{" * 100_000, '"x"', "{", b"\xff", '{"a": ' + "1" * 5000 + "}"]
)
def test_only_one_json_object_is_handed_on(body: str | bytes) -> None:
    assert ask(LOCAL, "POST", "/graphql", JSON, content=body).status_code == 400


def test_the_app_receives_the_body_that_was_looked_at() -> None:
    seen = []

    async def keep(scope: Any, receive: Any, send: Any) -> None:
        seen.append(await receive())
        await answer_ok(scope, receive, send)

    async def once() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def nothing(_: Any) -> None:
        pass

    headers = [(b"host", HOST.encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/graphql", "query_string": b"", "headers": headers}
    asyncio.run(Guard(keep, LOCAL)(scope, once, nothing))
    assert [message["body"] for message in seen] == [b"{}"]


def test_a_request_without_host_is_misdirected() -> None:
    refusal = refuse({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}, LOCAL)
    assert refusal is not None
    assert refusal.status == 421


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "status"),
    [
        ("host", HOST, "evil.example", 421),
        ("origin", ORIGIN, "http://evil.example", 403),
        ("sec-fetch-site", "same-origin", "cross-site", 403),
        ("content-type", "application/json", "text/plain", 415),
    ],
)
def test_the_same_header_twice_is_refused(name: str, ours: str, theirs: str, status: int) -> None:
    headers = {"host": HOST, "origin": ORIGIN, **JSON}
    raw = [(key.encode(), value.encode()) for key, value in {**headers, name: ours}.items()]
    raw.append((name.title().encode(), theirs.encode()))
    refusal = refuse({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": raw}, LOCAL)
    assert refusal is not None
    assert refusal.status == status


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", f"https://{HOST}", f"http://localhost:{PORT}", "http://127.0.0.1:3001", ""],
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    assert ask(LOCAL, "POST", "/graphql", {"origin": origin, **JSON}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything-new"])
def test_a_request_from_another_site_is_refused(site: str) -> None:
    assert ask(LOCAL, headers={"sec-fetch-site": site}).status_code == 403


def test_the_page_itself_may_post_json() -> None:
    headers = {"origin": ORIGIN, "sec-fetch-site": "same-origin", **JSON}
    assert ask(LOCAL, "POST", "/graphql", headers, json={}).status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "text/plain; application/json", "multipart/form-data", ""])
@pytest.mark.parametrize("path", ["/graphql", "/report_asset_materialization/x"])
def test_a_post_that_needs_no_preflight_is_refused(path: str, content_type: str) -> None:
    assert ask(LOCAL, "POST", path, {"content-type": content_type}).status_code == 415


def test_a_custom_header_counts_as_evidence() -> None:
    assert ask(LOCAL, "POST", "/report_asset_check/x", {"x-helix": "1"}).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
def test_no_other_method_is_answered(method: str) -> None:
    assert ask(LOCAL, method, headers=JSON).status_code == 405


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "/%67raphql"])
def test_a_query_in_the_url_is_refused(path: str, accept: str) -> None:
    response = ask(LOCAL, path=path, headers={"accept": accept}, params={"query": "mutation{wipeAssets}"})
    assert response.status_code == 405


def test_the_graphiql_page_is_served() -> None:
    assert ask(LOCAL, path="/graphql", headers={"accept": "text/html,*/*"}).status_code == 200


def test_read_only_keeps_queries_and_refuses_reports() -> None:
    read_only = GuardPolicy(port=PORT, read_only=True)
    assert ask(read_only, "POST", "/graphql", JSON, json={}).status_code == 200
    assert ask(read_only, "POST", "/report_asset_materialization/x", JSON).status_code == 403


def test_safe_headers_are_added_and_the_script_policy_is_kept() -> None:
    headers = ask(LOCAL).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("script-src 'nonce-abc'; img-src 'self' data:; connect-src 'self'")
    assert "frame-ancestors 'none'" in policy
    found = {name: headers[name] for name in ("x-frame-options", "x-content-type-options", "referrer-policy")}
    assert found == {
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }


def test_a_refusal_carries_the_safe_headers_and_nothing_of_the_request() -> None:
    response = ask(LOCAL, path="/secret-path", headers={"host": "evil.example"})
    assert response.headers["x-frame-options"] == "DENY"
    assert "evil" not in response.text
    assert "secret" not in response.text


@pytest.mark.parametrize(
    "headers",
    [{"host": HOST, "origin": "http://evil.example"}, {"host": "evil.example", "origin": "http://evil.example"}],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_foreign_websocket_is_never_accepted(headers: dict[str, str], read_only: bool) -> None:
    sent = shake_hands(GuardPolicy(port=PORT, read_only=read_only), headers)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_a_refused_websocket_gets_a_plain_http_answer_where_the_server_can_give_one() -> None:
    headers = {"host": HOST, "origin": "http://evil.example"}
    sent = shake_hands(LOCAL, headers, extensions={"websocket.http.response": {}})
    assert [message["type"] for message in sent] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert sent[0]["status"] == 403


def test_our_own_websocket_is_accepted() -> None:
    assert shake_hands(LOCAL, {"host": HOST, "origin": ORIGIN}) == [{"type": "websocket.accept"}]


def test_a_remote_request_without_token_gets_the_login_page() -> None:
    response = ask(REMOTE)
    assert response.status_code == 401
    assert LOGIN_PATH in response.text


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", "ü"])
def test_a_wrong_token_is_refused(token: str) -> None:
    raw = [(b"host", b"192.0.2.7:3000"), (b"authorization", f"Bearer {token}".encode())]
    refusal = refuse({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": raw}, REMOTE)
    assert refusal is not None
    assert refusal.status == 401


def test_the_bearer_token_opens_everything() -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert ask(REMOTE, headers=headers).status_code == 200
    assert shake_hands(REMOTE, {"host": "192.0.2.7:3000", **headers}) == [{"type": "websocket.accept"}]


def test_a_token_in_the_url_opens_nothing() -> None:
    assert ask(REMOTE, params={"token": TOKEN}).status_code == 401


def test_the_login_form_sets_a_strict_cookie_that_opens_http_and_websocket() -> None:
    origin = {"origin": "http://192.0.2.7:3000"}
    response = ask(REMOTE, "POST", LOGIN_PATH, origin, data={"token": TOKEN})
    cookie = response.headers["set-cookie"]
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    jar = {"cookie": cookie.split(";")[0]}
    assert ask(REMOTE, headers=jar).status_code == 200
    assert shake_hands(REMOTE, {"host": "192.0.2.7:3000", **origin, **jar}) == [{"type": "websocket.accept"}]


@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
def test_the_login_form_of_another_page_is_refused(origin: str) -> None:
    assert ask(REMOTE, "POST", LOGIN_PATH, {"origin": origin}, data={"token": TOKEN}).status_code == 403


def test_a_wrong_login_sets_no_cookie() -> None:
    response = ask(REMOTE, "POST", LOGIN_PATH, {"origin": "http://192.0.2.7:3000"}, data={"token": "wrong"})
    assert response.status_code == 401
    assert "set-cookie" not in response.headers


def test_the_login_path_is_no_way_around_the_token() -> None:
    assert ask(REMOTE, "GET", LOGIN_PATH).status_code == 401
    assert ask(LOCAL, "POST", LOGIN_PATH, {"origin": ORIGIN}, data={"token": ""}).status_code == 415


@pytest.mark.parametrize(("host", "status"), [("192.0.2.1", 401), ("[2001:db8::1]", 401), ("evil.example", 421)])
def test_a_wildcard_bind_knows_addresses_but_no_foreign_name(host: str, status: int) -> None:
    wildcard = GuardPolicy(port=PORT, host="0.0.0.0", token=TOKEN)
    raw = [(b"host", f"{host}:{PORT}".encode())]
    refusal = refuse({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": raw}, wildcard)
    assert refusal is not None
    assert refusal.status == status
