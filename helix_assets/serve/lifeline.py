"""A child process that does not outlive its parent: `python -m helix_assets.serve.lifeline FD MODULE [ARGUMENT...]`.

FD is the reading end of a pipe that only the parent holds open. However the parent ends, the kernel closes the pipe,
and the child stops itself and everything it started. Runs MODULE as `python -m` would. The parent's half is `Child`:
the child leads a process group, so that Ctrl-C reaches only the parent, and none of its own children is left over.
"""

import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from helix_assets.model.terminal import terminal_safe

_GRACE_SECONDS = 10
_LONGEST_PAUSE_SECONDS = 60
_STEADY_SECONDS = 60
_HOLD_SECONDS = 1.0

# The head of a log record of Dagster; the lines after it, up to the next head, belong to it.
_RECORD = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ - ")
_CHATTER = re.compile(_RECORD.pattern + rb"dagster - (DEBUG|INFO) - ")

Say = Callable[[str], None]


@dataclass
class Child:
    """One process of the tree, restarted with growing pauses when it dies.

    `needs` is a Unix socket that has to answer before the process is started. `is_heard` says whether to pass on what
    the process prints; it is called a moment later, when the cause of an error may be known.
    """

    name: str
    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    descriptors: Sequence[int] = ()
    needs: Path | None = None
    is_heard: Callable[[], bool] = lambda: True
    _process: subprocess.Popen[bytes] | None = None
    _lifeline: int = -1
    _started: float = 0.0
    _due: float = 0.0
    _pause_seconds: float = 1.0
    _is_ending: bool = False

    def start(self) -> None:
        """Start the process, tied to ours by a pipe."""
        reading, self._lifeline = os.pipe()
        command = [sys.executable, "-m", "helix_assets.serve.lifeline", str(reading), self.module, *self.arguments]
        self._process = subprocess.Popen(
            command,
            env=self.environment,
            pass_fds=[reading, *self.descriptors],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(reading)
        threading.Thread(target=self._pass_on, args=(self._process.stdout,), daemon=True).start()
        self._started = time.monotonic()

    def keep_up(self, say: Say) -> None:
        """Start the process if it does not run and its pause is over."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._due and (self.needs is None or _listens(self.needs)):
                self.start()
            return
        code = self._process.poll()
        if code is None:
            return
        self._kill_family()
        if now - self._started > _STEADY_SECONDS:
            self._pause_seconds = 1.0
        say(f"The {self.name} ended unexpectedly (code {code}); starting it again in {self._pause_seconds:.0f} s.")
        self._due = now + self._pause_seconds
        self._pause_seconds = min(self._pause_seconds * 2, _LONGEST_PAUSE_SECONDS)

    def interrupt(self) -> None:
        """Ask the process and everything it started to end. Its output is not shown from now on."""
        self._is_ending = True
        if self._process:
            _signal_group(self._process.pid, signal.SIGINT)

    def end(self, deadline: float) -> None:
        """Wait for the end until the deadline, then kill whatever is left."""
        if self._process:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, deadline - time.monotonic()))
            self._kill_family()

    def _pass_on(self, output: IO[bytes]) -> None:
        """Copy the output to stderr, without Dagster's lines about each step of each run, which the UI shows."""
        is_chatter, spoke = False, 0.0
        with output:
            for line in output:
                if _RECORD.match(line):
                    is_chatter = bool(_CHATTER.match(line))
                if is_chatter or self._is_ending:
                    continue
                if time.monotonic() - spoke > _HOLD_SECONDS:
                    time.sleep(_HOLD_SECONDS)
                spoke = time.monotonic()
                if not self.is_heard():
                    continue
                with suppress(OSError):  # nobody reads our output any more; the child must not block because of that
                    sys.stderr.buffer.write(terminal_safe(line.decode("utf-8", "replace")).encode())
                    sys.stderr.buffer.flush()

    def _kill_family(self) -> None:
        if self._process:
            _signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
            os.close(self._lifeline)
            self._process = None


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _stop_group_at_end_of(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.killpg(0, signal.SIGINT)
    time.sleep(_GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Tie this process to its parent and become MODULE."""
    descriptor, module = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_stop_group_at_end_of, args=(descriptor,), daemon=True).start()
    sys.argv[:] = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
