"""The supervisor behind `helix up`: a code server, a daemon and the guarded webserver, started and stopped as one.

Webserver and daemon share the code server, as under `dagster dev`. Not here: how one process is started and ended
(`serve.lifeline`). What runs before serving (the first sweep) is passed in.
"""

import fcntl
import http.client
import json
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from helix_assets.model.errors import BusyError, StopRun, StoreError
from helix_assets.serve.dagster_home import dagster_environment, prepare_dagster_home
from helix_assets.serve.guard import is_loopback
from helix_assets.serve.lifeline import Child, Say
from helix_assets.serve.token import ui_token
from helix_assets.settings.folders import checkout
from helix_assets.store.catalog.catalog import CATALOG
from helix_assets.store.key import KEY

LOCATION_NAME = "helix_assets"
MODULE_NAME = "helix_assets.definitions"
_CHECK_SECONDS = 0.5
_STOP_SECONDS = 15
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class ServeOptions:
    """How the UI is served; `module` holds the Dagster definitions."""

    port: int = 3000
    host: str = "127.0.0.1"
    allow_remote: bool = False
    read_only: bool = False
    module: str = MODULE_NAME

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"


def serve(
    data_dir: Path,
    options: ServeOptions,
    say: Say,
    prepare: Callable[[], None] = lambda: None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the Dagster tree on this data folder until Ctrl-C or SIGTERM.

    `say` shows a line to the person. `prepare` is called once nothing prevents serving, `ready` once the UI answers.
    Raises StopRun if the tree may not or cannot start, BusyError if one runs already, and StoreError if the data folder
    is deleted meanwhile.
    """
    os.umask(0o077)
    refuse_open_doors(options)
    home = prepare_dagster_home(data_dir)
    with ExitStack() as stack:
        lock = stack.enter_context(_only_one(home, options))
        listener = stack.enter_context(_bind(options))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="helix-")))
        token = None if is_loopback(options.host) else ui_token(data_dir)
        _close_stale_runs(home, say)
        prepare()
        stop = stack.enter_context(_stop_at_signal())
        ground = Ground(data_dir.absolute(), lock)
        children = _children(options, home, folder, listener.fileno(), bool(token))
        for child in children:
            child.is_heard = lambda: ground.lost() is None
        stack.callback(_stop, children, ground, home, say)
        while not _is_ready(options, token):
            if _keep_up(children, ground, stop, say):
                return
        say(_welcome(options))
        ready()
        while not _keep_up(children, ground, stop, say):
            pass


def refuse_open_doors(options: ServeOptions) -> None:
    """Refuse an address that other machines can reach, unless --allow-remote is given."""
    if not is_loopback(options.host) and not options.allow_remote:
        raise StopRun(
            f"--host {options.host} would open the memory to other machines. Add --allow-remote if that is meant "
            "(a token is then asked for); an SSH tunnel to 127.0.0.1 needs neither."
        )


def _children(options: ServeOptions, home: Path, folder: Path, listener: int, with_token: bool) -> list[Child]:
    environment = {**os.environ, **dagster_environment(home)}
    source_tree = checkout()
    if source_tree:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source_tree), environment.get("PYTHONPATH")]))
    code_socket, workspace = folder / "code.sock", folder / "workspace.yaml"
    server = {"socket": str(code_socket), "location_name": LOCATION_NAME}
    workspace.write_text(json.dumps({"load_from": [{"grpc_server": server}]}), encoding="utf-8")
    code = ["code-server", "start", "--socket", str(code_socket), "--module-name", options.module]
    # Dagster drops the first folder of sys.path as the script's own, so the source tree has to be given.
    code += ["--working-directory", str(source_tree or home), "--location-name", LOCATION_NAME]
    code += ["--log-level", "warning", "--use-python-environment-entry-point"]
    daemon = ["run", "--workspace", str(workspace), "--log-level", "error"]
    web = ["--fd", str(listener), "--host", options.host, "--workspace", str(workspace)]
    web += ["--token-in", str(home.parent)] if with_token else []
    web += ["--read-only"] if options.read_only else []
    return [
        Child("code server", "dagster", code, environment),
        Child("daemon", "dagster._daemon", daemon, environment, needs=code_socket),
        Child("webserver", "helix_assets.serve.webserver", web, environment, [listener], needs=code_socket),
    ]


class Ground:
    """Files of the data folder that exist at every moment, also during a restore. Without them the tree must stop."""

    def __init__(self, data_dir: Path, lock: IO[str]) -> None:
        self._lock, self._lock_path = lock, Path(lock.name)
        self._files = [path for name in (KEY, CATALOG) if (path := data_dir / name).exists()]

    def lost(self) -> Path | None:
        """The first file that is gone or was replaced, because the folder was deleted or moved. None if all is well."""
        try:
            if not os.path.samestat(self._lock_path.stat(), os.fstat(self._lock.fileno())):
                return self._lock_path
            for path in self._files:
                path.stat()
        except (FileNotFoundError, NotADirectoryError) as exc:
            return Path(exc.filename)
        except OSError:  # a disk that cannot be read right now has lost nothing
            return None
        return None


def _keep_up(children: Sequence[Child], ground: Ground, stop: threading.Event, say: Say) -> bool:
    """Start the processes that do not run, and wait a moment. True when it is time to stop."""
    if lost := ground.lost():
        raise StoreError(
            f"{lost} is gone: the data folder was deleted or moved while it was served. "
            "Put it back, or run `helix up` again for a new one"
        )
    for child in children:
        child.keep_up(say)
    return stop.wait(_CHECK_SECONDS)


def _stop(children: Sequence[Child], ground: Ground, home: Path, say: Say) -> None:
    if ground.lost():  # at once: whatever still runs would create the folder again
        for child in children:
            child.end(time.monotonic())
        return
    say("Stopping ...")
    for child in children:
        child.interrupt()
    deadline = time.monotonic() + _STOP_SECONDS
    for child in children:
        child.end(deadline)
    _close_stale_runs(home, say)


def _is_ready(options: ServeOptions, token: str | None) -> bool:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options.host, options.host)
    connection = http.client.HTTPConnection(name, options.port, timeout=_CHECK_SECONDS)
    try:
        connection.request("GET", "/server_info", headers=headers)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _welcome(options: ServeOptions) -> str:
    text = f"Dagster UI on {options.url}{' (read-only)' if options.read_only else ''}. Ctrl-C stops it."
    if is_loopback(options.host):
        return text
    return f"{text} It asks for the token in ui.token in the data folder; without TLS the token can be read on the way."


def _bind(options: ServeOptions) -> socket.socket:
    """Bind here, not in the child: a port in use is noticed at once, and ours is kept while the child restarts."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=128)
    except OSError as exc:
        # Only the system's words: create_server adds the address to them.
        why = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else exc.strerror or exc
        raise StopRun(
            f"Cannot listen on {options.host}:{options.port} ({why}). Stop the program that uses it, "
            f"or choose another port: helix up --port {options.port + 1}"
        ) from exc


@contextmanager
def _only_one(home: Path, options: ServeOptions) -> Iterator[IO[str]]:
    """Hold the lock that says a tree serves this home. The kernel releases it when we end, however we end."""
    with (home / "up.lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            file.seek(0)
            raise BusyError(f"helix is already up for this data folder: {file.read().strip()}") from exc
        file.truncate(0)
        file.write(f"{options.url} (process {os.getpid()})\n")
        file.flush()
        yield file


@contextmanager
def _stop_at_signal() -> Iterator[threading.Event]:
    """An event that a stop signal sets; the old handlers come back afterwards."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    # Under nohup the hang-up signal is ignored, and stays so.
    wanted = [number for number in _SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, on_signal) for number in wanted}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _close_stale_runs(home: Path, say: Say) -> None:
    from dagster import DagsterInstance

    from helix_assets.serve.stale_runs import close_stale_runs

    with DagsterInstance.from_config(str(home)) as instance:
        closed = close_stale_runs(instance)
    if closed:
        say(f"Closed {len(closed)} Dagster run(s) whose process is gone.")
