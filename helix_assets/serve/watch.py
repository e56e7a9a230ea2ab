"""Noticing that something changed in a folder: an event is set, and nobody has to look all the time.

Belongs here: watching folders. Not here: which folders, and what is done about a change.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import watchfiles

POLL_S = 30
_STEP_MS, _LOOK_MS = 150, 10_000
_RETRY_S = 1.0
# On these the kernel does not hear of what another machine writes.
_REMOTE = (
    "9p",
    "afs",
    "ceph",
    "cifs",
    "drvfs",
    "fuse.",
    "glusterfs",
    "lustre",
    "ncpfs",
    "nfs",
    "prl_fs",
    "smb",
    "vboxsf",
)
_MOUNTS = Path("/proc/self/mountinfo")

Folders = Callable[[], Iterable[Path]]
Note = Callable[[str], None]


def watch(folders: Folders, woken: threading.Event, stop: threading.Event, note: Note) -> None:
    """Set `woken` whenever something changes in these folders, until `stop` is set.

    Folders may appear and vanish; `folders` is asked every 10 seconds. Where they cannot be watched, `woken` is set
    every 30 seconds. `note` gets the reason for that, or nothing when they are watched.
    """
    while not stop.is_set():
        seen = _existing(folders)
        reason = remote((path for path, _ in seen), _MOUNTS)
        if not reason:
            try:
                note("")
                _until_others(seen, folders, woken, stop)
                continue
            except FileNotFoundError:  # a folder that vanished meanwhile
                stop.wait(_RETRY_S)
                continue
            except (OSError, RuntimeError) as exc:
                reason = str(exc)
        note(reason)
        stop.wait(POLL_S)
        woken.set()


def _until_others(
    seen: Sequence[tuple[Path, int]], folders: Folders, woken: threading.Event, stop: threading.Event
) -> None:
    """Watch these folders until there are others."""
    if not seen:
        stop.wait(_LOOK_MS / 1000)
        return
    changes = watchfiles.watch(
        *(path for path, _ in seen),
        watch_filter=None,
        debounce=_STEP_MS,
        step=_STEP_MS,
        stop_event=stop,
        rust_timeout=_LOOK_MS,
        yield_on_timeout=True,
        force_polling=False,
        ignore_permission_denied=True,
    )
    woken.set()  # something may have been written before the watch began
    for changed in changes:
        if changed:
            woken.set()
        elif _existing(folders) != seen:
            return


def _existing(folders: Folders) -> list[tuple[Path, int]]:
    """The folders that exist, with their inodes: one that was deleted and made again is another."""
    found = []
    for folder in dict.fromkeys(folders()):
        with suppress(OSError):
            if folder.is_dir():
                found.append((folder, folder.stat().st_ino))
    return found


def remote(folders: Iterable[Path], mounts: Path) -> str:
    """Which of these folders is on a file system that other machines write to; empty if none is, or nobody knows."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    kinds = {}
    for line in lines:
        left, _, right = line.partition(" - ")
        kinds[left.split()[4].replace("\\040", " ")] = right.split()[0]
    for folder in folders:
        path = folder.resolve()
        mount = next((str(at) for at in (path, *path.parents) if str(at) in kinds), "/")
        if kinds.get(mount, "").startswith(_REMOTE):
            return f"{folder} is on a network file system ({kinds[mount]})"
    return ""
