"""A child process that does not outlive its parent: `python -m helix_assets.serve.lifeline FD MODULE [ARGUMENT...]`.

FD is the reading end of a pipe that only the parent holds open. However the parent ends, the kernel closes the pipe,
and the child stops itself. Runs MODULE as `python -m` would. The parent's half is `start_tied`, and `Child` for a
process that is started again when it dies: it leads a process group, so that Ctrl-C reaches only the parent, and none
of its own children is left over.
"""

import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from helix_assets.model.terminal import terminal_safe

_GRACE_SECONDS = 10
_LONGEST_PAUSE_SECONDS = 60
_STEADY_SECONDS = 60
_HOLD_SECONDS = 1.0

# The head of a log record of Dagster; the lines after it, up to the next head, belong to it.
_RECORD = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ - ")
_CHATTER = re.compile(_RECORD.pattern + rb"dagster - (DEBUG|INFO) - ")

Say = Callable[[str], None]
THREAD = "lifeline"
"""Name of the thread that waits for the end of the parent. It touches nothing that others use."""


def start_tied(
    module: str, arguments: Sequence[str], pass_fds: Sequence[int] = (), **how: Any
) -> tuple[subprocess.Popen[bytes], int]:
    """Start `python -m MODULE` tied to this process; `how` goes to Popen. Close the descriptor once it has ended."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "helix_assets.serve.lifeline", str(reading), module, *arguments]
    try:
        process = subprocess.Popen(command, pass_fds=[reading, *pass_fds], stdin=subprocess.DEVNULL, **how)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return process, writing


@dataclass
class Child:
    """One process of the tree, restarted with growing pauses when it dies.

    `is_heard` says whether to pass on what the process prints; it is called a moment later, when the cause of an error
    may be known.
    """

    name: str
    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    descriptors: Sequence[int] = ()
    is_heard: Callable[[], bool] = lambda: True
    _process: subprocess.Popen[bytes] | None = None
    _lifeline: int = -1
    _started: float = 0.0
    _due: float = 0.0
    _pause_seconds: float = 1.0
    _is_ending: bool = False

    def start(self) -> None:
        """Start the process, tied to ours by a pipe."""
        self._process, self._lifeline = start_tied(
            self.module,
            self.arguments,
            self.descriptors,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=self._pass_on, args=(self._process.stdout,), daemon=True).start()
        self._started = time.monotonic()

    def keep_up(self, say: Say) -> None:
        """Start the process if it does not run and its pause is over."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._due:
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


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _stop_at_end_of(descriptor: int) -> None:
    """Stop this process when the parent is gone; with it all of its group, if it leads one."""
    os.read(descriptor, 1)
    stop = os.killpg if os.getpgrp() == os.getpid() else os.kill
    stop(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE_SECONDS)
    stop(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Tie this process to its parent and become MODULE."""
    descriptor, module = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_stop_at_end_of, args=(descriptor,), name=THREAD, daemon=True).start()
    sys.argv[:] = [module, *sys.argv[3:]]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:  # whoever sends that signal knows why
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
