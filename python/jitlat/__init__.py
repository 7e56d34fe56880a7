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
"""

from ._jitlat import (
    Captured,
    Comparison,
    Error,
    Figure,
    Packets,
    Pool,
    State,
    Summaries,
    Summary,
    __version__,
    analyze,
    compare,
    measure,
    ping,
    read_archive,
    read_log,
    scalars,
    spp,
    summaries,
    tcp,
)


def verdict(summary):
    """The verdict as a dictionary (`answer` of the JSON): what is wrong, since when, by how much, with what confidence, where, and for which profiles."""
    return summary.answer


def figure(summary, name):
    """The figure `name` of a summary (`summary.figures` lists them), with `.svg()` and `.png()`."""
    return summary.figure(name)


__all__ = [
    "Captured",
    "Comparison",
    "Error",
    "Figure",
    "Packets",
    "Pool",
    "State",
    "Summaries",
    "Summary",
    "analyze",
    "compare",
    "figure",
    "measure",
    "ping",
    "read_archive",
    "read_log",
    "scalars",
    "spp",
    "summaries",
    "tcp",
    "verdict",
]
