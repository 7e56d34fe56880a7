"""Archives on Spark. Each file of a dataset, or several small ones, is a task; rows of packets never enter Spark.

A task reads its files with pyarrow and analyses their tests. The workers' Python needs this module, pyarrow and pandas; files are paths or URIs that every worker can read.

    summaries = jitlat.spark.summaries("s3://bucket/archive")                  # one row per test
    days = jitlat.spark.rollup("s3://bucket/archive", by=("path", "day"))      # one row per path and day, exact
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from . import files, lake


def _schema(schema: pa.Schema) -> StructType:
    converted = from_arrow_schema(schema)
    assert isinstance(converted, StructType)
    return converted


def _over(items: Sequence[tuple[str, ...]], columns: str, work: Callable[..., pa.Table], schema: pa.Schema) -> DataFrame:
    """Makes each row of `items` a task; `work` returns its table."""
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    rows = spark.createDataFrame(spark.sparkContext.parallelize(items, len(items) or 1), columns)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from work(*row.values()).to_batches()

    return rows.mapInArrow(run, _schema(schema))


def _over_files(dataset: Any, work: Callable[..., pa.Table], schema: pa.Schema) -> DataFrame:
    """Makes each file, or several small ones, a task."""
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    # Four tasks per core: a lost one is repeated soon, and all cores end at about the same time.
    tasks = files.tasks(files.names(dataset), 4 * spark.sparkContext.defaultParallelism)
    return _over([("\n".join(names),) for names in tasks], "files string", partial(_of_each, work), schema)


def _of_each(work: Callable[..., pa.Table], names: str) -> pa.Table:
    return pa.concat_tables(work(name) for name in names.split("\n"))


def summaries(dataset: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, json: bool = False, batch: int = 65536) -> DataFrame:
    """A DataFrame with one row per test: its stream, its tags, all scalars (times in ns), and with `json` the output of `jitlat -f LOG --json -`."""
    work = partial(files.summaries, document=json, batch=batch)
    return _over_files(dataset, work, files.SUMMARIES)


def rollup(
    dataset: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, by: Sequence[str] = ("path",), batch: int = 65536
) -> DataFrame:
    """A DataFrame with one row per group of tests with the same values of `by` (see `jitlat.files.key`): figures of all their packets. Spark exchanges
    pools, about a hundred kilobytes per group and file."""
    by = tuple(by)
    work = partial(files.pools, by=by, batch=batch)
    pools = _over_files(dataset, work, files.partial(by))
    return pools.groupBy(*by).applyInArrow(partial(files.figures, by=by), _schema(files.groups(by)))


def captures(pairs: Iterable[tuple[str | os.PathLike[str], str | os.PathLike[str]]]) -> DataFrame:
    """A DataFrame with one row per pair (reference, monitor) of captures: the output of `jitlat spp --json -`, or the error."""
    return _over([(str(reference), str(monitor)) for reference, monitor in pairs], "reference string, monitor string", files.captures, files.CAPTURES)


def _merged_states(states: pd.Series) -> bytes:  # type: ignore[type-arg,unused-ignore]
    return lake.merge(states) or b""


def merge(states: Column) -> Column:
    """Aggregate of a column of states, such as `state` of the roll-ups of a lake: the state of all tests of a group."""
    # The types of pandas_udf do not include aggregates that return bytes.
    aggregate: Any = pandas_udf
    merged: Column = aggregate(_merged_states, "binary")(states)
    return merged


def figure(state: Column, name: str) -> Column:
    """A figure of a column of states, by its name (`latency-p99`): times in ns, ratios from 0 to 1; null if it is undefined."""

    def of(state: bytes | None) -> float | None:
        return lake.figure(state or None, name)

    return sql.udf(of, "double")(state)
