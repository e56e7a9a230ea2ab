"""An action in a process of its own whose n-th changing system call kills it, or fails with an error. Needs strace.

Belongs here: striking at an exact place. Not here: what is struck, or what must hold afterwards.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHANGING_CALLS = (
    "write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,syncfs,sync_file_range,ftruncate,truncate,fallocate,"
    "rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlink,mkdir,mkdirat,rmdir,copy_file_range"
)
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1
_NOT_YET = 65535
# strace -y: the thread, the call, and the file behind the descriptor that it takes first.
_TRACED = re.compile(r"^(\d+) +(\w+)\((?:\d+<([^>]*)>)?")


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th changing call: SIGKILL, or `error` (an errno's name); `stays` for all later ones too."""

    number: int
    error: str | None = None
    stays: bool = False

    def option(self) -> str:
        how = f"error={self.error}" if self.error else "signal=SIGKILL"
        return f"inject={CHANGING_CALLS}:{how}:when={self.number}{'+' if self.stays else ''}"


@dataclass(frozen=True)
class Struck:
    """Whether the fault came to pass, and how the action ended: 0 well, 1 with an exception, -9 killed."""

    happened: bool
    code: int


def can_inject() -> bool:
    """Whether this machine has what it takes."""
    return sys.platform == "linux" and shutil.which("strace") is not None


def run(action: Callable[[], object], fault: Fault | None = None) -> Struck:
    """Run the action in a forked child. Call it from a process that has one thread."""
    code, trace = _traced(action, fault)
    killed = fault is not None and code == -signal.SIGKILL
    return Struck(killed or "(INJECTED)" in trace, code)


def _traced(action: Callable[[], object], fault: Fault | None) -> tuple[int, str]:
    """How the action ended in the child, and its changing calls; none without a fault to come."""
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        _act(action, ready)
    os.close(ready)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace")
        tracer = _attach(child, fault, trace) if fault else None
        os.close(go)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if tracer is None:
            return code, ""
        tracer.wait()
        return code, trace.read_text(errors="replace")


def turning_points(action: Callable[[], object]) -> list[int]:
    """The numbers of the changing calls, less those in the middle of a row of equal calls on one file.

    Between two of them a file is longer or shorter, no other in kind. Each thread counts its own, as strace does.
    """
    calls: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in _traced(action, Fault(_NOT_YET))[1].splitlines():
        if seen := _TRACED.match(line):
            calls[seen[1]].append((seen[2], seen[3] or line))
    return sorted(
        {
            number
            for of_thread in calls.values()
            for number, call in enumerate(of_thread, 1)
            if not (1 < number < len(of_thread) and of_thread[number - 2] == call == of_thread[number])
        }
    )


def _act(action: Callable[[], object], ready: int) -> None:
    """The child's whole life; it leaves without the cleaning up of the process it was forked from."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
        os.read(ready, 1)
        action()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is told by the exit code
        if os.environ.get("FAULTS_TELL"):
            traceback.print_exc()
    finally:
        os._exit(code)


def _attach(child: int, fault: Fault, trace: Path) -> subprocess.Popen[bytes]:
    options = ["-f", "-y", "-qqq", "-o", str(trace), "-e", f"trace={CHANGING_CALLS}", "-e", fault.option()]
    tracer = subprocess.Popen(["strace", *options, "-p", str(child)], stderr=subprocess.PIPE)
    give_up = time.monotonic() + 10
    while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text():
        if tracer.poll() is not None or time.monotonic() > give_up:
            os.kill(child, signal.SIGKILL)
            raise RuntimeError(f"strace cannot attach: {tracer.stderr.read().decode() if tracer.stderr else ''}")
        time.sleep(0.001)
    return tracer
