"""The same answers from a cluster: summaries and roll-ups of made-up tests by one process, then on Spark (a master and two workers), on Dask (a
scheduler and two workers) and on Ray, with a worker killed (-9) in the middle. Everything runs on this machine, within limits.

    python run.py --rows 1000000 --engines spark,dask,ray --folder /tmp/cluster
"""

import argparse
import hashlib
import os
import pathlib
import re
import signal
import sys
import threading
import time

import data
import pyarrow as pa
from processes import Cluster, kill, table, tree

from jitlat import files

BY = ("path", "day")


def digest(table, *columns):
    """Rows of a table, sorted by their columns."""
    rows = sorted(tuple(str(row[name]) for name in columns) for row in table.select(columns).to_pylist())
    return hashlib.sha256("\0".join("\0".join(row) for row in rows).encode()).hexdigest()[:16]


class Single:
    """One process."""

    def __init__(self, folder):
        self.members = lambda: set()

    def summaries(self, names):
        return pa.concat_tables(files.summaries(name, document=True) for name in names)

    def rollup(self, names):
        return files.figures(pa.concat_tables(files.pools(name, by=BY) for name in names), by=BY)

    def cpu(self):
        return time.process_time()

    def memory(self):
        return max(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

    def stop(self):
        pass


class Spark(Cluster):
    """A standalone master and two workers of one core."""

    def __init__(self, folder):
        super().__init__(folder)
        import pyspark

        home = pathlib.Path(pyspark.__file__).parent
        os.environ |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        os.environ |= {"SPARK_LOCAL_DIRS": str(folder), "SPARK_WORKER_DIR": str(folder / "work"), "SPARK_DAEMON_MEMORY": "256m"}
        daemon = [str(home / "bin/spark-class"), "org.apache.spark.deploy"]
        common = ["--host", "127.0.0.1", "--webui-port", "0"]
        self.start("master", daemon[0], daemon[1] + ".master.Master", *common, "--port", "0")
        address = self.said("master", re.compile(r"Starting Spark master at (spark://\S+)"))
        self.workers = [
            self.start(f"worker{k}", daemon[0], daemon[1] + ".worker.Worker", *common, "--cores", "1", "--memory", "1g", address) for k in range(2)
        ]
        for k in range(2):
            self.said(f"worker{k}", re.compile("(Successfully registered) with master"))
        from pyspark.sql import SparkSession

        options = {"executor.memory": "512m", "executor.cores": "1", "driver.memory": "512m", "driver.host": "127.0.0.1", "ui.enabled": "false"}
        options |= {"sql.shuffle.partitions": "2", "task.maxFailures": "8", "log.level": "ERROR", "ui.showConsoleProgress": "false"}
        builder = SparkSession.builder.master(address).appName("jitlat")
        for name, value in options.items():
            builder = builder.config(f"spark.{name}", value)
        self.spark = builder.getOrCreate()
        until = time.monotonic() + 60
        while self.spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:
            assert time.monotonic() < until, "the executors did not come"
            time.sleep(0.2)

    def members(self):
        # The driver's JVM too, which is a child of this process.
        return super().members() | (tree(os.getpid()) - {os.getpid()})

    def done(self):
        """Tasks of the newest job that ended."""
        tracker = self.spark.sparkContext.statusTracker()
        job = tracker.getJobInfo(max(tracker.getJobIdsForGroup(), default=0))
        stages = [tracker.getStageInfo(stage) for stage in job.stageIds] if job else []
        return max((stage.numCompletedTasks for stage in stages if stage), default=0)

    def summaries(self, names):
        from jitlat import spark

        return spark.summaries(names, json=True).toArrow()

    def rollup(self, names):
        from jitlat import spark

        frame = spark.rollup(names, by=BY)
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("Exchange") == 1 and plan.index("Exchange") < plan.index("MapInArrow"), plan
        return frame.toArrow()

    def stop(self):
        self.spark.stop()
        super().stop()


class Dask(Cluster):
    """A scheduler and two workers of one thread."""

    def __init__(self, folder):
        super().__init__(folder)
        os.environ["DASK_DISTRIBUTED__WORKER__DAEMON"] = "False"
        found = folder / "scheduler.json"
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(found)]
        self.start("scheduler", *dask)
        until = time.monotonic() + 60
        while not found.exists():
            assert time.monotonic() < until, "the scheduler did not come"
            time.sleep(0.1)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--memory-limit", "1GB"]
        worker += ["--scheduler-file", str(found), "--local-directory", str(folder)]
        self.workers = [self.start(f"worker{k}", *worker) for k in range(2)]
        from distributed import Client

        self.client = Client(scheduler_file=str(found), timeout=60)
        self.client.wait_for_workers(2, timeout=60)

    def done(self):
        def ended(dask_scheduler):
            return sum(prefix.state_counts["memory"] for prefix in dask_scheduler.task_prefixes.values() if prefix.name.startswith("summaries"))

        return self.client.run_on_scheduler(ended)

    def summaries(self, names):
        from jitlat import dask

        return dask.summaries(names, json=True).compute()

    def rollup(self, names):
        from jitlat import dask

        return dask.rollup(names, by=BY).compute()

    def stop(self):
        self.client.close()
        super().stop()


class Ray(Cluster):
    """Two processes on this machine."""

    def __init__(self, folder):
        super().__init__(folder)
        import ray

        self.ray = ray
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=200 << 20, log_to_driver=False, _temp_dir=str(folder))

    def members(self):
        return tree(os.getpid()) - {os.getpid()}

    def busy(self):
        """Processes that run a task."""
        found = set()
        for pid in self.members():
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
            except OSError:
                continue
            if command.startswith("ray::_run"):
                found.add(pid)
        return found

    def summaries(self, names):
        from jitlat import ray

        return self.ray.get(ray.summaries(names, json=True))

    def rollup(self, names):
        from jitlat import ray

        return self.ray.get(ray.rollup(names, by=BY))

    def stop(self):
        self.ended.set()
        self.ray.shutdown()
        super().stop()


def killed(engine, names):
    """Kills a worker with its descendants, after the first task and before the last. Returns the commands of the killed processes."""
    victims = []

    def watch():
        before = engine.done() if isinstance(engine, Dask) else 0
        for _ in range(10_000):
            if isinstance(engine, Ray):
                pids = list(engine.busy())[:1]
            else:
                pids = tree(engine.workers[0].pid) if 0 < engine.done() - before < len(names) - 1 else ()
            if pids:
                all = table()
                victims.extend(all[pid][1] for pid in pids if pid in all)
                return kill(pids)
            time.sleep(0.05)

    threading.Thread(target=watch, daemon=True).start()
    return victims


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000, help="packets in all (50 000 000)")
    parser.add_argument("--tests", type=int, default=50, help="files of a test each (50)")
    parser.add_argument("--engines", default="spark,dask,ray", help="some of spark,dask,ray")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for data, which is used again, and logs")
    parser.add_argument("--limit", type=int, default=1800, help="seconds (1800)")
    options = parser.parse_args()

    def late(*_):
        raise TimeoutError(f"not done after {options.limit} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(options.limit)
    names, rows = data.archive(options.folder.absolute() / "packets", options.tests, options.rows // options.tests)
    size = sum(os.path.getsize(name) for name in names)
    print(f"{rows} packets in {len(names)} files, {size / rows:.2f} bytes a packet")
    print(f"{'':<36}{'cpu-s':>8}{'M rows/cpu-s':>14}{'s':>8}{'Python MB':>11}  answers")
    expected = {}
    for name in ["single", *options.engines.split(",")]:
        engine_folder = options.folder.absolute() / f"{name}-{os.getpid()}"
        engine_folder.mkdir()
        engine = {"single": Single, "spark": Spark, "dask": Dask, "ray": Ray}[name](engine_folder)

        def used(work, names, columns):
            begun = engine.cpu(), time.monotonic()
            found = digest(work(names), *columns)
            took = time.monotonic() - begun[1]
            time.sleep(0.7)
            return engine.cpu() - begun[0], took, found

        def measured(what, work, columns):
            cpu, took, found = used(work, names, columns)
            line = f"{name + ': ' + what:<36}{cpu:>8.1f}{rows / cpu / 1e6:>14.2f}{took:>8.1f}{engine.memory():>11.0f}"
            print(f"{line}  {found}  load {os.getloadavg()[0]:.1f}", flush=True)
            assert expected.setdefault(columns, found) == found, f"one process said {expected[columns]}"
            return cpu

        try:
            measured("summaries", engine.summaries, ("id", "json"))
            if name != "single":
                half = used(engine.summaries, names[::2], ("id", "json"))[0]
                more = measured("the same again", engine.summaries, ("id", "json")) - half
                print(f"  beyond half of the tests: {more:.1f} cpu-s, {rows * (1 - len(names[::2]) / len(names)) / more / 1e6:.2f} M rows/cpu-s")
                victims = killed(engine, names)
                measured("the same, one worker killed", engine.summaries, ("id", "json"))
                assert victims, "nothing was killed in time: give more tests or rows"
                print(f"  killed: {', '.join(victims)}")
            measured("rollup", engine.rollup, (*BY, "pool"))
        finally:
            engine.stop()
    print("the same answers")


if __name__ == "__main__":
    main()
