"""Archives on Dask. Each file of a dataset is a task; tasks exchange summaries and pools, never packets.

Everything returned is delayed: `.compute()` makes a pyarrow.Table of it, on the cluster of the current client. The workers' Python needs this module and pyarrow.

    table = jitlat.dask.rollup("s3://bucket/archive", by=("path", "day")).compute()
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow
from dask import delayed

from . import files

#: Number of tables that one task merges.
FAN_IN = 16


def _joined(tables: Iterable[Any], join: Callable[[Any], Any]) -> Any:
    """Merges the tables in steps, so that no task holds all of them."""
    tables = list(tables)
    while len(tables) > 1:
        tables = [delayed(join)(tables[k : k + FAN_IN]) for k in range(0, len(tables), FAN_IN)]
    return tables[0]


def summaries(dataset: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, json: bool = False, batch: int = 65536) -> Any:
    """One row per test: its stream, its tags, all scalars (times in ns), and with `json` the output of `jitlat -f LOG --json -`."""
    work = delayed(files.summaries, pure=True)
    return _joined([work(file, document=json, batch=batch) for file in files.names(dataset)], pyarrow.concat_tables)


def rollup(dataset: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, by: Sequence[str] = ("path",), batch: int = 65536) -> Any:
    """One row per group of tests with the same values of `by` (see `jitlat.files.key`): figures of all their packets."""
    by = tuple(by)
    work = delayed(files.pools, pure=True)
    pools = _joined([work(file, by=by, batch=batch) for file in files.names(dataset)], lambda tables: files.merged(pyarrow.concat_tables(tables), by=by))
    return delayed(files.figures)(pools, by=by)


def captures(pairs: Iterable[tuple[str | os.PathLike[str], str | os.PathLike[str]]]) -> Any:
    """One row per pair (reference, monitor) of captures: the output of `jitlat spp --json -`, or the error."""
    work = delayed(files.captures, pure=True)
    return _joined([work(str(reference), str(monitor)) for reference, monitor in pairs], pyarrow.concat_tables)
