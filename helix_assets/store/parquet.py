"""The inside of a Tier 1 file: one Parquet file per session (a growing one has parts), rows in `seq` order, `raw` last.

Belongs here: rows to files and back. The only module that loads pyarrow for the sweep. Not here: where files are
(`store.raw`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from helix_assets.model.errors import StoreError
from helix_assets.model.event import AFTER_THE_END, ROW_FIELDS, UNPLACED, Row
from helix_assets.model.fields import SESSION_UID
from helix_assets.store.arrow import ARROW_TYPES
from helix_assets.store.durable import naming, open_new
from helix_assets.store.raw import PartFile, file_hash

if TYPE_CHECKING:
    from helix_assets.store.words.hashing import WordHasher, Words

ZSTD_LEVEL = 3
GROUP_BYTES = 1 << 20
"""A search reads row groups one by one: small ones keep it fast."""
GROUP_ROWS = 20_000
_EMPTY_COLUMN_BYTES = 256

SCHEMA = pa.schema([pa.field(field.name, ARROW_TYPES[field.type]) for field in (SESSION_UID, *ROW_FIELDS)])
LIGHT = [name for name in Row._fields if name != "raw"]
# Compressing a short column costs time and saves little: only columns with long or many values are compressed.
_BULKY = ["raw", "summary", "detail", "record_id", "parent_id", "call_id", "message_id"]
_COMPRESSION = dict.fromkeys(_BULKY, "zstd")
_ROW_TYPES = [field.type for field in SCHEMA][1:]
_REPEATING = ["session_uid", "kind", "role", "tool", "status", "agent_id", "model", "native_type"]


class _HashingSink:
    """A new private file that computes the keyed hash of all that is written to it."""

    closed = False

    def __init__(self, path: Path, key: bytes) -> None:
        self._path, self._file = path, open_new(path)
        self._hash = blake2b(digest_size=16, key=key)
        self.size = 0

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self.size += len(data)
        with naming(self._path):
            return self._file.write(data)

    def flush(self) -> None:
        with naming(self._path):
            self._file.flush()

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        with naming(self._path):
            self._file.close()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _writer(sink: Any) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        SCHEMA,
        compression=_COMPRESSION,
        compression_level=dict.fromkeys(_BULKY, ZSTD_LEVEL),
        use_dictionary=_REPEATING,
        write_statistics=False,
        store_schema=False,
    )


class SessionWriter:
    """Writes one part file row group by row group. Nothing is visible until the caller renames it."""

    def __init__(self, path: Path, session_uid: str, key: bytes, *, hasher: WordHasher | None = None) -> None:
        """With a `hasher`, the words of each row group are found along the way, while its text is in memory.

        If that fails, `wordless_because` says why, and the rows are written all the same.
        """
        self.path = path
        self.wordless_because: str | None = None
        self._hasher = hasher
        self._words: list[Words] = []
        self._uid = session_uid
        self._sink = _HashingSink(path, key)
        self._writer: pq.ParquetWriter | None = None
        self._buffer: list[Row] = []
        self._held = 0
        self._rows = self._records = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Append rows; `seq` must continue that of the rows before."""
        self._buffer.extend(rows)
        raw = rows[0].raw
        if raw is not None:
            self._held += len(raw)
            self._records += 1
        if self._held >= GROUP_BYTES or len(self._buffer) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = _writer(self._sink)
        self._write_group(self._writer)

    def _write_group(self, writer: pq.ParquetWriter) -> None:
        if not self._buffer:
            return
        columns = zip(*self._buffer, strict=True)
        arrays = [pa.array([self._uid] * len(self._buffer), pa.string())]
        arrays += [pa.array(values, kind) for values, kind in zip(columns, _ROW_TYPES, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        writer.write_batch(batch)
        self._find_words(batch)
        self._rows += len(self._buffer)
        self._buffer, self._held = [], 0

    def _find_words(self, batch: pa.RecordBatch) -> None:
        if self._hasher is None or self.wordless_because:
            return
        try:
            self._words.append(self._hasher.words(group_text(batch)))
        except Exception as exc:  # noqa: BLE001 - rows must not be lost because words could not be found
            self._words, self.wordless_because = [], type(exc).__name__

    def close(self) -> PartFile:
        """Finish the file. It is complete but neither synced nor published yet."""
        if self._writer is None:
            # One row group, as in nearly all sessions. Built in memory, it is written to the file in one piece instead
            # of about a hundred, each a call from Arrow's code into ours.
            memory = pa.BufferOutputStream()
            with _writer(memory) as writer:
                self._write_group(writer)
            self._sink.write(memory.getvalue())
        else:
            self._flush()
            writer = self._writer
            writer.close()
        self._sink.close()
        sink = self._sink
        return PartFile(self.path.name, sink.size, sink.hexdigest(), self._rows, self._records,
                        _text_bytes(writer.writer.metadata), tuple(self._words))  # fmt: skip

    def discard(self) -> None:
        """Drop what was written."""
        if self._writer is not None:
            self._writer.close()
        self._sink.close()
        self.path.unlink(missing_ok=True)


def _text_bytes(about: pq.FileMetaData) -> int:
    """How many bytes a file loses at least without its texts."""
    columns = (about.row_group(group).column(len(SCHEMA) - 1) for group in range(about.num_row_groups))
    return sum(max(0, column.total_compressed_size - _EMPTY_COLUMN_BYTES) for column in columns)


def copy_without_texts(source: Path, target: Path, key: bytes) -> PartFile:
    """Rewrite a part without the texts of its records. The file is neither synced nor published yet."""
    sink = _HashingSink(target, key)
    rows = 0
    try:
        with pa.OSFile(str(source)) as opened, pq.ParquetFile(opened) as file, _writer(sink) as writer:
            names = [name for name in SCHEMA.names if name != "raw"]
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=names, use_threads=False)
                there = set(table.column_names)  # as in `_rows`
                columns = [
                    table.column(field.name) if field.name in there else pa.nulls(table.num_rows, field.type)
                    for field in SCHEMA
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
                rows += table.num_rows
        sink.close()
    except BaseException as exc:
        target.unlink(missing_ok=True)
        if isinstance(exc, pa.ArrowInvalid):
            raise StoreError(f"{source.name} is damaged: run `helix verify`") from exc
        raise
    return PartFile(target.name, sink.size, sink.hexdigest(), rows, 0)


def read_rows(paths: Sequence[Path | IO[bytes]], *, raw: bool) -> Iterator[Row]:
    """Rows of a session's parts in `seq` order, group by group. Without `raw` the bulky column is not read.

    Rows without a place in the conversation come last.
    """
    last = []
    for path in paths:
        has_unplaced = False
        for row in _rows(path, raw=raw):
            if row.seq == UNPLACED:
                has_unplaced = True
            else:
                yield row
        if has_unplaced:
            last.append(path)
    yield from read_unplaced(last, raw=raw)


def keys_without_text(paths: Sequence[Path]) -> set[int]:
    """The keys of stored records whose texts were dropped."""
    found: dict[int, bool] = {}
    for path in paths:
        with _opened(path) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, ["record_key", "native_type", "raw"], use_threads=False)
                keys, types = (table[name].to_pylist() for name in ("record_key", "native_type"))
                for key, kind, has_text in zip(keys, types, table["raw"].is_valid().to_pylist(), strict=True):
                    if kind != AFTER_THE_END:
                        found[key] = found.get(key, False) or has_text
    return {key for key, has_text in found.items() if not has_text}


def read_record(paths: Sequence[Path | IO[bytes]], wanted: int | str) -> Row | None:
    """The first row of a record, which has its text: by an event's number, its key, or the id that its agent gave.

    Only one row group is read whole, so that it costs the same in a session of any size.
    """
    names = ["seq", "record_key"] if isinstance(wanted, int) else ["record_id"]
    for path in paths:
        with _opened(path) as file:
            for group in range(file.num_row_groups):
                ids = file.read_row_group(group, {*names, "record_key"}, use_threads=False)
                place = max(ids[name].index(wanted).as_py() for name in names)
                if place >= 0:
                    first = ids["record_key"].index(ids["record_key"][place]).as_py()
                    table = file.read_row_group(group, list(Row._fields), use_threads=False)
                    return next(_rows_of(table.slice(first, 1), raw=True))
    return None


def read_placed(paths: Sequence[Path | IO[bytes]], *, raw: bool) -> Iterator[Row]:
    """Only the rows of the conversation, in `seq` order."""
    for path in paths:
        yield from (row for row in _rows(path, raw=raw) if row.seq != UNPLACED)


def read_texts(path: Path, key: bytes, proof: str) -> Iterator[bytes]:
    """The source lines of a part, one text per row group; the summaries if the lines were dropped.

    StoreError if the file's hash is not `proof`.
    """
    try:
        if file_hash(path, key) != proof:
            raise StoreError(f"{path.name} is damaged: run `helix verify`")
        with pa.OSFile(str(path)) as source, pq.ParquetFile(source) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, ["raw"], use_threads=False)
                if text_column(table) != "raw":
                    table = file.read_row_group(group, ["raw", "summary"], use_threads=False)
                yield group_text(table)
    except (OSError, pa.ArrowInvalid) as exc:
        raise StoreError(f"{path.name} is missing or damaged: run `helix verify`") from exc


def group_text(table: pa.Table | pa.RecordBatch) -> bytes:
    """The text of a row group that is searched."""
    return joined(pa.chunked_array(table.column(text_column(table))))[0]


def text_column(table: pa.Table | pa.RecordBatch) -> str:
    """Which column of a row group contains text: the lines, or the summaries once the lines were dropped."""
    return "summary" if table["raw"].null_count == table.num_rows else "raw"


def joined(column: pa.ChunkedArray) -> tuple[bytes, list[int]]:
    """The texts of a column joined without its nulls, and where each begins and the last one ends."""
    texts = pa.concat_arrays(column.drop_null().chunks or [pa.array([], pa.string())])
    _, places, data = texts.buffers()
    starts = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, places], offset=texts.offset).to_pylist()
    first = starts[0] if starts else 0
    text = data.slice(first, starts[-1] - first).to_pybytes() if data is not None and starts else b""
    return text, [start - first for start in starts]


def read_unplaced(paths: Sequence[Path | IO[bytes]], *, raw: bool) -> Iterator[Row]:
    """The rows without a place in the conversation, by file and line; the newest of those stored more than once."""
    held: Row | None = None
    for row in heapq.merge(*(_unplaced(path, raw=raw) for path in paths), key=_line_of):
        if held is not None and _line_of(held) != _line_of(row):
            yield held
        held = row
    if held is not None:
        yield held


def _line_of(row: Row) -> tuple[int, int]:
    return row.file, row.line


def _unplaced(path: Path | IO[bytes], *, raw: bool) -> Iterator[Row]:
    return (row for row in _rows(path, raw=raw, unplaced=True) if row.seq == UNPLACED)


def _rows(path: Path | IO[bytes], *, raw: bool, unplaced: bool = False) -> Iterator[Row]:
    """All rows of a part in stored order. With `unplaced` only the row groups that contain such rows."""
    columns = list(Row._fields) if raw else LIGHT
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            if unplaced and UNPLACED not in file.read_row_group(group, ["seq"], use_threads=False)["seq"].to_pylist():
                continue
            yield from _rows_of(file.read_row_group(group, columns=columns, use_threads=False), raw=raw)


@contextmanager
def _opened(path: Path | IO[bytes]) -> Iterator[pq.ParquetFile]:
    # Arrow opens the file itself: a Python file handed to it is closed by one of its threads, and a process that ends
    # just then is aborted.
    name = str(path) if isinstance(path, Path) else f"/dev/fd/{path.fileno()}"
    try:
        with pa.OSFile(name) as source, pq.ParquetFile(source) as file:
            yield file
    except (OSError, pa.ArrowInvalid) as exc:
        raise StoreError(f"{path.name} is missing or damaged: run `helix verify`") from exc


def _rows_of(table: pa.Table, *, raw: bool) -> Iterator[Row]:
    there = set(table.column_names)  # a file of an older version lacks the newer columns
    columns = Row._fields if raw else LIGHT
    values = [table.column(name).to_pylist() if name in there else [None] * table.num_rows for name in columns]
    if not raw:
        values.append([None] * table.num_rows)
    else:
        values[-1] = [None if text is None else text.encode() for text in values[-1]]
    return map(Row._make, zip(*values, strict=True))
