"""Archives on Ray. Each file of a dataset is a task; tasks exchange summaries and pools, never packets. Functions return references:
`ray.get` makes a pyarrow.Table of one. The workers' Python needs this module and pyarrow.

    table = ray.get(jitlat.ray.rollup("s3://bucket/archive", by=("path", "day")))
"""

from functools import partial

import pyarrow
import ray

from . import files

#: Number of tables that one task merges.
FAN_IN = 16


@ray.remote
def _run(work, *arguments):
    return work(*arguments)


@ray.remote
def _join(join, *tables):
    return join(pyarrow.concat_tables(tables))


def _joined(tables, join=lambda table: table):
    """Merges the tables in steps, so that no task holds all of them."""
    while len(tables) > 1:
        tables = [_join.remote(join, *tables[k : k + FAN_IN]) for k in range(0, len(tables), FAN_IN)]
    return tables[0]


def summaries(dataset, *, json=False, batch=65536):
    """One row per test: its stream, its tags, all scalars (times in ns), and with `json` the output of `jitlat -f LOG --json -`."""
    work = partial(files.summaries, document=json, batch=batch)
    return _joined([_run.remote(work, file) for file in files.names(dataset)])


def rollup(dataset, *, by=("path",), batch=65536):
    """One row per group of tests with the same values of `by` (see `jitlat.files.key`): figures of all their packets."""
    by = tuple(by)
    work = partial(files.pools, by=by, batch=batch)
    pools = _joined([_run.remote(work, file) for file in files.names(dataset)], partial(files.merged, by=by))
    return _run.remote(partial(files.figures, by=by), pools)


def captures(pairs):
    """One row per pair (reference, monitor) of captures: the output of `jitlat spp --json -`, or the error."""
    return _joined([_run.remote(files.captures, str(reference), str(monitor)) for reference, monitor in pairs])
