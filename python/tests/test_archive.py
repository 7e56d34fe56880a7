"""Archives as tables, and tables of packets that other programs have changed."""

import csv
import io
import json
import pickle
import random
from datetime import UTC, date, datetime

import conftest
import pyarrow as pa
import pytest

import jitlat


def test_the_list_is_that_of_the_command(archive):
    listed = json.loads(conftest.run("archive", "ls", archive, "--json", "--figure", "latency-p99.9", "--figure", "loss"))["tests"]
    table = jitlat.Archive(archive).ls(figures=["latency-p99.9", "loss"])
    rows = pa.table(table).to_pylist()
    assert [row["id"] for row in rows] == [test["id"] for test in listed]
    for row, test in zip(rows, listed):
        for name in ("src", "dst", "protocol", "direction", "name", "packets", "has_packets", "severity", "headline"):
            assert row[name] == test[name]
        assert row["log"] == test["source"] and json.loads(row["tags"]) == test["tags"]
        assert row["latency_p99_9"] == test["figures"]["latency-p99.9"] and row["loss"] == test["figures"]["loss"]
    assert pa.table(table)["started"].cast(pa.int64()).to_pylist() == [test["started_ns"] for test in listed]


def test_tables_for_every_library(archive):
    table = jitlat.Archive(archive).ls()
    assert pa.table(table).schema.field("started").type == pa.timestamp("ns", "UTC")
    assert table[0].started.tzinfo is UTC and table[-1].id == list(table)[-1].id
    pandas = pytest.importorskip("pandas")
    for frame in (pandas.DataFrame(table), table.pandas()):
        assert list(frame.columns) == table.columns and len(frame) == len(table)
        assert str(frame["started"].dt.tz) == "UTC"
    polars = pytest.importorskip("polars")
    assert table.polars().columns == table.columns
    assert polars.DataFrame(table)["started"].dtype.time_zone == "UTC"
    duckdb = pytest.importorskip("duckdb")
    here = table.arrow()
    assert duckdb.query("select count(*), min(started) from here").fetchall()[0][0] == len(table)
    assert table._repr_html_().startswith("<table>") and "started" in repr(table)
    with pytest.raises(IndexError):
        table[len(table)]


@pytest.mark.parametrize("by", ["hour", "month", "all", "test"])
def test_the_query_is_that_of_the_command(archive, by):
    printed = list(csv.DictReader(io.StringIO(conftest.run("archive", "query", archive, "--figure", "pdv-p99", "--by", by, "--csv"))))
    loss = list(csv.DictReader(io.StringIO(conftest.run("archive", "query", archive, "--figure", "loss", "--by", by, "--csv"))))
    rows = pa.table(jitlat.Archive(archive).query(["pdv-p99", "loss"], by=by)).to_pylist()
    assert len(rows) == len(printed) == len(loss)
    for row, pdv, lost in zip(rows, printed, loss):
        assert (row["src"], row["tests"], row["sent"]) == (pdv["src"], int(pdv["tests"]), int(pdv["sent"]))
        assert row["pdv_p99"] == (float(pdv["pdv_p99_ns"]) if pdv["pdv_p99_ns"] else None)
        *_, ratio = lost.values()
        assert row["loss"] == (float(ratio) if ratio else None)


def test_filters(archive):
    opened = jitlat.Archive(archive)
    whole = pa.table(opened.ls()).to_pylist()
    some = pa.table(opened.ls(severity="bad")).to_pylist()
    assert some and some == [row for row in whole if row["severity"] == "bad"]
    middle = whole[len(whole) // 2]["started"].to_pydatetime()
    assert len(opened.ls(since=middle)) + len(opened.ls(before=middle)) == len(whole)
    assert len(opened.ls(since=date(2000, 1, 1), protocol="udp")) == sum(row["protocol"] == "udp" for row in whole)
    assert len(opened.ls(tags={"no": "such"})) == 0
    tests = opened.tests(severity="bad")
    assert tests.ids == [row["id"] for row in some if row["has_packets"]]
    assert [packets.id for packets in tests] == tests.ids and tests[-1].id == tests.ids[-1]
    assert jitlat.read_archive(archive, severity="bad").ids == tests.ids
    for wrong in ({"since": datetime(2026, 1, 1)}, {"since": 7}, {"before": "soon"}, {"severity": "awful"}, {"path": "nobody"}):
        with pytest.raises(ValueError, match=next(iter(wrong)) if "path" not in wrong else "A:B"):
            opened.ls(**wrong)
    with pytest.raises(ValueError, match="latency"):
        opened.ls(figures="latency-medain")
    with pytest.raises(ValueError, match="period"):
        opened.query("loss", by="fortnight")
    with pytest.raises(jitlat.Error, match="not an archive"):
        jitlat.Archive("/nonexistent")


def test_logs_are_added_once(logs, tmp_path):
    opened = jitlat.Archive(tmp_path / "new", create=True)
    ids = opened.add(logs[:3], tags={"site": "oslo"})
    assert opened.add(logs[0]) == ids[:1]
    assert sorted(row.id for row in opened.ls(tags={"site": "oslo"})) == sorted(ids)
    with pytest.raises(jitlat.Error, match="1 of 2 logs were not added: .*none.log"):
        opened.add([logs[3], tmp_path / "none.log"])
    assert len(pickle.loads(pickle.dumps(opened)).ls()) == 4


def test_summaries_pickle(log):
    summary = jitlat.analyze(log)
    again = pickle.loads(pickle.dumps(summary))
    assert again.json() == summary.json() and again.text() == summary.text()
    assert again.scalars == summary.scalars and again.stream == summary.stream
    assert [again.figure(name).svg() for name in again.figures] == [summary.figure(name).svg() for name in summary.figures]
    assert jitlat.Pool(again).json() == jitlat.Pool(summary).json()
    with pytest.raises(jitlat.Error, match="another version"):
        jitlat.Summary._load(b"\x80")


@pytest.mark.parametrize("order", ["seq", "sent_ns", "descending", "shuffled"])
def test_rows_in_any_order_give_the_same_figures(logs, order):
    for log in [log for log in logs if "verdicts" not in str(log)]:
        packets = jitlat.read_log(log)
        table, expected = pa.table(packets), jitlat.analyze(packets).json()
        if order == "descending":
            table = table.sort_by([("rx_index", "descending")])
        elif order == "shuffled":
            rows = list(range(table.num_rows))
            random.Random(5).shuffle(rows)
            table = table.take(rows)
        else:
            table = table.sort_by(order)
        for size in (100, 65536):
            reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(size))
            assert jitlat.analyze(reader, metadata=packets.metadata).json() == expected


def test_a_state_refuses_rows_in_another_order(logs):
    packets = jitlat.read_log(logs[0])
    backwards = pa.table(packets).sort_by([("rx_index", "descending")])
    with pytest.raises(ValueError, match="sort the rows by rx_index"):
        jitlat.State(packets).push(backwards)


def test_errors_say_what_a_table_lacks(logs):
    packets = jitlat.read_log(logs[0])
    table = pa.table(packets)
    with pytest.raises(ValueError, match="lost its metadata .*metadata=packets.metadata"):
        jitlat.analyze(packets.polars())
    with pytest.raises(ValueError, match="not a table of packets: it has the columns a"):
        jitlat.analyze(pa.table({"a": [1]}))
    with pytest.raises(ValueError, match="no column seq"):
        jitlat.analyze(table.drop(["seq"]))
    with pytest.raises(jitlat.Error, match="packets of test .* are missing"):
        jitlat.analyze(table.slice(0, 10))
    other = jitlat.read_log(logs[1])
    with pytest.raises(ValueError, match="packets of test"):
        jitlat.analyze(table, metadata=other.metadata)
    with pytest.raises(TypeError, match="no __arrow_c_stream__"):
        jitlat.analyze(7)


def test_packets_for_every_library(logs):
    pandas = pytest.importorskip("pandas")
    for log in logs[:3]:
        packets = jitlat.read_log(log)
        frame, exact = pandas.DataFrame(packets), packets.pandas()
        assert len(frame) == len(packets) and list(frame.columns) == list(exact.columns)
        assert (frame["sent_ns"] == exact["sent_ns"].astype("int64")).all()
        first = next(iter(packets))
        assert first.rx_index == frame["rx_index"][0] and first.sent_ns == pa.table(packets)["sent_ns"][0].as_py()
        assert packets.polars().height == packets.arrow().num_rows == len(packets)


def test_scalars_have_names_that_python_allows(logs):
    summary = jitlat.analyze(logs[0])
    for attribute, key, about in jitlat.scalar_attributes():
        assert attribute.isidentifier() and about
        assert getattr(summary, attribute) == summary.scalars[key]
    assert summary.latency_p99_9 == summary.scalars["latency-p99.9"]
    with pytest.raises(AttributeError, match="similar: .*latency_median"):
        summary.latency_medain
