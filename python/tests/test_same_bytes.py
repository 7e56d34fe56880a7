"""The module gives the same bytes as the command, no matter how the packets are passed."""

import conftest
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jitlat


@pytest.fixture(scope="session")
def expected():
    known = {}

    def of(log):
        if log not in known:
            known[log] = conftest.run("-f", log, "--json", "-")
        return known[log]

    return of


def test_of_a_log(log, expected):
    assert jitlat.analyze(log).json() == expected(log)


def test_of_a_table(log, expected):
    packets = jitlat.read_log(log)
    assert jitlat.analyze(packets).json() == expected(log)
    table = pa.table(packets)
    assert table.num_rows == len(packets)
    for size in (997, 65536):
        assert jitlat.analyze(pa.Table.from_batches(table.to_batches(size), table.schema)).json() == expected(log)


def test_in_batches_of_one(logs, expected):
    for log in logs[:3]:
        table = pa.table(jitlat.read_log(log))
        batches = [table.slice(k, 1).to_batches()[0] for k in range(table.num_rows)]
        reader = pa.RecordBatchReader.from_batches(table.schema, batches)
        assert jitlat.analyze(reader).json() == expected(log)


def test_of_an_archive(archive, logs, expected):
    found = {packets.source: packets for packets in jitlat.read_archive(archive)}
    assert len(found) == len(logs)
    for log in logs:
        packets = found[log.name]
        assert jitlat.analyze(packets).json() == expected(log)
        assert jitlat.analyze(archive / packets.id).json() == expected(log)


@pytest.mark.parametrize("size", [997, 65536])
def test_of_the_files_of_an_archive(archive, logs, expected, size):
    names = {log.name: log for log in logs}
    seen = 0
    for file in sorted(archive.glob("packets/*/*.parquet")):
        parquet = pq.ParquetFile(file)
        reader = pa.RecordBatchReader.from_batches(parquet.schema_arrow, parquet.iter_batches(size))
        for summary in jitlat.summaries(reader):
            assert summary.json() == expected(names[summary.name_of_log])
            seen += 1
    assert seen == len(logs)


def test_of_files_with_several_tests(archive, logs, expected, tmp_path):
    import shutil

    whole = tmp_path / "a"
    shutil.copytree(archive, whole)
    conftest.run("archive", "compact", whole)
    names, seen = {log.name: log for log in logs}, 0
    for file in whole.glob("packets/*/*.parquet"):
        for summary in jitlat.summaries(pq.read_table(file)):
            assert summary.json() == expected(names[summary.name_of_log])
            seen += 1
    assert seen == len(logs)


def test_through_other_libraries(logs, expected):
    log = logs[1]
    packets = jitlat.read_log(log)
    polars = pytest.importorskip("polars")
    assert jitlat.analyze(polars.DataFrame(packets), metadata=packets.metadata).json() == expected(log)
    with pytest.raises(ValueError, match="lost its metadata"):
        jitlat.analyze(polars.DataFrame(packets))
    duckdb = pytest.importorskip("duckdb")
    here = pa.table(packets)
    assert here.num_rows == len(packets)
    assert duckdb.query("select count(*) from here").fetchall()[0][0] == len(packets)
    again = duckdb.query("select * from here order by rx_index").arrow()
    assert jitlat.analyze(again, metadata=packets.metadata).json() == expected(log)


def test_windows_and_constant_memory(logs):
    for log in logs[:4]:
        mine = jitlat.analyze(log, interval=1.0).json()
        assert mine == conftest.run("-f", log, "--interval", "1s", "--json", "-")
        mine = jitlat.analyze(log, streaming=True).json()
        assert mine == conftest.run("-f", log, "--streaming", "--json", "-")


def test_captures():
    spp = conftest.ROOT / "testdata/spp"
    reference, monitor = spp / "atm_loss_udp340.ref.pcap", spp / "atm_loss_udp340.mon.pcap"
    assert jitlat.spp(reference, monitor).json() == conftest.run("spp", "-f", reference, "-F", monitor, "--json", "-")
    one = spp / "atm_tcp_up.ref.pcap"
    assert jitlat.tcp(one).json() == conftest.run("tcp", one, "--json", "-")


def test_comparisons(logs):
    a, b = logs[:2]
    mine = jitlat.compare({"a": jitlat.analyze(a), "b": jitlat.analyze(b)}).to_dict()
    import json

    theirs = json.loads(conftest.run("compare", f"a={a}", f"b={b}", "--json", "-"))
    assert mine["rows"][0]["comparisons"] == theirs["rows"][0]["comparisons"]


def test_margins(logs):
    import json

    import pytest

    a, b = logs[:2]
    runs = {"a": jitlat.analyze(a), "b": jitlat.analyze(b)}
    of = lambda compared: compared["rows"][0]["comparisons"]
    wide = of(jitlat.compare(runs, margin="1s", loss_margin="50%").to_dict())
    given = ("--margin", "1s", "--loss-margin", "50%")
    assert wide == of(json.loads(conftest.run("compare", f"a={a}", f"b={b}", *given, "--json", "-")))
    assert wide != of(jitlat.compare(runs).to_dict())
    for wrong in ({"margin": "wide"}, {"loss_margin": "5ms"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            jitlat.compare(runs, **wrong)
