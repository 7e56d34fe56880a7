"""Spark, Dask and Ray give the same bytes as the command, and exchange no packets. `just cluster` provides the engines; without them the tests are skipped."""

import os
import re
import subprocess
import sys

import conftest
import pyarrow as pa
import pytest

from jitlat import files

#: Seconds of a test: engines start many processes.
LIMIT = 600
SIZES = [1, 997, 65536]
BY = ("path", "day")


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    sql = pytest.importorskip("pyspark.sql")
    folder = str(tmp_path_factory.mktemp("spark"))
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": folder}
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    session = builder.config("spark.sql.warehouse.dir", folder).config("spark.sql.shuffle.partitions", "2").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    distributed = pytest.importorskip("distributed")
    folder = str(tmp_path_factory.mktemp("dask"))
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, local_directory=folder) as cluster, distributed.Client(cluster):
        yield


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    yield ray
    ray.shutdown()


def on_spark(spark):
    from jitlat import spark as jitlat_spark

    return jitlat_spark, lambda frame: frame.toArrow()


def on_dask(dask):
    from jitlat import dask as jitlat_dask

    return jitlat_dask, lambda delayed: delayed.compute()


def on_ray(ray):
    from jitlat import ray as jitlat_ray

    return jitlat_ray, ray.get


@pytest.fixture(scope="module", params=[on_spark, on_dask, on_ray], ids=["spark", "dask", "ray"])
def engine(request):
    """The module of an engine, and a function that makes a table of its result."""
    name = request.param.__name__.removeprefix("on_")
    return request.param(request.getfixturevalue(name))


@pytest.fixture(scope="module")
def expected(logs):
    return {log.name: conftest.run("-f", log, "--json", "-") for log in logs}


@pytest.fixture(scope="module")
def groups(archive):
    """The roll-up computed by this process."""
    return files.figures(pa.concat_tables(files.pools(file, by=BY) for file in files.names(archive)), by=BY)


@pytest.mark.parametrize("size", SIZES)
def test_same_bytes(engine, archive, expected, size):
    module, table = engine
    rows = table(module.summaries(archive, json=True, batch=size)).to_pylist()
    assert {row["log"]: row["json"] for row in rows} == expected


def test_rollups(engine, archive, groups):
    module, table = engine
    order = [(key, "ascending") for key in BY]
    assert table(module.rollup(archive, by=BY)).sort_by(order).to_pylist() == groups.sort_by(order).to_pylist()


def test_rollups_are_those_of_the_command(archive, groups):
    lines = conftest.run("analyze", "--dataset", archive, "--by", "path,day").splitlines()[1:]
    said = [re.split(r"  +", line)[:4] for line in lines]
    found = [[group["path"], group["day"], str(group["tests"]), f"{group['sent']:.0f}"] for group in groups.to_pylist()]
    assert found == said


def test_rollups_by_tags_and_hours(archive):
    by = ("hour", "src", "no such tag")
    found = files.figures(pa.concat_tables(files.pools(file, by=by) for file in files.names(archive)), by=by).to_pylist()
    assert sum(group["tests"] for group in found) == len(conftest.LOGS)
    assert all(group["hour"].endswith(":00") and group["no such tag"] is None for group in found)


def test_captures(engine, tmp_path):
    module, table = engine
    spp = conftest.ROOT / "testdata/spp"
    pair = (spp / "atm_loss_udp340.ref.pcap", spp / "atm_loss_udp340.mon.pcap")
    good, bad = sorted(table(module.captures([pair, (tmp_path / "none", pair[1])])).to_pylist(), key=lambda row: row["json"] is None)
    assert good["json"] == conftest.run("spp", "-f", pair[0], "-F", pair[1], "--json", "-") and good["error"] is None
    assert bad["json"] is None and bad["error"]


def test_spark_exchanges_no_packets(spark, archive, capsys):
    from jitlat import spark as jitlat_spark

    jitlat_spark.summaries(archive).explain()
    plan = capsys.readouterr().out
    assert "MapInArrow" in plan and "Exchange" not in plan
    jitlat_spark.rollup(archive, by=BY).explain()
    plan = capsys.readouterr().out
    # One exchange, of pools: it is above the step that reads the files.
    assert plan.count("Exchange") == 1 and plan.index("Exchange") < plan.index("MapInArrow")
    assert "sent_ns" not in plan


def test_small_files_share_tasks(tmp_path):
    names = [str(tmp_path / str(k)) for k in range(8)]
    for name in names:
        with open(name, "wb") as file:
            file.write(bytes(100))
    assert files.tasks(names) == [names]
    assert files.tasks(names, 4) == [names[k : k + 2] for k in range(0, 8, 2)]
    assert files.tasks(names, 100) == [[name] for name in names]
    assert files.tasks([]) == []


def test_of_one_process(archive, expected):
    for size in SIZES:
        rows = [row for file in files.names(archive) for row in files.summaries(file, document=True, batch=size).to_pylist()]
        assert {row["log"]: row["json"] for row in rows} == expected


def test_a_folder_without_files(tmp_path):
    import jitlat

    with pytest.raises(jitlat.Error, match="no Parquet files"):
        files.names(tmp_path)


def test_without_engines():
    """The module itself needs neither the engines nor pyarrow."""
    code = "import sys, jitlat; assert not {'pyarrow', 'pyspark', 'dask', 'ray'} & sys.modules.keys()"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
