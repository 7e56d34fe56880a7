"""Output in notebooks; figures, texts and names."""

import json
import pathlib

import conftest
import pyarrow.parquet as pq
import pytest

import jitlat

STREAM = ("src", "dst", "protocol", "direction")


def test_a_summary_shows_itself(logs):
    summary = jitlat.analyze(logs[1])
    page = summary._repr_html_()
    assert "<svg" in page and "latency" in page
    assert summary.html().lower().startswith("<!doctype html>")
    assert "received" in repr(summary)
    for name in summary.figures:
        figure = jitlat.figure(summary, name)
        assert figure.svg().startswith("<svg") and figure.png()[:4] == b"\x89PNG"
    with pytest.raises(KeyError, match="give one of"):
        summary.figure("none")


def test_scalars_are_attributes(logs):
    summary = jitlat.analyze(logs[1])
    for key, column, about in jitlat.scalars():
        assert column and about
        assert getattr(summary, key.replace("-", "_")) == summary.scalars[key]
    assert {"latency_median", "lost", "json"} <= set(dir(summary))
    with pytest.raises(AttributeError):
        summary.none_such
    assert jitlat.verdict(summary) == summary.to_dict()["answer"]


def test_stubs_have_all_names():
    stubs = (pathlib.Path(jitlat.__file__).parent / "__init__.pyi").read_text()
    for name in jitlat.__all__:
        assert f"def {name}(" in stubs or f"class {name}" in stubs, name
        kind = getattr(jitlat, name)
        assert kind.__doc__, name
        members = vars(kind) if isinstance(kind, type) else ()
        for member in (m for m in members if not m.startswith("_")):
            assert f"def {member}(" in stubs, f"{name}.{member}"


def test_the_notebook_runs(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    path = pathlib.Path(__file__).parents[1] / "examples/first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": path.parent}})
    done = client.execute()
    outputs = [o for cell in done.cells if cell.cell_type == "code" for o in cell.outputs]
    assert any("text/html" in o.get("data", {}) for o in outputs)
    assert any("image/svg+xml" in o.get("data", {}) for o in outputs)


def test_a_summary_says_between_whom_and_when(logs, tmp_path):
    conftest.run("archive", "add", tmp_path / "a", *logs, "--tag", "site=lab")
    listed = {test["id"]: test for test in json.loads(conftest.run("archive", "ls", tmp_path / "a", "--json"))["tests"]}
    for file in (tmp_path / "a").glob("packets/*/*.parquet"):
        for summary in jitlat.summaries(pq.read_table(file), bulk=True):
            test = listed.pop(summary.id)
            assert [summary.stream[name] for name in STREAM] == [test[name] for name in STREAM]
            assert summary.started_ns == test["started_ns"]
            assert summary.tags == test["tags"] and summary.tags["site"] == "lab"
    assert not listed
