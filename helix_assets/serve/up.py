"""The parent behind `helix up`: it holds the lock and the listening socket, and keeps one server process running.

It stays as small as Python allows, so it imports none of what the server needs. Not here: what the server does
(`serve.process`), how a process is started and ended (`serve.lifeline`). What runs before serving (the first sweep) is
passed in.
"""

import fcntl
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from helix_assets.model.errors import BusyError, StopRun, StoreError
from helix_assets.serve.dagster_home import dagster_environment, prepare_dagster_home
from helix_assets.serve.lifeline import Child, Say
from helix_assets.serve.loopback import is_loopback
from helix_assets.serve.token import ui_token
from helix_assets.settings.folders import checkout
from helix_assets.store.catalog.catalog import CATALOG
from helix_assets.store.key import KEY

SERVER = "helix_assets.defs.server"
MODULE_NAME = "helix_assets.definitions"
_CHECK_SECONDS = 0.5
_STOP_SECONDS = 3
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class ServeOptions:
    """How the UI is served; `module` has the Dagster definitions, `server` is what the server process runs."""

    port: int = 3000
    host: str = "127.0.0.1"
    allow_remote: bool = False
    read_only: bool = False
    module: str = MODULE_NAME
    server: str = SERVER

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"


@dataclass(frozen=True)
class Order:
    """What the server process is to do: its argument, as JSON.

    `listener` is the listening socket, `ready` a pipe that gets a byte once the UI answers. Every request needs the
    token that is kept in the data folder `token_in`.
    """

    listener: int
    ready: int
    host: str
    module: str
    read_only: bool
    token_in: str | None


def serve(
    data_dir: Path,
    options: ServeOptions,
    say: Say,
    prepare: Callable[[], None] = lambda: None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Keep a server of this data folder running until Ctrl-C or SIGTERM.

    `say` shows a line to the person. `prepare` is called once nothing prevents serving, `ready` once the UI answers.
    Raises StopRun if it may not or cannot be served, BusyError if it is served already, and StoreError if the data
    folder is deleted meanwhile.
    """
    os.umask(0o077)
    refuse_open_doors(options)
    home = prepare_dagster_home(data_dir)
    with ExitStack() as stack:
        lock = stack.enter_context(_only_one(home, options))
        listener = stack.enter_context(_bind(options))
        if not is_loopback(options.host):
            ui_token(data_dir)
        prepare()
        stop = stack.enter_context(_stop_at_signal())
        ground = Ground(data_dir.absolute(), lock)
        readable, writable = os.pipe()
        server = _server(options, home, listener.fileno(), writable)
        server.is_heard = lambda: ground.lost() is None
        stack.callback(_stop, server, ground, say)
        os.set_blocking(readable, False)
        while not _is_ready(readable):
            if _keep_up(server, ground, stop, say):
                return
        say(_welcome(options))
        ready()
        while not _keep_up(server, ground, stop, say):
            pass


def refuse_open_doors(options: ServeOptions) -> None:
    """Refuse an address that other machines can reach, unless --allow-remote is given."""
    if not is_loopback(options.host) and not options.allow_remote:
        raise StopRun(
            f"--host {options.host} would open the memory to other machines. Add --allow-remote if that is meant "
            "(a token is then asked for); an SSH tunnel to 127.0.0.1 needs neither."
        )


def own_environment() -> dict[str, str]:
    """The environment of a process of ours: it finds this package, also in a checkout that is not installed."""
    source_tree = checkout()
    if source_tree is None:
        return dict(os.environ)
    path = os.pathsep.join(filter(None, [str(source_tree), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def _server(options: ServeOptions, home: Path, listener: int, ready: int) -> Child:
    token_in = None if is_loopback(options.host) else str(home.parent)
    order = Order(listener, ready, options.host, options.module, options.read_only, token_in)
    environment = own_environment() | dagster_environment(home)
    return Child("server", options.server, [json.dumps(asdict(order))], environment, [listener, ready])


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


def _keep_up(server: Child, ground: Ground, stop: threading.Event, say: Say) -> bool:
    """Start the server if it does not run, and wait a moment. True when it is time to stop."""
    if lost := ground.lost():
        raise StoreError(
            f"{lost} is gone: the data folder was deleted or moved while it was served. "
            "Put it back, or run `helix up` again for a new one"
        )
    server.keep_up(say)
    return stop.wait(_CHECK_SECONDS)


def _stop(server: Child, ground: Ground, say: Say) -> None:
    if ground.lost():  # at once: whatever still runs would create the folder again
        server.end(time.monotonic())
        return
    say("Stopping ...")
    server.interrupt()
    server.end(time.monotonic() + _STOP_SECONDS)


def _is_ready(readable: int) -> bool:
    try:
        return bool(os.read(readable, 1))
    except BlockingIOError:
        return False


def _welcome(options: ServeOptions) -> str:
    text = f"Dagster UI on {options.url}{' (read-only)' if options.read_only else ''}. Ctrl-C stops it."
    if is_loopback(options.host):
        return text
    return f"{text} It asks for the token in ui.token in the data folder; without TLS the token can be read on the way."


def _bind(options: ServeOptions) -> socket.socket:
    """Bind here, not in the server: a port in use is noticed at once, and ours is kept while the server restarts."""
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
    """Hold the lock that says somebody serves this home. The kernel releases it when we end, however we end."""
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
