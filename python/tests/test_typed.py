"""Type checkers accept the module and correct programs, and refuse wrong names; the pages made from docstrings are current."""

import json
import os
import pathlib
import subprocess
import sys

import conftest
import pytest

import jitlat

#: Seconds of a test: type checkers read pandas and pyspark.
LIMIT = 300
HERE = conftest.ROOT / "python"
RIGHT = """
import jitlat

summary = jitlat.analyze("a.log")
median: float | None = summary.latency_median
p999: float | None = summary.latency_p99_9
for packets in jitlat.Archive("a").tests(since="7d"):
    for packet in packets:
        sent: int | None = packet.sent_ns
rows: int = len(jitlat.Archive("a").ls(figures="all", severity="bad"))
jitlat.measure("host", direction="both", progress=True)
"""
WRONG = """
import jitlat

summary = jitlat.analyze("a.log")
summary.latency_medain
jitlat.Archive("a").ls(severity="awful")
jitlat.read_archive("a", sinse="7d")
"""
#: Lines of the wrong program.
ERRORS = [5, 6, 7]


@pytest.fixture
def programs(tmp_path):
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


def test_mypy(programs):
    pytest.importorskip("mypy")
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(HERE / "pyproject.toml"), "--cache-dir", str(programs / "cache"), "--no-error-summary"]
    # From another folder, so that the installed module is read.
    module = subprocess.run([*mypy, "-p", "jitlat"], cwd=programs, capture_output=True, text=True)
    assert module.returncode == 0, module.stdout
    right = subprocess.run([*mypy, "right.py"], cwd=programs, capture_output=True, text=True)
    assert right.returncode == 0, right.stdout
    wrong = subprocess.run([*mypy, "wrong.py"], cwd=programs, capture_output=True, text=True)
    lines = {int(line.split(":")[1]) for line in wrong.stdout.splitlines() if ": error:" in line}
    assert sorted(lines) == ERRORS, wrong.stdout


def test_pyright(programs):
    pytest.importorskip("pyright")
    folder = str(pathlib.Path(jitlat.__file__).parent)
    settings = {"include": [folder, "right.py", "wrong.py"], "exclude": [], "reportMissingImports": False, "reportMissingModuleSource": False}
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = [sys.executable, "-m", "pyright", "-p", ".", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(pyright, cwd=programs, capture_output=True, text=True, env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [(pathlib.Path(e["file"]).name, e["range"]["start"]["line"] + 1) for e in found if e["severity"] == "error"]
    assert sorted(errors) == [("wrong.py", line) for line in ERRORS], found


def test_the_reference_is_current():
    done = subprocess.run([sys.executable, str(HERE / "reference"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_explained():
    for name in jitlat.__all__:
        kind = getattr(jitlat, name)
        assert kind.__doc__, name
        members = vars(kind) if isinstance(kind, type) else {}
        for member, value in members.items():
            assert member.startswith("_") or value.__doc__, f"{name}.{member}"
