"""Measures what a network path does to real-time traffic: delays, jitter, losses and their consequences.

The analysis gives the same bytes as the command `jitlat`. Times are in nanoseconds where a name or a table says `_ns`, in seconds as
arguments; sizes are in bytes.

>>> import jitlat
>>> packets = jitlat.read_log(LOG)
>>> summary = jitlat.analyze(packets)
>>> summary.received == len(packets)
True
>>> summary.answer["severity"] in ("good", "fair", "poor", "bad", "unknown")
True

Archives are tables, too: `jitlat.Archive(folder).ls()`, `.query("latency-p99", by="day")`, `.tests(since="7d")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._jitlat import (
    Archive,
    Captured,
    Comparison,
    Error,
    Figure,
    Packets,
    Pool,
    State,
    Summaries,
    Summary,
    Table,
    Tests,
    __version__,
    analyze,
    compare,
    measure,
    ping,
    read_archive,
    read_log,
    scalar_attributes,
    scalars,
    spp,
    summaries,
    tcp,
)


# `Tests` has all methods of a sequence.
getattr(Sequence, "register")(Tests)


def verdict(summary: Summary) -> dict[str, Any]:
    """The verdict as a dictionary (`answer` of the JSON): what is wrong, since when, by how much, with what confidence, where, and for which profiles."""
    return summary.answer


def figure(summary: Summary, name: str) -> Figure:
    """The figure `name` of a summary (`summary.figures` lists them), with `.svg()` and `.png()`."""
    return summary.figure(name)


__all__ = [
    "Archive",
    "Captured",
    "Comparison",
    "Error",
    "Figure",
    "Packets",
    "Pool",
    "State",
    "Summaries",
    "Summary",
    "Table",
    "Tests",
    "analyze",
    "compare",
    "figure",
    "measure",
    "ping",
    "read_archive",
    "read_log",
    "scalar_attributes",
    "scalars",
    "spp",
    "summaries",
    "tcp",
    "verdict",
]
