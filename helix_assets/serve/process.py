"""The server process of `helix up`: Dagster's UI behind the guard, its daemons and the definitions, in one process.

Started by `serve.up`, which starts it again when it ends. Belongs here: what it is made of, and its end. Not here: what
else runs in it; that is passed in as functions, each of which gets a thread.
"""

import ctypes
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from dagster import DagsterInstance

from helix_assets.serve.dagster_private import start_daemons, workspace
from helix_assets.serve.guard import GuardPolicy
from helix_assets.serve.launcher import ChildRuns
from helix_assets.serve.stale_runs import close_stale_runs
from helix_assets.serve.token import ui_token
from helix_assets.serve.up import Order
from helix_assets.serve.webserver import answer, build_app
from helix_assets.settings.folders import checkout

LOCATION_NAME = "helix_assets"
_END_S = 1.5
_LOOK_S = 5
_PAUSE_S, _LONGEST_PAUSE_S = 5, 300
_FAILED = 70
_LOG_FORMAT = "%(asctime)s %(name)s - %(levelname)s - %(message)s"

Task = Callable[[DagsterInstance, threading.Event], None]
"""What runs in a thread of the server until the event is set."""

_log = logging.getLogger(__name__)


def run(tasks: Mapping[str, Task]) -> None:
    """Serve as this process's argument says, with these tasks, until a signal comes. Then the process ends."""
    code = _FAILED
    try:
        serve(Order(**json.loads(sys.argv[1])), tasks)
        code = 0
    except KeyboardInterrupt:  # a signal; the webserver raises it again at its end
        code = 0
    except Exception:  # noqa: BLE001 - the parent starts another
        _log.exception("the server ends")
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)  # Python itself would wait for threads of Dagster's pools


def serve(order: Order, tasks: Mapping[str, Task]) -> None:
    """Serve until a signal comes. Nothing of it is taken down but the runs: the process ends afterwards."""
    os.umask(0o077)
    errors = logging.StreamHandler()
    errors.setLevel(logging.ERROR)  # what goes well is shown by the UI
    logging.basicConfig(format=_LOG_FORMAT, handlers=[errors])
    listener = socket.socket(fileno=order.listener)
    token = ui_token(Path(order.token_in)) if order.token_in else None
    policy = GuardPolicy(listener.getsockname()[1], order.host, order.read_only, token)
    instance = DagsterInstance.get()
    if closed := close_stale_runs(instance):
        sys.stdout.write(f"Closed {len(closed)} Dagster run(s) whose process is gone.\n")
    folder = checkout() or Path(instance.root_directory)
    context = workspace(instance, order.module, LOCATION_NAME, folder, read_only=order.read_only)
    give_back_memory()
    daemons = start_daemons(context)
    stop = threading.Event()
    for name, task in tasks.items():
        threading.Thread(target=_keep_up, args=(name, task, instance, stop), name=name, daemon=True).start()
    threading.Thread(target=_watch_over, args=(daemons.check, stop), daemon=True).start()

    def ending() -> None:
        # At once: runs get the signal, too, and nothing may be started in the place of one that ends.
        daemons.stop()
        stop.set()

    try:
        answer(listener, build_app(context, policy), ready=partial(os.write, order.ready, b"1"), ending=ending)
    finally:
        ending()
        if isinstance(instance.run_launcher, ChildRuns):
            instance.run_launcher.end_all(time.monotonic() + _END_S)


def _keep_up(name: str, task: Task, instance: DagsterInstance, stop: threading.Event) -> None:
    """Run a task, again after growing pauses if it fails. Only an error's type is logged: its text may be private."""
    pause = _PAUSE_S
    while not stop.is_set():
        try:
            task(instance, stop)
        except Exception as exc:  # noqa: BLE001 - the others go on, whatever it is
            _log.error("%s failed (%s); it starts again in %s s", name, type(exc).__name__, pause)
        stop.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _watch_over(check: Callable[[], None], stop: threading.Event) -> None:
    """End this process when a thread of Dagster's daemons has died: the parent starts a new one."""
    while not stop.wait(_LOOK_S):
        try:
            check()
        except Exception as exc:  # noqa: BLE001 - Dagster raises just that
            _log.error("%s", exc)
            os._exit(_FAILED)


def give_back_memory() -> None:
    """Give freed memory back to the system, which the C library would keep. Only glibc has this."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


if __name__ == "__main__":
    run({})
