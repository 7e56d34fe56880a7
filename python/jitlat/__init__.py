"""Effects of a network path on real-time traffic: delays, jitter, losses and their meaning.

The analysis is that of the command `jitlat`, byte for byte. Times are in nanoseconds where a name or a table says `_ns`, in seconds as
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
    """The verdict as a dictionary, `answer` of the JSON: faults with start, size, confidence and origin, and the profiles that the path is good for."""
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
