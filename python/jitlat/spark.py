"""Archives on Spark. Each file of a dataset is a task that reads it with pyarrow and analyses its tests; rows of packets never enter Spark, and are never
exchanged. The workers' Python needs this module, pyarrow and pandas; files are paths or URIs that every worker can read.

    summaries = jitlat.spark.summaries("s3://bucket/archive")                  # one row per test
    days = jitlat.spark.rollup("s3://bucket/archive", by=("path", "day"))      # one row per path and day, exact
"""

from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from . import files


def _over(items, columns, work, schema):
    """Makes each row of `items` a task; `work` returns its table."""
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    rows = spark.createDataFrame(spark.sparkContext.parallelize(items, len(items) or 1), columns)

    def run(batches):
        for batch in batches:
            for row in batch.to_pylist():
                yield from work(*row.values()).to_batches()

    return rows.mapInArrow(run, from_arrow_schema(schema))


def summaries(dataset, *, json=False, batch=65536):
    """A DataFrame with one row per test: its stream, its tags, all scalars (times in ns), and with `json` the output of `jitlat -f LOG --json -`."""
    work = partial(files.summaries, document=json, batch=batch)
    return _over([(file,) for file in files.names(dataset)], "file string", work, files.SUMMARIES)


def rollup(dataset, *, by=("path",), batch=65536):
    """A DataFrame with one row per group of tests with the same values of `by` (see `jitlat.files.key`): figures of all their packets. Spark exchanges
    pools, about a hundred kilobytes per group and file."""
    by = tuple(by)
    work = partial(files.pools, by=by, batch=batch)
    pools = _over([(file,) for file in files.names(dataset)], "file string", work, files.partial(by))
    return pools.groupBy(*by).applyInArrow(partial(files.figures, by=by), from_arrow_schema(files.groups(by)))


def captures(pairs):
    """A DataFrame with one row per pair (reference, monitor) of captures: the output of `jitlat spp --json -`, or the error."""
    return _over([tuple(map(str, pair)) for pair in pairs], "reference string, monitor string", files.captures, files.CAPTURES)
