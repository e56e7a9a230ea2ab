"""The sessions of shared files, as a look at the disk sees them, without opening a file.

Belongs here: what is known of them without reading. Not here: listing them (`sweep.unfold`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from helix_assets.agents.cutting import rests
from helix_assets.agents.database import with_log
from helix_assets.agents.discover import Discovery
from helix_assets.agents.roles import DATABASE, SHARED, part_path, shared_path
from helix_assets.agents.spec import FoundFile
from helix_assets.store.catalog.sources import parts_of_files
from helix_assets.store.store import Store


def with_parts(
    store: Store, seen: Discovery, shared: Iterable[FoundFile], listed: Mapping[str, Sequence[FoundFile]]
) -> tuple[list[FoundFile], list[FoundFile]]:
    """Shared files and their sessions, as listed now, else as last listed.

    A session to be read again (its time in the catalog is -1) differs from its known state, so it is news.
    """
    files = [with_log(file) if file.role == DATABASE else file for file in shared]
    found = {file.path for file in files}
    names = {store.shown_path(path): path for path in found if path not in listed}
    parts = [part for path in found for part in listed.get(path, ())]
    with store.catalog.reading() as connection:
        for row in parts_of_files(connection, SHARED):
            if path := names.get(shared_path(row.path)):
                state = row.dev, row.inode, row.size, max(row.mtime_ns, 0)
                parts.append(FoundFile(part_path(path, row.native_id), row.role, row.native_id, *state))
    seen.flavors |= {part.path: seen.flavors[shared_path(part.path)] for part in parts}
    return files, parts


def has_ended(file: FoundFile, now: datetime) -> bool:
    """Whether a text has not changed for so long that its last block counts as complete."""
    return rests(file.mtime_ns, now)
