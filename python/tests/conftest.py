"""Fixtures: the command, known logs and a server, with time limits."""

import os
import pathlib
import re
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
COMMAND = os.environ.get("JITLAT", str(ROOT / "target/debug/jitlat"))
LOGS = sorted(ROOT.glob("testdata/*.log")) + sorted(ROOT.glob("testdata/verdicts/*.log"))
LIMIT = 120


def run(*arguments):
    """Returns the output of the command."""
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, timeout=LIMIT)
    assert done.returncode in (0, 2), done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="session", params=LOGS, ids=lambda log: log.name)
def log(request):
    return request.param


@pytest.fixture(scope="session")
def logs():
    assert len(LOGS) >= 4
    return LOGS


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """An archive of all known logs, each in a separate file."""
    folder = tmp_path_factory.mktemp("archive") / "a"
    run("archive", "add", folder, *LOGS)
    return folder


class Server:
    """`jitlat serve` on ports chosen by the system."""

    def __init__(self):
        arguments = ["serve", "--bind", "127.0.0.1", "--only", "jitlat,stamp", "--control-port", "0", "--test-port", "0"]
        arguments += ["--stamp-port", "0"]
        self.process = subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, text=True)
        said = ""
        while not ((port := re.search(r"TCP 127.0.0.1:(\d+)", said)) and (stamp := re.search(r"STAMP on .*:(\d+)", said))):
            line = self.process.stdout.readline()
            assert line, f"the server ended: {said}"
            said += line
        self.port, self.stamp = int(port[1]), int(stamp[1])

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(LIMIT)


@pytest.fixture
def server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def limited(request):
    """Ends a test after the time limit, which a file may set."""

    def too_long(*_):
        raise TimeoutError("a test took too long")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(getattr(request.module, "LIMIT", LIMIT))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def names(doctest_namespace):
    doctest_namespace["LOG"] = str(ROOT / "testdata/b_wan_lossy_v1.log")
