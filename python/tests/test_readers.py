"""Other programs read the files of an archive directly, with the queries of docs/guide/cluster.md."""

import os
import re
import sys

import conftest
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

#: Seconds of a test: Spark starts slowly.
LIMIT = 600
TEXT = (conftest.ROOT / "docs/guide/cluster.md").read_text()


def query(engine, archive):
    """Returns the page's query for an engine."""
    (sql,) = re.findall(rf"```sql\n-- {engine}\n(.*?);\n```", TEXT, re.DOTALL)
    return sql.replace("DIR", str(archive))


@pytest.fixture(scope="module")
def expected(archive):
    """Returns for each test its number, the number of packets with both times, and the exact p99.9 of the differences."""
    table = pa.concat_tables(
        [pq.read_table(f, columns=["test_id", "sent_ns", "arrived_ns"], partitioning=None) for f in sorted(archive.glob("packets/*/*.parquet"))]
    )
    found = []
    for test in table["test_id"].unique().to_pylist():
        mine = table.filter(pa.compute.equal(table["test_id"], test)).drop_null()
        delay = np.sort(mine["arrived_ns"].to_numpy() - mine["sent_ns"].to_numpy())
        if delay.size:
            found.append((test, delay.size, int(delay[max(0, int(np.ceil(0.999 * delay.size)) - 1)])))
    return sorted(found)


def same(rows, expected, within=0):
    rows = sorted((int(test), int(packets), int(p999)) for test, packets, p999 in rows)
    assert [row[:2] for row in rows] == [row[:2] for row in expected]
    for row, right in zip(rows, expected):
        assert abs(row[2] - right[2]) <= within * abs(right[2]), (row, right)


def test_pyarrow(archive):
    for file in archive.glob("packets/*/*.parquet"):
        schema = pq.read_schema(file)
        assert {str(field.type) for field in schema} <= {"int64", "int32", "int16"}


def test_duckdb(archive, expected):
    duckdb = pytest.importorskip("duckdb")
    same(duckdb.sql(query("DuckDB", archive)).fetchall(), expected)


def test_polars(archive, expected):
    pl = pytest.importorskip("polars")
    delay = pl.col("arrived_ns") - pl.col("sent_ns")
    lazy = pl.scan_parquet(f"{archive}/packets/*/*.parquet", missing_columns="insert", extra_columns="ignore").filter(delay.is_not_null())
    found = lazy.group_by("test_id").agg(pl.len(), delay.quantile(0.999, "higher").alias("p999")).collect()
    # Its ranks refer to n - 1.
    same(found.rows(), expected, within=1)


def test_clickhouse(archive, expected):
    chdb = pytest.importorskip("chdb")
    text = str(chdb.query(query("ClickHouse", archive), "TabSeparated"))
    same([line.split("\t") for line in text.splitlines()], expected, within=1)


def test_spark(archive, expected, tmp_path):
    sql = pytest.importorskip("pyspark.sql")
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path)}
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g").getOrCreate()
    types = session.read.parquet(f"{archive}/packets").drop("day").dtypes
    assert {kind for _, kind in types} <= {"bigint", "int", "smallint"}
    same(session.sql(query("Spark", archive)).collect(), expected, within=1)
