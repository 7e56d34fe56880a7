"""A year of a mesh of 100 hosts on two collectors, published to a lake: every program must compute the figures of the archives.

    python year.py --minutes 1 --folder /tmp/year        (JITLAT: the command)
"""

import argparse
import csv
import io
import os
import pathlib
import shutil
import subprocess
import sys
import time
from time import asctime, gmtime, strftime

import numpy as np
import pyarrow as pa
import pyarrow.csv

import jitlat
from jitlat import files, lake

HOSTS, NEIGHBOURS = 100, 4
#: Tests that are made together.
STEP = 100
#: 2025-12-01 00:00 UTC, and a year.
BEGIN, YEAR = 1_764_547_200_000_000_000, 365 * 86_400_000_000_000
PERIOD = 20_000_000
COLLECTORS = ("north", "south")
FIGURES = ("sent", "loss", "latency-p99", "pdv-p99.9", "ipdv-mean-abs")
COLUMNS = [lake.files.column(name) for name in FIGURES]
KEYS = ("src", "dst", "month")
JITLAT = os.environ.get("JITLAT", "jitlat")


def log(path, test, packets, part):
    """Writes the log of a test between two neighbours, at about the time when a `part` of the year is over: delays with a tail, losses, and a bad month for some
    paths. Returns the number of the sender."""
    random = np.random.default_rng(test)
    source = int(random.integers(HOSTS))
    target = (source + 1 + int(random.integers(NEIGHBOURS))) % HOSTS
    start = BEGIN + int(part * (YEAR - YEAR // 365)) + int(random.integers(YEAR // 365))
    seq = np.arange(packets)
    sent = start + seq * PERIOD + random.gamma(2.0, 15_000.0, packets).astype(np.int64)
    scale = 1.0 + (source % 7) + (4.0 if source % 10 == 3 and (start - BEGIN) // (YEAR // 12) == 5 else 0.0)
    delay = 3_000_000 + scale * (random.gamma(2.0, 80_000.0, packets) + random.pareto(2.5, packets) * 50_000)
    kept = np.flatnonzero(random.random(packets) >= 0.001 * scale)
    arrived = (sent + delay.astype(np.int64))[kept]
    order = np.argsort(arrived, kind="stable")
    columns = [np.arange(kept.size), sent[kept][order], seq[kept][order], arrived[order], np.zeros(kept.size, np.int64)]
    header = {"command": "SENDING", "npkts": packets, "pktlen": 40, "proto": 17, "period": PERIOD, "src_ip": f"10.0.0.{source + 1}"}
    header |= {"dst_ip": f"10.0.0.{target + 1}", "src_port": 40001, "dst_port": 2667, "dscp": 46}
    date = asctime(gmtime(start // 10**9)).rsplit(" ", 1)
    with open(path, "wb") as file:
        file.write(f"# {date[0]} UTC {date[1]}\n".encode())
        file.writelines(f"# {name} {value}\n".encode() for name, value in header.items())
        pa.csv.write_csv(pa.table(columns, names=[str(k) for k in range(5)]), file, pa.csv.WriteOptions(include_header=False, delimiter=" "))
    return source


def made(folder, minutes, packets):
    """Adds tests to the archives of the collectors for some minutes, and publishes the archives a few times meanwhile. Returns the number of tests."""
    archives = [jitlat.Archive(folder / name, create=True) for name in COLLECTORS]
    begun, tests, publications = time.monotonic(), 0, 0
    logs = folder / "logs"
    logs.mkdir()
    while (part := (time.monotonic() - begun) / (60 * minutes)) < 1 or not tests:
        parts = [[], []]
        for test in range(tests, tests + STEP):
            path = logs / f"{test}.log"
            # A collector has the tests of its half of the hosts.
            parts[log(path, test, packets, min(part, 1.0)) * 2 // HOSTS].append(path)
        for archive, paths in zip(archives, parts):
            archive.add(paths)
        shutil.rmtree(logs)
        logs.mkdir()
        tests += STEP
        if part > (publications + 1) / 8:
            for archive in archives:
                archive.publish(folder / "lake")
            publications += 1
    for archive in archives:
        archive.publish(folder / "lake")
    return tests


def table(rows):
    """Rows by their keys: source, destination and month."""
    found = {tuple(row[name] for name in KEYS): tuple(None if row[name] is None else float(row[name]) for name in ("tests", *COLUMNS)) for row in rows}
    assert len(found) == len(rows), "two rows have the same keys"
    return found


def by_command(folder):
    """`archive query` of each collector, figure by figure."""
    rows = {}
    for name in COLLECTORS:
        for figure, column in zip(FIGURES, COLUMNS):
            command = [JITLAT, "archive", "query", folder / name, "--figure", figure, "--by", "month", "--csv"]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for row in csv.DictReader(io.StringIO(text)):
                key = (row["src"], row["dst"], strftime("%Y-%m", gmtime(int(row["start_ns"]) // 10**9)))
                *_, value = row.values()
                of = rows.setdefault(key, dict(zip(KEYS, key)) | {"tests": int(row["tests"])})
                of[column] = float(value) if value else None
    return list(rows.values())


def by_archive(folder):
    """The tables of `jitlat.Archive.query`."""
    rows = []
    for name in COLLECTORS:
        for row in pa.table(jitlat.Archive(folder / name).query(list(FIGURES), by="month")).to_pylist():
            rows.append(row | {"month": row["start"].strftime("%Y-%m")})
    return rows


def by_module(folder):
    return lake.rollup(folder / "lake", by=KEYS).to_pylist()


def by_packets(folder):
    """The packets of the lake, analysed again."""
    names = [str(folder / "lake" / name) for name in lake.published(folder / "lake", "packets")]
    return files.figures(pa.concat_tables(files.pools(name, by=KEYS) for name in names), by=KEYS).to_pylist()


def selected(merged, figure):
    """The SQL of all figures: `merged` is the merged state, `figure` a function that takes it and a name."""
    return ", ".join(f"{figure}({merged}, '{name}') AS {column}" for name, column in zip(FIGURES, COLUMNS))


def by_duckdb(folder):
    import duckdb

    rollups = f"read_parquet('{folder}/lake/rollups/*/*/*.parquet', union_by_name = true)"
    query = f"SELECT src, dst, strftime(hour_start, '%Y-%m') AS month, sum(tests) AS tests, jitlat_merge(list(state)) AS merged FROM {rollups} GROUP BY ALL"
    connection = lake.duckdb(duckdb.connect())
    connection.execute("SET TimeZone = 'UTC'")
    rows = connection.execute(f"SELECT src, dst, month, tests, {selected('merged', 'jitlat_figure')} FROM ({query})").fetchall()
    return [dict(zip((*KEYS, "tests", *COLUMNS), row)) for row in rows]


def by_clickhouse(folder):
    import chdb

    lake.chdb()
    rollups = f"file('{folder}/lake/rollups/*/*/*.parquet', Parquet)"
    month = "formatDateTime(hour_start, '%Y-%m', 'UTC')"
    query = f"SELECT src, dst, {month} AS month, sum(r.tests) AS tests, jitlat_merge(base64Encode(state)) AS merged FROM {rollups} AS r GROUP BY src, dst, month"
    text = str(chdb.query(f"SELECT src, dst, month, tests, {selected('merged', 'jitlat_figure')} FROM ({query})", "CSVWithNames"))
    return [{name: None if value == "\\N" else value for name, value in row.items()} for row in csv.DictReader(io.StringIO(text))]


def by_iceberg(folder):
    """The Iceberg tables, read by pyiceberg; the states merged by the module."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("year", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    lake.iceberg(folder / "lake", catalog)
    assert set(lake.iceberg(folder / "lake", catalog).values()) == {0}
    pools = {}
    for row in catalog.load_table("jitlat.rollups").scan(selected_fields=("src", "dst", "hour_start", "state")).to_arrow().to_pylist():
        key = (row["src"], row["dst"], row["hour_start"].strftime("%Y-%m"))
        pools.setdefault(key, jitlat.Pool()).merge(jitlat.Pool.load(row["state"]))
    rows = []
    for key, pool in pools.items():
        rows.append(dict(zip(KEYS, key)) | {"tests": pool.tests} | {column: pool.scalars[name] for name, column in zip(FIGURES, COLUMNS)})
    return rows


def by_spark(folder):
    """A master and two workers; one is killed while the packets are analysed. Then the merged roll-ups."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
    import run

    from jitlat import spark

    logs = folder / "spark"
    logs.mkdir()
    engine = run.Spark(logs)
    try:
        names = [str(folder / "lake" / name) for name in lake.published(folder / "lake", "packets")]
        victims = run.killed(engine, names)
        packets = spark.rollup(names, by=KEYS).toArrow().to_pylist()
        print(f"  killed: {', '.join(victims) or 'nothing: there were too few files'}")
        session = engine.spark
        session.conf.set("spark.sql.session.timeZone", "UTC")
        rollups = session.read.option("mergeSchema", True).parquet(f"{folder}/lake/rollups")
        from pyspark.sql import functions as sql

        month = sql.date_format("hour_start", "yyyy-MM").alias("month")
        merged = rollups.groupBy("src", "dst", month).agg(spark.merge(rollups.state).alias("state"))
        figures = [spark.figure(merged.state, name).alias(column) for name, column in zip(FIGURES, COLUMNS)]
        rows = merged.select(*KEYS, *figures).toArrow().to_pylist()
        counted = {tuple(row[name] for name in KEYS): row["tests"] for row in packets}
        rows = [row | {"tests": counted[tuple(row[name] for name in KEYS)]} for row in rows]
        assert table(rows) == table(packets), "the packets and the roll-ups differ on Spark"
        return rows
    finally:
        engine.stop()


#: Name, and a function that returns rows with the keys, the number of tests and the figures.
PROGRAMS = {
    "command": by_command,
    "archive": by_archive,
    "module": by_module,
    "packets": by_packets,
    "duckdb": by_duckdb,
    "clickhouse": by_clickhouse,
    "iceberg": by_iceberg,
    "spark": by_spark,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20, help="time for making tests (20)")
    parser.add_argument("--packets", type=int, default=1000, help="packets per test (1000)")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for archives and the lake; earlier ones are removed")
    parser.add_argument("--without", default="", help=f"programs to leave out: some of {','.join(list(PROGRAMS)[1:])}")
    options = parser.parse_args()
    folder = options.folder.absolute() / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begun = time.monotonic()
    tests = made(folder, options.minutes, options.packets)
    published = [file for manifest in lake.manifests(folder / "lake") for file in manifest["files"]]
    size = {table: sum(file["bytes"] for file in published if file["table"] == table) / 1e6 for table in lake.TABLES}
    print(f"{tests} tests of {options.packets} packets in {time.monotonic() - begun:.0f} s; the lake: {len(published)} files, " + ", ".join(f"{name} {mb:.1f} MB" for name, mb in size.items()))
    print(f"{'':<12}{'s':>8}{'cpu-s':>8}  rows (path and month)", flush=True)
    expected, wrong = None, []
    for name, program in PROGRAMS.items():
        if name in options.without.split(","):
            continue
        used = lambda: sum(os.times()[:4])
        began = time.monotonic(), used()
        found = table(program(folder))
        print(f"{name:<12}{time.monotonic() - began[0]:>8.1f}{used() - began[1]:>8.1f}  {len(found)}", flush=True)
        expected = expected or found
        differ = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
        if differ:
            wrong.append(name)
            print(f"  {len(differ)} rows differ from those of the command, such as {differ[0]}: {found.get(differ[0])}, expected {expected.get(differ[0])}")
    assert sum(row[0] for row in expected.values()) == tests, "tests are missing"
    if wrong:
        sys.exit(f"other figures: {', '.join(wrong)}")
    print("the same figures")


if __name__ == "__main__":
    main()
