#!/usr/bin/env python3
"""A day of a mesh in an archive: its size according to `monitor --plan`, and as measured.

benches/day.py JITLAT FILE.toml HOST LOGS FOLDER: LOGS is a folder with logs (`jitlat archive export`) of the tests in the file that
HOST starts. They get new dates, so that each test of each pair has one log per period of the file, and are added to an archive in FOLDER with
one `jitlat archive add`. Prints the processor time of each log, the bytes of the catalogue by table, and the bytes of a day next to those
of the plan. Logs are stored as they were measured, so that their contents differ as they do in a real day.
"""

import collections
import json
import pathlib
import re
import resource
import shutil
import sqlite3
import subprocess
import sys

jitlat, file, host, logs, folder = sys.argv[1], *map(pathlib.Path, sys.argv[2:3]), sys.argv[3], *map(pathlib.Path, sys.argv[4:6])
DAY = 86_400_000_000_000
BEGIN = 1_767_571_200_000_000_000  # a Monday, 0:00 UTC


def dated(text, shift):
    """The log with all times since 1970 in nanoseconds shifted."""
    return re.sub(r"(?<![\d.])1[5-9]\d{17}(?![\d.])", lambda found: str(int(found[0]) + shift), text)


plan = json.loads(subprocess.run([jitlat, "monitor", file, "--plan", "--json"], check=True, capture_output=True).stdout)
every = {test["name"]: int(test["between_s"] * 1e9) for test in plan["tests"]}

if folder.exists():
    shutil.rmtree(folder)
(folder / "logs").mkdir(parents=True)
seen = collections.Counter()
size = 0
for log in sorted(logs.iterdir(), key=lambda log: int(re.search(r"^# created (\d+)", log.read_text(), re.M)[1])):
    text = log.read_text()
    tags = dict(re.findall(r"^# tag (\w+)=(.*)$", text, re.M))
    created = int(re.search(r"^# created (\d+)", text, re.M)[1])
    if tags.get("client") != host or tags.get("test") not in every:
        continue
    direction = re.search(r"^# direction (\w+)", text, re.M)
    path = (tags["test"], tags["server"], direction and direction[1])
    start = BEGIN + every[tags["test"]] * seen[path]
    seen[path] += 1
    text = dated(text, start - created)
    size += len(text)
    (folder / "logs" / f"{log.stem}.log").write_text(text)

added = sum(seen.values())
before = resource.getrusage(resource.RUSAGE_CHILDREN)
archive = folder / "archive"
subprocess.run([jitlat, "archive", "add", archive, *sorted((folder / "logs").iterdir())], check=True, stdout=subprocess.DEVNULL)
after = resource.getrusage(resource.RUSAGE_CHILDREN)
used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(f"{added} logs of {size / added / 1e3:.1f} kB, {1e3 * used / added:.2f} ms of processor time each to add")

subprocess.run([jitlat, "archive", "compact", archive], check=True, stdout=subprocess.DEVNULL)
db = sqlite3.connect(archive / "catalogue.sqlite")
catalogue = 0
for name, bytes_ in db.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC").fetchall():
    catalogue += bytes_
    if bytes_ / added >= 50:
        print(f"  {name:28} {bytes_ / added:7.0f} bytes per test")
tests = db.execute("SELECT count(*) FROM tests").fetchone()[0]
db.close()
assert tests == added, (tests, added)
packets = sum(file.stat().st_size for file in archive.glob("packets/**/*.parquet"))
# Each table takes at least one page, even if it is empty.
first = folder / "empty"
subprocess.run([jitlat, "archive", "add", first, next((folder / "logs").iterdir())], check=True, stdout=subprocess.DEVNULL)
db = sqlite3.connect(first / "catalogue.sqlite")
empty = db.execute("SELECT sum(pgsize) FROM dbstat").fetchone()[0]
db.close()
catalogue -= empty
print(f"an empty catalogue {empty / 1e3:.0f} kB; catalogue {catalogue / added / 1e3:.2f} kB per test, packet files {packets / added / 1e3:.2f} kB per test")

share = added / sum(DAY / every[path[0]] for path in seen)
planned = next(one for one in plan["hosts"] if one["name"] == host)["archive_bytes_a_day"]
# Tests that other hosts push to this one are not in this archive.
planned -= sum(
    one["archive_bytes_a_day"] for one in plan["hosts"] if one["name"] != host and one["pushed_bytes_a_day"] > 0
) * (next(one for one in plan["hosts"] if one["name"] == host)["collected_a_day"] > 0)
found = (catalogue + packets) / share
print(f"a day: {found / 1e6:.1f} MB, planned {planned / 1e6:.1f} MB: {planned / found - 1:+.0%}")
