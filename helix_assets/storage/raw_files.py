"""Tier 1 on disk: one Parquet file per session (a growing one has parts), rows in `seq` order, `raw` last.

Belongs here: rows to files and back, and the one place that removes them. Which files are live is the catalog's word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from helix_assets.core.errors import StoreError
from helix_assets.core.schema import Row

ZSTD_LEVEL = 3
GROUP_BYTES = 16 << 20
GROUP_ROWS = 20_000

_INT, _TEXT, _FLOAT, _BOOL = pa.int64(), pa.string(), pa.float64(), pa.bool_()
_TYPES: dict[str, pa.DataType] = {
    "kind": _TEXT, "role": _TEXT, "tool": _TEXT, "summary": _TEXT, "status": _TEXT, "agent_id": _TEXT, "call_id": _TEXT,
    "message_id": _TEXT, "model": _TEXT, "file_path": _TEXT, "detail": _TEXT, "native_type": _TEXT, "record_id": _TEXT,
    "parent_id": _TEXT, "raw": _TEXT, "is_sidechain": _BOOL, "cost_usd": _FLOAT,
}  # fmt: skip
SCHEMA = pa.schema([pa.field("session_uid", _TEXT), *(pa.field(name, _TYPES.get(name, _INT)) for name in Row._fields)])
LIGHT = [name for name in Row._fields if name != "raw"]
_REPEATING = ["session_uid", "kind", "role", "tool", "status", "agent_id", "model", "native_type"]


class PartFile(NamedTuple):
    """A published file: its path under the raw folder, its exact bytes and what is in it."""

    name: str
    bytes: int
    hash: str
    rows: int
    records: int
    last_order_us: int


class _HashingSink:
    """A file that knows the keyed hash of all that was written to it."""

    def __init__(self, file: IO[bytes], key: bytes) -> None:
        self._file = file
        self._hash = blake2b(digest_size=16, key=key)
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        self.closed = True

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class SessionWriter:
    """Writes one part file row group by row group; nothing is visible until the caller renames it."""

    def __init__(self, path: Path, session_uid: str, key: bytes) -> None:
        self.path = path
        self._uid = session_uid
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(fd, "wb")
        self._sink = _HashingSink(self._file, key)
        self._writer = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=_REPEATING,
            write_statistics=["seq", "ts_us"],
        )
        self._buffer: list[Row] = []
        self._held = 0
        self._rows = self._records = 0
        self._last_order = -(1 << 62)

    def add(self, rows: Sequence[Row]) -> None:
        """Append rows; `seq` must go on from what was added before."""
        self._buffer.extend(rows)
        raw = rows[0].raw
        if raw is not None:
            self._held += len(raw)
            self._records += 1
            self._last_order = rows[0].order_us
        if self._held >= GROUP_BYTES or len(self._buffer) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._buffer:
            return
        columns = list(zip(*self._buffer, strict=True))
        arrays = [pa.array([self._uid] * len(self._buffer), _TEXT)]
        arrays += [pa.array(values, field.type) for values, field in zip(columns, list(SCHEMA)[1:], strict=True)]
        self._writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))
        self._rows += len(self._buffer)
        self._buffer, self._held = [], 0

    def close(self) -> PartFile:
        """Finish the file; it is whole but neither synced nor published yet."""
        self._flush()
        self._writer.close()
        self._file.close()
        return PartFile(
            self.path.name, self._sink.size, self._sink.hexdigest(), self._rows, self._records, self._last_order
        )

    def discard(self) -> None:
        """Drop what was written."""
        self._writer.close()
        self._file.close()
        self.path.unlink(missing_ok=True)


class RawFiles:
    """The folder of published part files. Eviction is `remove`: a real delete."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir / "raw"
        self.staging = self.root / "staging"

    def prepare(self) -> None:
        """Make the folders."""
        self.staging.mkdir(mode=0o700, parents=True, exist_ok=True)

    def publish(self, staged: str, name: str) -> None:
        """Move a finished file from staging to its place."""
        target = self.root / name
        try:
            os.rename(self.staging / staged, target)
        except FileNotFoundError:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.rename(self.staging / staged, target)

    def remove(self, name: str) -> None:
        """Delete one file for good; one that is gone already is fine. The only line that deletes raw data."""
        (self.root / name).unlink(missing_ok=True)

    def names_on_disk(self) -> Iterator[str]:
        """Every published file, as the catalog would name it."""
        for path in self.root.glob("flavor=*/day=*/*.parquet"):
            yield str(path.relative_to(self.root))

    def clear_staging(self) -> None:
        """Remove what an interrupted run left behind."""
        for path in self.staging.glob("*"):
            path.unlink()

    def path(self, name: str) -> Path:
        """Where a published file lies."""
        return self.root / name


def read_rows(paths: Sequence[Path], *, raw: bool) -> Iterator[Row]:
    """Rows of a session's parts in `seq` order, group by group; without `raw` the bulky column is not read."""
    columns = list(Row._fields) if raw else LIGHT
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, columns=columns, use_threads=False)
                    values = [table.column(name).to_pylist() for name in columns]
                    if not raw:
                        values.append([None] * table.num_rows)
                    else:
                        values[-1] = [None if text is None else text.encode() for text in values[-1]]
                    yield from map(Row._make, zip(*values, strict=True))
        except (OSError, pa.ArrowInvalid) as exc:
            raise StoreError(f"{path.name} is missing or damaged: run `helix verify`") from exc


def file_hash(path: Path, key: bytes) -> str:
    """The keyed hash of a published file, to compare with the catalog's."""
    digest = blake2b(digest_size=16, key=key)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
