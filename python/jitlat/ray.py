"""Archives on Ray. Each file of a dataset is a task; tasks exchange summaries and pools, never packets.

Functions return references: `ray.get` makes a pyarrow.Table of one. The workers' Python needs this module and pyarrow.

    table = ray.get(jitlat.ray.rollup("s3://bucket/archive", by=("path", "day")))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow
import ray

from . import files

#: Number of tables that one task merges.
FAN_IN = 16


def _run_here(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


def _join_here(join: Callable[[Any], Any], *tables: Any) -> Any:
    return join(pyarrow.concat_tables(tables))


_run: Any = ray.remote(_run_here)
_join: Any = ray.remote(_join_here)


def _joined(tables: list[Any], join: Callable[[Any], Any] = lambda table: table) -> Any:
    """Merges the tables in steps, so that no task holds all of them."""
    while len(tables) > 1:
        tables = [_join.remote(join, *tables[k : k + FAN_IN]) for k in range(0, len(tables), FAN_IN)]
    return tables[0]


def summaries(dataset: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, json: bool = False, batch: int = 65536) -> Any:
    """One row per test: its stream, its tags, all scalars (times in ns), and with `json` the output of `jitlat -f LOG --json -`."""
    work = partial(files.summaries, document=json, batch=batch)
    return _joined([_run.remote(work, file) for file in files.names(dataset)])


def rollup(dataset: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, by: Sequence[str] = ("path",), batch: int = 65536) -> Any:
    """One row per group of tests with the same values of `by` (see `jitlat.files.key`): figures of all their packets."""
    by = tuple(by)
    work = partial(files.pools, by=by, batch=batch)
    pools = _joined([_run.remote(work, file) for file in files.names(dataset)], partial(files.merged, by=by))
    return _run.remote(partial(files.figures, by=by), pools)


def captures(pairs: Iterable[tuple[str | os.PathLike[str], str | os.PathLike[str]]]) -> Any:
    """One row per pair (reference, monitor) of captures: the output of `jitlat spp --json -`, or the error."""
    return _joined([_run.remote(files.captures, str(reference), str(monitor)) for reference, monitor in pairs])
