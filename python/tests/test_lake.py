"""A published archive has the figures of the archive, in every program that reads it: with the queries of docs/guide/lake.md."""

import csv
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

import conftest
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import jitlat
from jitlat import files, lake

#: Seconds of a test: Spark and moto start slowly.
LIMIT = 600
TEXT = (conftest.ROOT / "docs/guide/lake.md").read_text()
GRAFANA = conftest.ROOT / "examples/grafana"


def query(engine, folder):
    """The page's query for an engine."""
    (sql,) = re.findall(rf"```sql\n-- {engine}\n(.*?);\n```", TEXT, re.DOTALL)
    return sql.replace("LAKE", str(folder))


@pytest.fixture(scope="module", autouse=True)
def clickhouse():
    """The functions of the module, which a process of chdb takes once."""
    try:
        lake.chdb()
    except ModuleNotFoundError:
        pass


@pytest.fixture(scope="module")
def folder(archive, tmp_path_factory):
    """A lake with the archive of all known logs."""
    folder = tmp_path_factory.mktemp("lake") / "lake"
    counts = jitlat.Archive(archive).publish(folder, name="net")
    assert counts["tests"] == len(conftest.LOGS) and not counts["unreadable"]
    assert jitlat.Archive(archive).publish(folder, name="net")["files"] == 0
    return folder


@pytest.fixture(scope="module")
def months(archive):
    """Output of `archive query`: (src, dst, protocol, direction, month): p99 of latency."""
    text = conftest.run("archive", "query", archive, "--figure", "latency-p99", "--by", "month", "--csv")
    found = {}
    for row in csv.DictReader(io.StringIO(text)):
        month = time.strftime("%Y-%m", time.gmtime(int(row["start_ns"]) // 10**9))
        key = (row["src"], row["dst"], row["protocol"], row["direction"], month)
        value = float(row["latency_p99_ns"]) if row["latency_p99_ns"] else None
        found.setdefault(key, []).append(value)
    return found


def same_months(rows, months):
    """Compares merged roll-ups with `archive query`, where these hosts have one stream in a month: the query divides them further."""
    found = {tuple(row[:5]): row[5] for row in rows}
    assert found.keys() == months.keys()
    alone = {key: values[0] for key, values in months.items() if len(values) == 1}
    assert len(alone) > 3
    for key, value in alone.items():
        assert found[key] == value, key


def test_the_command_and_the_module_publish_the_same(archive, folder, tmp_path):
    conftest.run("archive", "publish", archive, tmp_path / "lake", "--name", "net")
    ours, theirs = ({file["path"]: (file["rows"], file["sha256"]) for file in lake.manifests(at)[0]["files"]} for at in (folder, tmp_path / "lake"))
    assert ours == theirs


def test_packets_are_whole_tests(folder, logs):
    expected = {log.name: conftest.run("-f", log, "--json", "-") for log in logs}
    seen = {}
    for name in lake.published(folder, "packets"):
        for summary in files.tests(str(folder / name)):
            seen[summary.name_of_log] = summary.json()
    assert seen == expected


def test_summaries_are_those_of_the_archive(archive, folder):
    table = pa.table(jitlat.Archive(archive).ls(figures="all")).to_pylist()
    listed = {row["id"]: row for row in table}
    rows = [row for batch in lake.batches(folder, "summaries") for row in batch.to_pylist()]
    assert {row["id"] for row in rows} == listed.keys() and len(rows) == len(listed)
    for row in rows:
        test = listed[row["id"]]
        for name in test.keys() - {"started", "has_packets"}:
            assert row[name] == test[name], name
        assert row["started_ns"] == test["started"].value and int(row["id"], 16) == row["test_id"]
        assert lake.figure(row["state"], "loss") == row["loss"]


def test_types_that_every_reader_maps(folder):
    for table in lake.TABLES:
        for name in lake.published(folder, table):
            kinds = {str(field.type) for field in pq.read_schema(folder / name)}
            assert kinds <= {"int64", "int32", "int16", "string", "double", "binary", "timestamp[us, tz=UTC]"}, kinds


def test_one_process(folder, months):
    table = lake.rollup(folder, by=(*files.STREAM, "month"))
    rows = [(row["src"], row["dst"], row["protocol"], row["direction"], row["month"], row["latency_p99"]) for row in table.to_pylist()]
    same_months(rows, months)
    assert lake.rollup(folder, by=("path",)).num_rows > 1
    with pytest.raises(ValueError, match="by=color"):
        lake.rollup(folder, by=("color",))


def test_duckdb(folder, months):
    duckdb = pytest.importorskip("duckdb")
    connection = lake.duckdb(duckdb.connect())
    same_months(connection.execute(query("DuckDB merged", folder)).fetchall(), months)
    plain = connection.execute(query("DuckDB", folder)).fetchall()
    assert sum(row[3] for row in plain) == len(conftest.LOGS)
    packets = dict((row[0], row[1]) for row in connection.execute(query("DuckDB packets", folder)).fetchall())
    assert len(packets) > 3
    with pytest.raises(duckdb.Error, match="not a figure"):
        connection.execute("SELECT jitlat_figure(''::BLOB, 'colour')").fetchall()


def lines(text):
    return [[None if cell == "\\N" else cell for cell in line.split("\t")] for line in str(text).splitlines()]


def test_clickhouse(folder, months):
    chdb = pytest.importorskip("chdb")
    rows = lines(chdb.query(query("ClickHouse merged", folder), "TabSeparated"))
    same_months([(*row[:5], None if row[5] is None else float(row[5])) for row in rows], months)
    plain = lines(chdb.query(query("ClickHouse", folder), "TabSeparated"))
    assert sum(int(row[3]) for row in plain) == len(conftest.LOGS)


def test_the_same_in_duckdb_and_clickhouse(folder):
    duckdb, chdb = pytest.importorskip("duckdb"), pytest.importorskip("chdb")
    ours = duckdb.connect().execute(query("DuckDB", folder)).fetchall()
    theirs = lines(chdb.query(query("ClickHouse", folder), "TabSeparated"))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert list(mine[:2]) == other[:2] and mine[3] == int(other[3])
        for a, b in zip(mine[4:], other[4:]):
            assert (a is None) == (b in (None, "nan")) and (a is None or abs(a - float(b)) <= 1e-9 * abs(a))


def test_trino_would_parse_its_query():
    sqlglot = pytest.importorskip("sqlglot")
    tree = sqlglot.parse_one(query("Trino", "none"), read="trino")
    known = {attribute for attribute, *_ in jitlat.scalar_attributes()} | {"src", "dst", "started"}
    assert {column.name for column in tree.find_all(sqlglot.exp.Column)} <= known


def test_spark(folder, months, tmp_path):
    sql = pytest.importorskip("pyspark.sql")
    from jitlat import spark as jitlat_spark

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path)}
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    session = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        plain = session.sql(query("Spark", folder)).collect()
        assert sum(row["tests"] for row in plain) == len(conftest.LOGS)
        rollups = session.read.parquet(f"{folder}/rollups")
        month = sql.functions.date_format("hour_start", "yyyy-MM").alias("month")
        merged = rollups.groupBy(*files.STREAM, month).agg(jitlat_spark.merge(rollups.state).alias("state"))
        rows = merged.select(*files.STREAM, "month", jitlat_spark.figure(merged.state, "latency-p99").alias("p99")).collect()
        same_months(rows, months)
    finally:
        session.stop()


@pytest.fixture
def catalog(tmp_path):
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")


def test_iceberg(archive, folder, catalog, tmp_path, monkeypatch):
    counts = lake.iceberg(folder, catalog)
    assert counts == {table: len(lake.published(folder, table)) for table in lake.TABLES}
    assert lake.iceberg(folder, catalog) == dict.fromkeys(lake.TABLES, 0)
    summaries = catalog.load_table("jitlat.summaries")
    assert len(summaries.history()) == 1
    found = summaries.scan(selected_fields=("id", "loss", "state"), row_filter="loss >= 0").to_arrow().to_pylist()
    expected = {row.id: row.loss for row in jitlat.Archive(archive).ls() if row.loss is not None}
    assert {row["id"]: row["loss"] for row in found} == expected
    packets = catalog.load_table("jitlat.packets").scan().to_arrow()
    assert packets.num_rows == sum(file["rows"] for file in lake.manifests(folder)[0]["files"] if file["table"] == "packets")
    if chdb := sys.modules.get("chdb"):
        # It reads Iceberg tables below the current folder only.
        monkeypatch.chdir(tmp_path.parent)
        location = catalog.load_table("jitlat.rollups").location().removeprefix("file://")
        tests = str(chdb.query(f"SELECT sum(tests) FROM icebergLocal('{location}/')", "TabSeparated"))
        assert int(tests) == len(conftest.LOGS)


def test_iceberg_follows_what_is_published(logs, catalog, tmp_path):
    opened, to = jitlat.Archive(tmp_path / "net", create=True), tmp_path / "lake"
    for k, log in enumerate(logs[:3]):
        opened.add(log)
        opened.publish(to)
        assert lake.iceberg(to, catalog) == dict.fromkeys(lake.TABLES, 1)
        table = catalog.load_table("jitlat.summaries")
        assert table.scan().to_arrow().num_rows == k + 1 and len(table.history()) == k + 1
    # Everything again, in other files.
    opened.publish(to, again=True)
    lake.iceberg(to, catalog)
    assert catalog.load_table("jitlat.summaries").scan().to_arrow().num_rows == 3


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """A store like S3 on this host."""
    pytest.importorskip("moto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = open(tmp_path_factory.mktemp("moto") / "log", "wb")
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5)
            break
        except OSError:
            assert server.poll() is None and time.monotonic() < until, "moto did not start"
            time.sleep(0.1)
    yield port
    server.terminate()
    server.wait(30)


def test_s3(archive, folder, s3, months, tmp_path):
    options = {"access_key": "a", "secret_key": "b", "endpoint_override": f"127.0.0.1:{s3}", "scheme": "http", "region": "us-east-1"}
    system = pyarrow.fs.S3FileSystem(**options, allow_bucket_creation=True)
    system.create_dir("bucket")
    opened = jitlat.Archive(archive)
    assert opened.publish("bucket/lake", name="net", filesystem=system)["tests"] == len(conftest.LOGS)
    assert opened.publish("bucket/lake", name="net", filesystem=system)["files"] == 0
    assert lake.manifests("bucket/lake", system) == lake.manifests(folder)
    uri = f"s3://a:b@bucket/lake?endpoint_override=127.0.0.1:{s3}&scheme=http&region=us-east-1"
    assert pyarrow.fs.FileSystem.from_uri(uri)[1] == "bucket/lake"
    table = lake.rollup("bucket/lake", by=(*files.STREAM, "month"), filesystem=system)
    rows = [(*(row[name] for name in (*files.STREAM, "month")), row["latency_p99"]) for row in table.to_pylist()]
    same_months(rows, months)
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    store = {"s3.endpoint": f"http://127.0.0.1:{s3}", "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
    catalog = SqlCatalog("s3", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="s3://bucket/warehouse", **store)
    lake.iceberg("s3://bucket/lake", catalog, filesystem=system)
    assert catalog.load_table("jitlat.summaries").scan().to_arrow().num_rows == len(conftest.LOGS)


class Broken:
    """A file system that fails after some writes."""

    def __init__(self, left):
        self.inner, self.left = pyarrow.fs.LocalFileSystem(), left

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def open_output_stream(self, path):
        self.left -= 1
        if self.left < 0:
            raise OSError("the network is down")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return self.inner.open_output_stream(path)


def test_a_store_that_fails(archive, folder, tmp_path):
    opened, to = jitlat.Archive(archive), str(tmp_path / "lake")
    with pytest.raises(jitlat.Error, match="the network is down"):
        opened.publish(to, name="net", filesystem=Broken(3))
    assert opened.publish(to, name="net", filesystem=Broken(10**6))["removed"] == 3
    assert lake.manifests(to) == lake.manifests(folder)
    with pytest.raises(jitlat.Error, match="not a lake"):
        lake.manifests(tmp_path / "none")


def panels(name):
    """Titles and queries of a dashboard, with Grafana's variables replaced."""
    dashboard = json.loads((GRAFANA / name).read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            sql = target["rawSql"].replace("$__timeFilter(started)", "started >= '2000-01-01'").replace("${path:sqlstring}", "'%'")
            yield panel["title"], sql


def statements(name, folder):
    text = (GRAFANA / name).read_text().replace("LAKE", str(folder))
    return [part for part in re.sub(r"^--.*$", "", text, flags=re.M).split(";") if part.strip()]


def test_panels_of_duckdb(folder):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for statement in statements("lake-duckdb.sql", folder):
        connection.execute(statement)
    found = {title: connection.execute(sql).fetchall() for title, sql in panels("lake-duckdb.json")}
    assert len(found) >= 5 and all(found.values()), {title: len(rows) for title, rows in found.items()}


def test_panels_of_clickhouse(folder, tmp_path):
    pytest.importorskip("chdb")
    from chdb import session

    with session.Session(str(tmp_path)) as connection:
        for statement in statements("lake.sql", folder):
            connection.query(statement)
        found = {title: str(connection.query(sql, "TabSeparated")).splitlines() for title, sql in panels("lake.json")}
    assert len(found) >= 5 and all(found.values()), {title: len(rows) for title, rows in found.items()}
    assert found.keys() == {title for title, _ in panels("lake-duckdb.json")}
