"""Published archives: writing them to stores and Iceberg, and merging the states of their roll-ups in DuckDB, ClickHouse and Python.

`jitlat archive publish DIR LAKE`, or `jitlat.Archive(DIR).publish(LAKE)`, writes the tables `packets`, `summaries` and `rollups`
(docs/formats/lake.md). Rows of `rollups`, and of `summaries`, have a column `state`: counts and distributions of their packets, which this
module merges in any order and turns into figures. The results are those of `jitlat archive query`.

    jitlat.Archive("net").publish("s3://bucket/lake")
    jitlat.lake.rollup("s3://bucket/lake", by=("path", "month"))                # a pyarrow.Table
    jitlat.lake.duckdb(connection)                                              # then, in SQL:
    # SELECT src, dst, jitlat_figure(jitlat_merge(list(state)), 'latency-p99') FROM read_parquet('lake/rollups/*/*/*.parquet') GROUP BY ALL
    jitlat.lake.iceberg("s3://bucket/lake", catalog)                            # tables jitlat.packets, .summaries and .rollups
"""

from __future__ import annotations

import base64
import importlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

import jitlat

from . import files

#: Tables of a lake.
TABLES = ("packets", "summaries", "rollups")
#: Version of the tables that this module reads.
VERSION = 1


def _located(lake: str | os.PathLike[str], filesystem: Any = None) -> tuple[Any, str]:
    """The file system of a lake, and the path of its folder there."""
    text = os.fspath(lake)
    if filesystem is not None:
        return filesystem, text.split("://")[-1].rstrip("/")
    if "://" in text:
        system, path = pyarrow.fs.FileSystem.from_uri(text)
        return system, path.rstrip("/")
    return pyarrow.fs.LocalFileSystem(), os.path.abspath(text)


class Store:
    """Files of a lake in any file system of pyarrow. Object stores show a file only when it is complete. They have no locks, so only one program at a
    time may publish an archive there."""

    def __init__(self, lake: str | os.PathLike[str], filesystem: Any = None) -> None:
        self._system, self._root = _located(lake, filesystem)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            with self._system.open_input_stream(f"{self._root}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def list(self, folder: str) -> list[str]:
        """Names of all files in a folder and its folders."""
        selector = pyarrow.fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True, recursive=True)
        return sorted(info.path[len(self._root) + 1 :] for info in self._system.get_file_info(selector) if info.is_file)

    def put(self, path: str | os.PathLike[str], name: str) -> None:
        """Stores a file of this host."""
        target = f"{self._root}/{name}"
        if isinstance(self._system, pyarrow.fs.LocalFileSystem):
            self._system.create_dir(os.path.dirname(target), recursive=True)
        with open(path, "rb") as source, self._system.open_output_stream(target) as out:
            while part := source.read(1 << 20):
                out.write(part)

    def remove(self, name: str) -> None:
        """Removes a file."""
        self._system.delete_file(f"{self._root}/{name}")


def manifests(lake: str | os.PathLike[str], filesystem: Any = None) -> list[dict[str, Any]]:
    """The manifest of each archive in a lake: its files, and the newest test that they contain."""
    store = Store(lake, filesystem)
    found = []
    for name in store.list("manifests"):
        if name.endswith(".json") and (content := store.read(name)) is not None:
            manifest = json.loads(content)
            if manifest.get("version") != VERSION:
                raise jitlat.Error(f"{name} has version {manifest.get('version')}; this module reads version {VERSION}")
            found.append(manifest)
    if not found:
        raise jitlat.Error(f"{os.fspath(lake)} is not a lake (it has no manifests): check the path, or publish an archive there")
    return found


def published(lake: str | os.PathLike[str], table: str, filesystem: Any = None) -> list[str]:
    """The files of a table, relative to the lake: those that the manifests list. Files of an interrupted publication are not among them."""
    if table not in TABLES:
        raise ValueError(f"table={table}: give one of {', '.join(TABLES)}")
    return [file["path"] for manifest in manifests(lake, filesystem) for file in manifest["files"] if file["table"] == table]


def batches(
    lake: str | os.PathLike[str], table: str = "rollups", *, columns: Sequence[str] | None = None, rows: int = 4096, filesystem: Any = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a table, `rows` at a time."""
    system, root = _located(lake, filesystem)
    for name in published(lake, table, filesystem):
        with system.open_input_file(f"{root}/{name}") as file:
            yield from pq.ParquetFile(file).iter_batches(rows, columns=list(columns) if columns else None)


def merge(states: Iterable[bytes | None]) -> bytes | None:
    """Merges states (None is skipped) to the state of all their tests; None without any."""
    pool: jitlat.Pool | None = None
    for state in states:
        if state is not None:
            pool = pool or jitlat.Pool()
            pool.merge(jitlat.Pool.load(bytes(state)))
    return None if pool is None else pool.bytes()


def figure(state: bytes | None, name: str) -> float | None:
    """A figure of a state, by its name (`latency-p99`, or `latency_p99`): times in ns, ratios from 0 to 1; None if it is undefined."""
    key = _NAMES.get(name.replace("-", "_").replace(".", "_"))
    if key is None:
        raise ValueError(f"{name} is not a figure of periods: give one of {', '.join(files.POOLED)}")
    return None if state is None else jitlat.Pool.load(bytes(state)).scalars[key]


_NAMES = {column: name for name, column in files.POOLED.items()}
_PERIODS = {"hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}


def rollup(lake: str | os.PathLike[str], *, by: Sequence[str] = ("path",), filesystem: Any = None) -> pa.Table:
    """Merges the roll-ups of a lake: one row per group with the same values of `by` (`path`, its parts, `payload_bytes`, `period_ns`, `dscp`, `hour`, `day`,
    `month`, `year`), with the figures of all packets of its tests, and the state of the group."""
    by = tuple(by)
    stream = (*files.STREAM, "payload_bytes", "period_ns", "dscp")
    for name in by:
        if name not in ("path", *stream, *_PERIODS):
            raise ValueError(f"by={name}: give some of path, {', '.join((*stream, *_PERIODS))}")
    found: dict[tuple[str | None, ...], jitlat.Pool] = {}
    for batch in batches(lake, columns=[*stream, "hour_start", "state"], filesystem=filesystem):
        for row in batch.to_pylist():
            keys = tuple(_key(row, name) for name in by)
            found.setdefault(keys, jitlat.Pool()).merge(jitlat.Pool.load(row["state"]))
    rows: list[dict[str, Any]] = []
    for keys in sorted(found, key=lambda keys: [text or "" for text in keys]):
        pool = found[keys]
        scalars = {files.POOLED[name]: value for name, value in pool.scalars.items()}
        rows.append(dict(zip(by, keys, strict=True)) | {"tests": pool.tests, "state": pool.bytes()} | scalars)
    schema = [*(pa.field(name, pa.string()) for name in by), pa.field("tests", pa.int64())]
    schema += [pa.field(column, pa.float64()) for column in files.POOLED.values()]
    return pa.Table.from_pylist(rows, pa.schema([*schema, pa.field("state", pa.binary())]))


def _key(row: dict[str, Any], name: str) -> str | None:
    if name == "path":
        return "{src} > {dst} {protocol} {direction}".format(**row)
    if name in _PERIODS:
        return str(row["hour_start"].strftime(_PERIODS[name]))
    return None if row[name] is None else str(row[name])


def duckdb(connection: Any) -> Any:
    """Adds two functions to a connection of DuckDB, and returns it: `jitlat_merge(list(state))`, and `jitlat_figure(state, 'latency-p99')`."""
    connection.create_function("jitlat_merge", merge, ["BLOB[]"], "BLOB", null_handling="special")
    connection.create_function("jitlat_figure", figure, ["BLOB", "VARCHAR"], "DOUBLE", null_handling="special")
    return connection


class MergedStates:
    """Accumulator of `jitlat_merge` in ClickHouse: states as Base64, because Python receives its strings as text."""

    def __init__(self) -> None:
        self.pool = jitlat.Pool()

    def update(self, state: str) -> None:
        self.pool.merge(jitlat.Pool.load(base64.b64decode(state)))

    def merge(self, other: MergedStates) -> None:
        self.pool.merge(other.pool)

    def evaluate(self) -> str:
        return base64.b64encode(self.pool.bytes()).decode()


def _base64_figure(state: str, name: str) -> float | None:
    return figure(base64.b64decode(state), name)


def chdb() -> None:
    """Adds two functions to the embedded ClickHouse (chdb) of this process: the aggregate `jitlat_merge(base64Encode(state))`, and
    `jitlat_figure(merged, 'latency-p99')`."""
    # `chdb` itself does not offer the aggregates of its extension (4.4.0).
    clickhouse: Any = importlib.import_module("chdb._chdb")
    clickhouse.create_aggregate_function("jitlat_merge", MergedStates, ["String"], "String")
    clickhouse.create_function("jitlat_figure", _base64_figure, ["String", "String"], "Nullable(Float64)")


def iceberg(lake: str | os.PathLike[str], catalog: Any, *, namespace: str = "jitlat", filesystem: Any = None) -> dict[str, int]:
    """Registers the files of a lake as Iceberg tables `packets`, `summaries` and `rollups` of a catalog of pyiceberg, without copying them. Each
    call makes the tables equal to the manifests, in one snapshot per table; a call that finds nothing new makes none. Returns the number of files that were
    added to each table. Older snapshots refer to files that a publication with `again` removes."""
    system, root = _located(lake, filesystem)
    text = os.fspath(lake)
    base = text.rstrip("/") if "://" in text else "file://" + os.path.abspath(text)
    catalog.create_namespace_if_not_exists(namespace)
    added = {}
    for name in TABLES:
        listed = published(lake, name, filesystem)
        wanted = {f"{base}/{path}" for path in listed}
        if not wanted and not catalog.table_exists(f"{namespace}.{name}"):
            continue
        newest = []
        if listed:
            # All versions of a table have the columns of the earlier ones.
            with system.open_input_file(f"{root}/{listed[-1]}") as file:
                newest = [field.with_nullable(True) for field in pq.read_schema(file)]
        table = catalog.create_table_if_not_exists(f"{namespace}.{name}", schema=pa.schema(newest))
        added[name] = _synchronise(table, wanted, pa.schema(newest))
    return added


def _synchronise(table: Any, wanted: set[str], schema: pa.Schema) -> int:
    """Makes the data files of an Iceberg table equal to `wanted`, in one transaction. Returns the number of new files."""
    there = {task.file.file_path: task.file for task in table.scan().plan_files()}
    new, gone = sorted(wanted - there.keys()), [file for path, file in there.items() if path not in wanted]
    if not new and not gone:
        return 0
    with table.transaction() as transaction:
        known = {field.name for field in table.schema().fields}
        if more := [field for field in schema if field.name not in known]:
            with transaction.update_schema() as update:
                update.union_by_name(pa.schema([*table.schema().as_arrow(), *more]))
        if gone:
            with transaction.update_snapshot().overwrite() as snapshot:
                for file in gone:
                    snapshot.delete_data_file(file)
        if new:
            transaction.add_files(new)
    return len(new)

