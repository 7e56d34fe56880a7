"""Tests against the command's server, with progress and interrupts."""

import os
import signal
import threading
import time

import pytest

import jitlat


def test_one_way_in_both_directions(server):
    seen = []
    up, down = jitlat.measure(
        "127.0.0.1", port=server.port, direction="both", packets=50, period=0.002, name="t", progress=seen.append
    )
    assert (up.received, down.received) == (50, 50)
    assert up.name == "t" and up.latency_median > 0
    assert seen and seen[-1][0][0] == 50


def test_round_trips(server):
    summary = jitlat.ping("127.0.0.1", protocol="stamp", packets=20, period=0.002, stamp_port=server.stamp)
    assert summary.received == 20


def test_wrong_settings_say_what_is_wrong():
    for wrong in ({"direction": "left"}, {"period": 0}, {"size": 1}, {"transport": "sctp"}):
        with pytest.raises(ValueError):
            jitlat.measure("127.0.0.1", **wrong)
    with pytest.raises(ValueError, match="icmp"):
        jitlat.ping("127.0.0.1", protocol="smoke")
    with pytest.raises(ValueError, match="stamp-porl"):
        jitlat.ping("127.0.0.1", protocol="stamp", stamp_porl=1)


def test_nobody_there():
    with pytest.raises(jitlat.Error, match="127.0.0.1"):
        jitlat.measure("127.0.0.1", port=1, packets=5)


def test_an_interrupt_ends_a_test(server):
    def interrupt():
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        jitlat.measure("127.0.0.1", port=server.port, packets=3000, period=0.02)


def test_an_error_of_the_callback_ends_a_test(server):
    def fail(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        jitlat.measure("127.0.0.1", port=server.port, packets=3000, period=0.02, progress=fail)


def test_others_run_meanwhile(server):
    counted = [0]
    over = threading.Event()

    def count():
        while not over.is_set():
            counted[0] += 1
            time.sleep(0.01)

    thread = threading.Thread(target=count)
    thread.start()
    jitlat.measure("127.0.0.1", port=server.port, packets=50, period=0.01)
    over.set()
    thread.join()
    assert counted[0] > 5


def test_progress_in_a_terminal(server, capsys):
    (summary,) = jitlat.measure("127.0.0.1", port=server.port, packets=50, period=0.01, progress=True)
    said = capsys.readouterr().err
    assert "50 of 50 sent" in said and said.endswith("\n") and summary.received == 50
    jitlat.measure("127.0.0.1", port=server.port, packets=5, period=0.01, progress=False)
    jitlat.measure("127.0.0.1", port=server.port, packets=5, period=0.01)
    assert capsys.readouterr().err == ""
    with pytest.raises(TypeError, match="progress"):
        jitlat.measure("127.0.0.1", port=server.port, packets=5, progress="yes")


def test_progress_in_a_notebook(server):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    test = f"jitlat.measure('127.0.0.1', port={server.port}, packets=50, period=0.01"
    cells = [f"import jitlat; {test})[0]", f"{test}, progress=False)[0].received"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(notebook, timeout=60)
    client.execute()
    first, second = notebook.cells
    kinds = [output.output_type for output in first.outputs]
    # The progress, which is empty at the end, and the summary with its figures.
    assert kinds == ["display_data", "execute_result"], first.outputs
    assert first.outputs[0].data["text/html"] == "" and "<svg" in first.outputs[1].data["text/html"]
    assert [output.output_type for output in second.outputs] == ["execute_result"]
