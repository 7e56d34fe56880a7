"""The work on one file of an archive, which `jitlat.spark`, `jitlat.dask` and `jitlat.ray` have in common.

The unit of work is a file, which contains whole tests, in order. Packets never leave the worker that read them, only summaries and pools do.
Everything here takes and returns Arrow tables, and needs pyarrow.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, LocalFileSystem

import jitlat

#: Periods in UTC, as numbers of characters of `2026-11-23 10:00`.
PERIODS = {"hour": 16, "day": 10, "month": 7, "year": 4}
STREAM = ("src", "dst", "protocol", "direction")


def column(scalar: str) -> str:
    """Name of a scalar's column, for engines in which dots and dashes have a meaning: `latency_p99_9` for `latency-p99.9`."""
    return re.sub(r"\W", "_", scalar)


#: The scalars of `jitlat.scalars()`, in its units (times in ns), as columns.
SCALARS = {name: column(name) for name, *_ in jitlat.scalars()}
POOLED = {name: column(name) for name in jitlat.Pool().scalars}


def _fields(names: Iterable[str], kind: Any) -> list[Any]:
    return [pa.field(name, kind) for name in names]


#: One row per test. `json` is the output of `jitlat -f LOG --json -`, if requested.
SUMMARIES = pa.schema(
    [*_fields(("id", "name", "log"), pa.string()), pa.field("started_ns", pa.int64()), *_fields((*STREAM, "tags", "json"), pa.string())]
    + _fields(SCALARS.values(), pa.float64())
)
#: One row per pair of captures.
CAPTURES = pa.schema(_fields(("reference", "monitor", "json", "error"), pa.string()))


def partial(by: Sequence[str]) -> pa.Schema:
    """One row per group and file: its keys, and the pool as text."""
    return pa.schema(_fields((*by, "pool"), pa.string()))


def groups(by: Sequence[str]) -> pa.Schema:
    """One row per group: its keys, number of tests, pooled scalars, and the pool as text (`jitlat.Pool.load`)."""
    scalars = _fields(POOLED.values(), pa.float64())
    return pa.schema([*_fields(by, pa.string()), pa.field("tests", pa.int64()), *scalars, pa.field("pool", pa.string())])


def _system(file: str) -> tuple[Any, str]:
    """The file system and path of a path or URI (`s3://`, `gs://`, `hdfs://`, `file://`)."""
    return FileSystem.from_uri(file) if "://" in file else (LocalFileSystem(), file)


def names(dataset: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files of an archive (a folder, or its URI), or of a list, in order."""
    if not isinstance(dataset, (str, os.PathLike)):
        return [os.fspath(file) for file in dataset]
    dataset = os.fspath(dataset)
    system, root = _system(dataset)
    found = system.get_file_info(FileSelector(root, recursive=True))
    scheme = dataset.split("://")[0] + "://" if "://" in dataset else ""
    files = sorted(scheme + info.path for info in found if info.is_file and info.extension == "parquet")
    if not files:
        raise jitlat.Error(f"{dataset} contains no Parquet files")
    return files


#: Maximum total size of small files that are one task of an engine, in bytes.
TASK_BYTES = 32 << 20


def tasks(names: Sequence[str], at_least: int = 1) -> list[list[str]]:
    """Divides files into tasks of about 32 MB, so that many small files are few tasks; into smaller ones if there would be fewer than
    `at_least` tasks."""
    if not names:
        return []
    system, _ = _system(names[0])
    sizes = [info.size or 0 for info in system.get_file_info([_system(name)[1] for name in names])]
    most = min(TASK_BYTES, sum(sizes) // max(at_least, 1))
    parts: list[list[str]] = [[]]
    filled = 0
    for name, size in zip(names, sizes, strict=True):
        if parts[-1] and filled + size > most:
            parts.append([])
            filled = 0
        parts[-1].append(name)
        filled += size
    return parts


def tests(file: str, *, batch: int = 65536, bulk: bool = False) -> Iterator[jitlat.Summary]:
    """The summary of each test of a file, which is read `batch` rows at a time."""
    system, path = _system(file)
    with system.open_input_file(path) as opened:
        parquet = pq.ParquetFile(opened)
        packets = pa.RecordBatchReader.from_batches(parquet.schema_arrow, parquet.iter_batches(batch))
        yield from jitlat.summaries(packets, bulk=bulk)


def key(summary: jitlat.Summary, name: str) -> str | None:
    """The value by which a test is grouped: `path`, a part of it (`src`, `dst`, `protocol`, `direction`), a period (`hour`, `day`, `month`, `year`), or a tag."""
    stream = summary.stream
    if name == "path":
        return "{src} > {dst} {protocol} {direction}".format(**stream)
    if name in PERIODS:
        began = datetime.fromtimestamp((summary.started_ns or 0) // 10**9, UTC).replace(minute=0)
        return f"{began:%Y-%m-%d %H:%M}"[: PERIODS[name]]
    return str(stream[name]) if name in STREAM else summary.tags.get(name)


def summaries(file: str, *, document: bool = False, batch: int = 65536) -> pa.Table:
    """The table `SUMMARIES` of a file. Without `document` the bootstrap of intervals is skipped, which takes most of the time of a small test."""
    rows = []
    for summary in tests(file, batch=batch, bulk=not document):
        stream, known = summary.stream, summary.scalars
        row: dict[str, Any] = {"id": summary.id, "name": summary.name, "log": summary.name_of_log, "started_ns": summary.started_ns}
        row |= {name: stream[name] for name in STREAM}
        row |= {"tags": json.dumps(summary.tags), "json": summary.json() if document else None}
        rows.append(row | {column: known.get(name) for name, column in SCALARS.items()})
    return pa.Table.from_pylist(rows, SUMMARIES)


def pools(file: str, *, by: Sequence[str] = ("path",), batch: int = 65536) -> pa.Table:
    """The table `partial(by)` of a file."""
    found: dict[tuple[str | None, ...], jitlat.Pool] = {}
    for summary in tests(file, batch=batch, bulk=True):
        keys = tuple(key(summary, name) for name in by)
        found.setdefault(keys, jitlat.Pool()).merge(jitlat.Pool(summary))
    return _table(found, by)


def _table(found: dict[tuple[str | None, ...], jitlat.Pool], by: Sequence[str]) -> pa.Table:
    order = sorted(found, key=lambda keys: [text or "" for text in keys])
    return pa.Table.from_pylist([dict(zip(by, keys)) | {"pool": found[keys].json()} for keys in order], partial(by))


def merged(table: pa.Table, *, by: Sequence[str] = ("path",)) -> pa.Table:
    """Merges concatenated tables of pools to one row per group. Order and number of steps do not change the result."""
    found: dict[tuple[str | None, ...], jitlat.Pool] = {}
    for batch in table.to_batches(max_chunksize=1):
        for row in batch.to_pylist():
            found.setdefault(tuple(row[name] for name in by), jitlat.Pool()).merge(jitlat.Pool.load(row["pool"]))
    return _table(found, by)


def figures(table: pa.Table, *, by: Sequence[str] = ("path",)) -> pa.Table:
    """The table `groups(by)` of a table of pools."""
    rows = merged(table, by=by).to_pylist()
    for row in rows:
        pool = jitlat.Pool.load(row["pool"])
        row |= {"tests": pool.tests} | {POOLED[name]: value for name, value in pool.scalars.items()}
    return pa.Table.from_pylist(rows, groups(by))


def captures(reference: str | os.PathLike[str], monitor: str | os.PathLike[str]) -> pa.Table:
    """The row of `CAPTURES` for a pair: the output of `jitlat spp --json`, or the error."""
    row: dict[str, Any] = {"reference": os.fspath(reference), "monitor": os.fspath(monitor)}
    try:
        row["json"] = jitlat.spp(row["reference"], row["monitor"]).json()
    except (jitlat.Error, OSError, ValueError) as error:
        row["error"] = str(error)
    return pa.Table.from_pylist([row], CAPTURES)
