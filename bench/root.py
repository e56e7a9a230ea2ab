"""The root of a measured tree of processes: `python -I -S bench/root.py COMMAND ...` runs a server until it ends.

Processes that lose their parent become children of the root, so that nothing leaves the tree, and what ended children
used is found in the figures of those that waited for them. Linux alone. It imports nothing of ours, because it counts
as little as possible. It stops the server when it is asked to stop, or when the measuring process is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(command: Sequence[str]) -> int:
    """Run the command, and reap until no process of the tree is left."""
    system = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_CHILD_SUBREAPER, 1), (_PR_SET_PDEATHSIG, signal.SIGTERM)):
        if system.prctl(option, value, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
    server = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.kill(server.pid, signal.SIGTERM) if server.returncode is None else None)
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return server.returncode or 0
        if pid == server.pid:
            server.returncode = os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
