"""The facts on disk: Parquet files per fact and partition, replaced as a whole under a new name.

Belongs here: naming, writing, merging and reading these files. The catalog says which of them are live,
`derive.fact_builder` what a fact is. Importing it loads no pyarrow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from helix_assets.model.errors import StoreError
from helix_assets.model.facts import FACTS, fields_of_fact
from helix_assets.store.durable import new_file
from helix_assets.store.key import text_hash

if TYPE_CHECKING:
    import pyarrow as pa


class FactFile(NamedTuple):
    """A file of facts as the catalog names it."""

    fact: str
    flavor: str
    day: str
    version: int
    name: str
    bytes: int
    hash: str
    row_count: int
    is_recent: bool = False


@dataclass(frozen=True)
class SessionRows:
    """The rows of one session for one fact, written when its stored rows were at `generation`."""

    session_uid: str
    generation: int
    rows: Sequence[tuple[Any, ...]]


class FactFiles:
    """The folder of fact files."""

    def __init__(self, data_dir: Path, key: bytes) -> None:
        self.root = data_dir / "memory"
        self._key = key

    def path(self, name: str) -> Path:
        """The path of a fact file."""
        return self.root / name

    def remove(self, name: str) -> None:
        """Delete a file that was replaced by a newer one, or that the catalog does not name."""
        self.path(name).unlink(missing_ok=True)

    def names(self) -> Iterator[str]:
        """Every file in the folder, as the catalog would name it."""
        for path in self.root.rglob("*"):
            if path.is_file():
                yield str(path.relative_to(self.root))

    def replace(
        self,
        fact: str,
        partition: tuple[str, str],
        old: Sequence[FactFile],
        sessions: Sequence[SessionRows],
        *,
        carries_over: bool = True,
    ) -> FactFile | None:
        """Write the successor of the old files: these sessions' rows replace their own, all others are carried over.

        None if nothing is left to write. The file is not part of the store before the catalog names it.
        """
        import pyarrow as pa

        table = table_of(fact, sessions)
        if carries_over:
            uids = {session.session_uid for session in sessions}
            table = pa.concat_tables([*(without(self.read(file), uids) for file in old), table])
        return self.write(fact, partition, next_version(old), table) if table.num_rows else None

    def write(
        self, fact: str, partition: tuple[str, str], version: int, table: pa.Table, *, is_recent: bool = False
    ) -> FactFile:
        """Write one version of a partition's facts."""
        flavor, day = partition
        name = f"{fact}/flavor={flavor}/day={day}.{version}{'.recent' if is_recent else ''}.parquet"
        data = packed(table)
        path = self.path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with new_file(path) as file:
            file.write(data)
        return FactFile(
            fact, flavor, day, version, name, len(data), text_hash(self._key, data), table.num_rows, is_recent
        )

    def read(self, file: FactFile) -> pa.Table:
        """The rows of a live file, proven by its hash. StoreError if it is missing or not what was written."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if file.fact not in FACTS:
            raise StoreError(f"the catalog names an unknown kind of fact, {file.fact!r}: run `helix verify`")
        try:
            data = self.path(file.name).read_bytes()
        except OSError as exc:
            raise StoreError(f"{file.name} cannot be read ({exc.strerror}): run `helix verify`") from exc
        if text_hash(self._key, data) != file.hash:
            raise StoreError(
                f"{file.name} is damaged: `helix verify` names its sessions, `helix restore` restores a copy"
            )
        return _with_current_columns(
            pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False), schema_of(file.fact)
        )

    def rows(self, file: FactFile) -> list[SessionRows]:
        """The rows of a live file as they were written, by session and generation."""
        return rows_of(self.read(file))


def next_version(old: Sequence[FactFile]) -> int:
    """The version of a file that comes after these."""
    return max((file.version for file in old), default=0) + 1


def rows_of(table: pa.Table) -> list[SessionRows]:
    """The rows of a table in order, by session and generation."""
    times = table.column("ts").cast("int64").to_pylist()
    columns = [times if name == "ts" else table.column(name).to_pylist() for name in table.column_names]
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for uid, generation, *row in zip(*columns, strict=True):
        found.setdefault((uid, generation), []).append(tuple(row))
    return [SessionRows(uid, generation, rows) for (uid, generation), rows in found.items()]


def packed(table: pa.Table) -> pa.Buffer:
    """A table as the bytes of its file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    memory = pa.BufferOutputStream()
    # Measured on a few dozen rows: dictionaries and statistics cost time and make the file no smaller.
    with pq.ParquetWriter(
        memory, table.schema, compression="lz4", use_dictionary=False, write_statistics=False, store_schema=False
    ) as writer:
        writer.write_table(table)
    return memory.getvalue()


@cache
def schema_of(fact: str) -> pa.Schema:
    """The columns of a fact's files."""
    import pyarrow as pa

    from helix_assets.store.arrow import ARROW_TYPES

    others = {"generation": pa.int32(), "ts": pa.timestamp("us", "UTC")}
    fields = fields_of_fact(fact)
    return pa.schema([pa.field(field.name, others.get(field.name, ARROW_TYPES[field.type])) for field in fields])


def _with_current_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the current columns; those that an older version did not write are null."""
    import pyarrow as pa

    there = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in there else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def without(table: pa.Table, uids: Collection[str]) -> pa.Table:
    """The rows of all other sessions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return table.filter(pc.invert(pc.is_in(table.column("session_uid"), value_set=pa.array(list(uids), pa.string()))))


def only(table: pa.Table, uid: str) -> pa.Table:
    """The rows of one session."""
    import pyarrow.compute as pc

    return table.filter(pc.equal(table.column("session_uid"), uid))


def say_the_same(table: pa.Table, other: pa.Table) -> bool:
    """Whether two tables of a fact have the same rows, whatever the generations with which they were written."""
    return bool(table.drop_columns(["generation"]).equals(other.drop_columns(["generation"])))


def table_of(fact: str, sessions: Sequence[SessionRows]) -> pa.Table:
    """The rows of these sessions as a table of one fact."""
    import pyarrow as pa

    schema = schema_of(fact)
    rows = [row for session in sessions for row in session.rows]
    if not rows:
        return schema.empty_table()
    own: Mapping[str, list[Any]] = {
        "session_uid": [session.session_uid for session in sessions for _ in session.rows],
        "generation": [session.generation for session in sessions for _ in session.rows],
    }
    columns = [*own.values(), *zip(*rows, strict=True)]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
