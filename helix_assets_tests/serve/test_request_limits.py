"""What anybody may send to the port, against a real server: it is cut off, and costs no memory."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from helix_assets.serve.request_limits import HEAD_BYTES
from helix_assets_tests.serve.tree import environment, wait_until

pytestmark = pytest.mark.real

CONNECTIONS = 1_000
HURRY_S = 2.0
_SERVER = """
import socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from helix_assets.serve import request_limits as limits
from helix_assets.serve.guard import Guard, GuardPolicy

async def echo(websocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)

app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("ok")), WebSocketRoute("/ws", echo)])
limits.HurryingProtocol.seconds = float(sys.argv[2])
listener = socket.socket(fileno=int(sys.argv[1]))
policy = GuardPolicy(port=listener.getsockname()[1])
uvicorn.Server(limits.limited(Guard(app, policy))).run(sockets=[listener])
"""


class Server:
    """The guard before a tiny app, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=2 * CONNECTIONS) as listener:
            self.address = listener.getsockname()
            command = [sys.executable, "-c", _SERVER, str(listener.fileno()), str(HURRY_S)]
            self.output = folder / "output.txt"
            with self.output.open("wb") as output:
                self.process = subprocess.Popen(
                    command, env=environment(folder), pass_fds=[listener.fileno()], stdout=output, stderr=output
                )
        assert wait_until(self.answers), self.output.read_text()

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.address[1]}"

    def answers(self) -> bool:
        try:
            return httpx.get(f"http://{self.url}/", timeout=1).text == "ok"
        except httpx.HTTPError:
            return False

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])

    def connect(self) -> socket.socket:
        made = socket.create_connection(self.address, timeout=30)
        made.sendall(b"GET / HTTP/1.1\r\nHost: " + self.url.encode() + b"\r\nX-Endless: ")
        return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CONNECTIONS)), hard))
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.process.terminate()
    made.process.wait(30)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def answer(made: socket.socket) -> bytes:
    """All that comes back until the other side hangs up."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while more := made.recv(4096):
            data += more
    return data


def test_a_header_without_end_is_refused(server: Server) -> None:
    with server.connect() as made:
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                made.sendall(b"x" * 1024)
                time.sleep(0.001)
        assert answer(made).startswith(b"HTTP/1.1 400")


def test_a_header_that_fits_is_not(server: Server) -> None:
    assert httpx.get(f"http://{server.url}/", headers={"X-Long": "x" * (HEAD_BYTES - 1024)}).text == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_a_thousand_headers_without_end_cost_no_memory(server: Server) -> None:
    before = server.peak_bytes()
    with contextlib.ExitStack() as stack:
        all_of_them = [stack.enter_context(server.connect()) for _ in range(CONNECTIONS)]
        sent = 0
        for made in all_of_them:
            with contextlib.suppress(ConnectionError):
                for _ in range(16):
                    made.sendall(b"x" * 65_536)
                    sent += 65_536
        assert server.answers()
    assert sent > 100 << 20
    assert server.peak_bytes() - before < 64 << 20


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n\r\n1"])
def test_who_takes_too_long_is_hung_up_on(server: Server, start: bytes) -> None:
    begin = time.monotonic()
    with socket.create_connection(server.address, timeout=30) as made:
        made.sendall(start.replace(b"HOST", server.url.encode()))
        answer(made)
    assert HURRY_S - 0.5 < time.monotonic() - begin < HURRY_S + 5


def test_a_byte_now_and_then_is_no_excuse(server: Server) -> None:
    begin = time.monotonic()
    with server.connect() as made, contextlib.suppress(ConnectionError):
        while time.monotonic() - begin < 30:
            made.sendall(b"x")
            time.sleep(0.2)
    assert time.monotonic() - begin < HURRY_S + 5


def test_a_websocket_stays_open(server: Server) -> None:
    with connect(f"ws://{server.url}/ws") as made:
        time.sleep(HURRY_S + 1)
        made.send("still there")
        assert made.recv(10) == "still there"


def test_a_second_request_on_one_connection_has_its_own_time(server: Server) -> None:
    with httpx.Client() as client:
        for _ in range(4):
            assert client.get(f"http://{server.url}/").text == "ok"
            time.sleep(HURRY_S / 3)


def test_nothing_of_it_is_logged(server: Server) -> None:
    assert server.output.read_text() == ""
