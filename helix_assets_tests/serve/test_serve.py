"""The probes that an unguarded Dagster webserver answers, against ours: the real one, on a real tree."""

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from helix_assets_tests.serve.tree import LAUNCH, Tree, environment, launch_params, wait_until

pytestmark = pytest.mark.real

EVIL = "http://evil.example"
RUN_LOGS = """subscription($id: ID!){pipelineRunLogs(runId:$id){... on PipelineRunLogsSubscriptionSuccess{
  messages{... on MaterializationEvent{metadataEntries{... on TextMetadataEntry{text}}}}}}}"""
WIPE = "mutation{wipeAssets(assetPartitionRanges:[]){__typename}}"
_READ_ONLY = """
import socket, sys
from pathlib import Path
from dagster import DagsterInstance
from helix_assets.serve.dagster_private import workspace
from helix_assets.serve.guard import GuardPolicy
from helix_assets.serve.webserver import answer, build_app
listener = socket.socket(fileno=int(sys.argv[1]))
policy = GuardPolicy(listener.getsockname()[1], read_only=True)
context = workspace(DagsterInstance.get(), "helix_assets.nothing", "nothing", Path("."), read_only=True)
answer(listener, build_app(context, policy), ready=lambda: None)
"""
EVENTS = "{assetNodes{assetMaterializations{runId}}}"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    tree = Tree(tmp_path_factory.mktemp("tree"))
    tree.start()
    yield tree
    assert tree.process is not None
    tree.process.terminate()
    tree.process.wait(30)


@pytest.fixture(scope="module")
def run_id(tree: Tree) -> str:
    """A run that the page itself has launched and that has ended well."""
    run_id = tree.launch("toy")
    assert wait_until(lambda: tree.status(run_id) == "SUCCESS"), tree.output.read_text()
    return run_id


@pytest.fixture(scope="module")
def read_only(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a second webserver on the same history, started read-only and without definitions or daemons."""
    folder = tmp_path_factory.mktemp("read_only")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-c", _READ_ONLY, str(listener.fileno())]
        variables = {**environment(folder), "DAGSTER_HOME": str(tree.home)}
        process = subprocess.Popen(command, env=variables, pass_fds=[listener.fileno()])
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert wait_until(lambda: _answers(url))
    yield url
    process.terminate()
    process.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/server_info", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False


def subscribe(url: str, headers: Mapping[str, str]) -> ClientConnection:
    """Shake hands as the UI does; `headers` may claim another Host or Origin."""
    return connect(
        url.replace("http:", "ws:") + "/graphql",
        additional_headers=dict(headers),
        subprotocols=["graphql-ws"],  # type: ignore[list-item]
    )


def first_message(socket: ClientConnection, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    """The first answer to a query sent over the WebSocket."""
    socket.send(json.dumps({"type": "connection_init"}))
    payload = {"query": query, "variables": variables}
    socket.send(json.dumps({"type": "start", "id": "1", "payload": payload}))
    while True:
        message = json.loads(socket.recv(10))
        if message["type"] != "connection_ack":
            return dict(message)


def test_another_host_name_is_misdirected(tree: Tree) -> None:
    assert httpx.get(tree.url, headers={"Host": "evil.example"}).status_code == 421


def test_a_mutation_in_a_get_from_another_site_is_refused(tree: Tree) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Referer": EVIL}
    assert httpx.get(f"{tree.url}/graphql", params={"query": WIPE}, headers=headers).status_code == 403


def test_a_mutation_in_a_get_is_refused_from_anywhere(tree: Tree) -> None:
    assert httpx.get(f"{tree.url}/graphql", params={"query": WIPE}).status_code == 405


@pytest.mark.parametrize("origin", [{"Origin": EVIL}, {"Origin": "null"}, {}])
@pytest.mark.parametrize("content_type", ["text/plain", "text/plain; application/json"])
def test_a_post_without_preflight_is_refused(tree: Tree, origin: dict[str, str], content_type: str) -> None:
    headers = {"Content-Type": content_type, **origin}
    response = httpx.post(f"{tree.url}/graphql", params={"query": WIPE}, content="", headers=headers)
    assert response.status_code == (403 if origin else 415)


@pytest.mark.parametrize("origin", [{"Origin": EVIL}, {}])
def test_a_report_without_content_type_writes_no_event(tree: Tree, run_id: str, origin: dict[str, str]) -> None:
    before = tree.ask(EVENTS)
    response = httpx.post(f"{tree.url}/report_asset_materialization/toy", headers=origin)
    assert response.status_code in {403, 415}
    assert tree.ask(EVENTS) == before


@pytest.mark.parametrize("headers", [{"Origin": EVIL}, {"Origin": EVIL, "Host": "evil.example"}, {"Origin": "null"}])
@pytest.mark.parametrize("mode", ["default", "read-only"])
def test_a_foreign_websocket_streams_nothing(
    tree: Tree, read_only: str, run_id: str, mode: str, headers: dict[str, str]
) -> None:
    url = read_only if mode == "read-only" else tree.url
    with pytest.raises(InvalidStatus) as refused:
        subscribe(url, headers)
    assert refused.value.response.status_code in {400, 403, 421}  # 400: a second Host header is no HTTP


def test_nobody_may_frame_the_page(tree: Tree) -> None:
    headers = httpx.get(tree.url).headers
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_the_page_keeps_dagsters_script_policy(tree: Tree) -> None:
    response = httpx.get(tree.url)
    nonce = response.headers["content-security-policy"].partition("'nonce-")[2].partition("'")[0]
    assert f'nonce="{nonce}"' in response.text
    assert "'strict-dynamic'" in response.headers["content-security-policy"]


def test_the_page_itself_may_materialize(tree: Tree, run_id: str) -> None:
    assert tree.status(run_id) == "SUCCESS"


@pytest.mark.parametrize("mode", ["default", "read-only"])
def test_the_page_itself_sees_the_run_log(tree: Tree, read_only: str, run_id: str, mode: str) -> None:
    url = read_only if mode == "read-only" else tree.url
    with subscribe(url, {"Origin": url}) as socket:
        message = first_message(socket, RUN_LOGS, {"id": run_id})
    assert "toy-metadata-text" in json.dumps(message)


@pytest.mark.parametrize(
    ("query", "variables"),
    [(LAUNCH, {"params": launch_params("toy")}), (WIPE, {}), ("mutation{setNuxSeen}", {})],
)
def test_read_only_refuses_every_mutation(read_only: str, query: str, variables: dict[str, Any]) -> None:
    body = {"query": query, "variables": variables}
    response = httpx.post(f"{read_only}/graphql", json=body, headers={"Origin": read_only})
    assert response.status_code == 400
    assert "read-only" in response.text


def test_a_mutation_over_the_websocket_is_not_executed(tree: Tree, run_id: str) -> None:
    before = tree.ask("{runsOrError{... on Runs{count}}}")
    with subscribe(tree.url, {"Origin": tree.url}) as socket:
        message = first_message(socket, LAUNCH, {"params": launch_params("toy")})
    assert message["type"] == "error"
    assert tree.ask("{runsOrError{... on Runs{count}}}") == before


_DEEP = 20_000


@pytest.fixture
def quiet(tree: Tree) -> Iterator[None]:
    """Nothing is said about what the test sends."""
    before = tree.output.read_text()
    yield
    assert tree.output.read_text() == before


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("path", ["..%2f..%2fetc/passwd", "a/..%2f..%2fb", "a%00b/err", "err", ""])
def test_no_file_outside_the_logs_is_served(tree: Tree, path: str) -> None:
    assert 400 <= httpx.get(f"{tree.url}/logs/{path}").status_code < 500


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("path", ["/graphql", "/report_asset_materialization/toy"])
@pytest.mark.parametrize("body", ['[{"query": "{version}"}]', "[" * _DEEP, '{"query":' * _DEEP])
def test_json_that_is_not_one_plain_object_is_the_askers_fault(tree: Tree, path: str, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    assert 400 <= httpx.post(f"{tree.url}{path}", content=body, headers=headers).status_code < 500


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("query", ["{a" * _DEEP, 5, None, ["{version}"]])
def test_a_query_that_makes_no_sense_is_the_askers_fault(tree: Tree, query: Any) -> None:
    assert httpx.post(f"{tree.url}/graphql", json={"query": query}).status_code == 400


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("message", ["[" * _DEEP, "[]", "{", '{"type": "start", "id": "1"}'])
def test_a_message_that_makes_no_sense_ends_the_websocket(tree: Tree, message: str) -> None:
    with subscribe(tree.url, {"Origin": tree.url}) as socket:
        socket.send(message)
        with pytest.raises(ConnectionClosed):
            socket.recv(10)


def test_nothing_under_dagster_home_is_open_to_others(tree: Tree, run_id: str) -> None:
    paths = [Path(folder) / name for folder, _, names in os.walk(tree.home) for name in ["", *names]]
    open_to_others = [path for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    assert len(paths) > 5
    assert open_to_others == []


def test_nothing_is_written_into_the_home_folder(tree: Tree, run_id: str) -> None:
    assert not Path(tree.environment["HOME"]).exists()
