"""Synthetic tests for trying a cluster, as the files of an archive."""

import tempfile
from time import asctime, gmtime

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import jitlat

#: 2023-11-14 22:13:20 UTC, and the time between packets.
BEGIN, PERIOD = 1_700_000_000_000_000_000, 20_000_000


def log(path, test, packets):
    """A test of `packets`: delays with a long tail, a busy hour, isolated losses and bursts, duplicates and late packets. Tests begin 6 hours apart."""
    random = np.random.default_rng(test)
    seq = np.arange(packets)
    sent = BEGIN + test * 6 * 3600 * 10**9 + seq * PERIOD + random.gamma(2.0, 15_000.0, packets).astype(np.int64)
    delay = 3_000_000 + random.gamma(2.0, 80_000.0, packets) + random.pareto(2.5, packets) * 50_000
    delay += 400_000 * np.maximum(0, np.sin(seq / packets * 2 * np.pi))
    lost = random.random(packets) < 0.002
    for first in random.integers(0, packets, max(1, packets // 50_000)):
        lost[first : first + random.integers(2, 60)] = True
    kept = np.flatnonzero(~lost)
    twice = kept[random.random(kept.size) < 0.0005]
    seq = np.concatenate((kept, twice))
    arrived = (sent + delay.astype(np.int64))[seq]
    arrived[kept.size :] += 150_000
    order = np.argsort(arrived, kind="stable")
    columns = [np.arange(seq.size), sent[seq][order], seq[order], arrived[order], np.zeros(seq.size, np.int64)]
    header = {"command": "SENDING", "npkts": packets, "pktlen": 40, "proto": 17, "period": PERIOD, "src_ip": f"192.0.2.{test % 5 + 1}"}
    header |= {"dst_ip": "198.51.100.20", "src_port": 40001, "dst_port": 2667, "dscp": 46}
    date = asctime(gmtime(int(sent[0]) // 10**9)).rsplit(" ", 1)
    with open(path, "wb") as file:
        file.write(f"# {date[0]} UTC {date[1]}\n".encode())
        file.writelines(f"# {name} {value}\n".encode() for name, value in header.items())
        table = pa.table(columns, names=[str(k) for k in range(5)])
        pa.csv.write_csv(table, file, pa.csv.WriteOptions(include_header=False, delimiter=" "))


def archive(folder, tests, packets):
    """Writes files of one test each, like those of `jitlat archive`; existing files are not changed. Returns their names, and the number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{test:06}-{packets}.parquet" for test in range(tests)]
    for test, file in enumerate(files):
        if file.exists():
            continue
        with tempfile.NamedTemporaryFile(suffix=".log", dir=folder) as text:
            log(text.name, test, packets)
            table = pa.table(jitlat.read_log(text.name))
        few = ["test_id", "stamps", "flags", "size", "ttl", "tos"]
        encoding = {name: "DELTA_BINARY_PACKED" for name in table.column_names if name not in few}
        part = file.with_suffix(".part")
        pq.write_table(table, part, compression="zstd", compression_level=3, row_group_size=2_097_152, use_dictionary=few, column_encoding=encoding)
        part.rename(file)
    return [str(file) for file in files], sum(pq.read_metadata(file).num_rows for file in files)
