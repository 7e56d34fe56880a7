"""Programs that are started, watched, killed and ended."""

import os
import pathlib
import signal
import subprocess
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")


def table():
    """Parent, command and processor seconds of each process."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        fields = rest.split()
        found[int(stat.parent.name)] = (int(fields[1]), name, (int(fields[11]) + int(fields[12])) / TICKS)
    return found


def tree(pid, all=None):
    """A process and its descendants."""
    all = all or table()
    members, new = {pid}, {pid}
    while new := {child for child, (parent, *_) in all.items() if parent in new} - members:
        members |= new
    return members & all.keys()


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Cluster:
    """Processes of an engine. Stores their processor time and the peak memory of Python processes, also after they were killed."""

    def __init__(self, folder):
        self.folder, self.programs, self.seen = folder, [], {}
        self.ended = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def start(self, name, *command, **environment):
        log = open(self.folder / f"{name}.log", "wb")
        program = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | environment, start_new_session=True)
        self.programs.append(program)
        return program

    def said(self, name, pattern, seconds=60):
        """First match in a program's log; waits until there is one."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if match := pattern.search((self.folder / f"{name}.log").read_text(errors="replace")):
                return match[1]
            time.sleep(0.1)
        raise TimeoutError(f"{name} did not say {pattern.pattern} within {seconds} s")

    def members(self):
        all = table()
        return set().union(*(tree(program.pid, all) for program in self.programs)) if self.programs else set()

    def _watch(self):
        while not self.ended.wait(0.3):
            all = table()
            for pid in self.members() & all.keys():
                _, name, cpu = all[pid]
                try:
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                peak = next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)
                self.seen[pid] = (name, cpu, peak)

    def cpu(self):
        """Processor seconds until now."""
        return sum(cpu for _, cpu, _ in self.seen.values())

    def memory(self):
        """Peak memory of a Python process, in MB."""
        return max((peak for name, _, peak in self.seen.values() if name.startswith(("python", "ray::"))), default=0.0)

    def stop(self):
        self.ended.set()
        self.watcher.join()
        kill(self.members())
        for program in self.programs:
            program.wait(30)
