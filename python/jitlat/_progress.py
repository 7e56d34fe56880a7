"""Progress of a test: an updated line in a notebook, or on the standard error of a terminal."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from typing import Any

#: Progress of one stream: number of packets to send, sent, received, missing.
Stream = tuple[int, int, int, int]


def _line(streams: list[Stream]) -> str:
    parts = []
    for packets, sent, received, missing in streams:
        share = f"{100 * sent // packets} %" if packets else ""
        lost = f", {missing} missing" if missing else ""
        parts.append(f"{share:>5}  {sent} of {packets} sent, {received} received{lost}")
    return "; ".join(parts)


class Notebook:
    """Shows the progress in the output of a notebook's cell, and removes it at the end."""

    def __init__(self) -> None:
        from IPython.display import display

        self._display: Any = display({"text/plain": "starting"}, raw=True, display_id=True)

    def __call__(self, streams: list[Stream]) -> None:
        text = _line(streams)
        bars = "".join(f'<progress max="{packets}" value="{sent}"></progress> ' for packets, sent, *_ in streams)
        self._display.update({"text/plain": text, "text/html": f"<div>{bars}{html.escape(text)}</div>"}, raw=True)

    def close(self) -> None:
        self._display.update({"text/plain": "", "text/html": ""}, raw=True)


class Terminal:
    """Shows the progress on one line of standard error."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, streams: list[Stream]) -> None:
        text = _line(streams)
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def close(self) -> None:
        if self._width:
            print(file=sys.stderr)


def in_notebook() -> bool:
    """True if the code runs in a cell of a notebook."""
    shell = sys.modules.get("IPython")
    instance = shell.get_ipython() if shell else None
    return instance is not None and getattr(instance, "kernel", None) is not None


def chosen(progress: Callable[[list[Stream]], object] | bool | None) -> Callable[[list[Stream]], object] | None:
    """Returns the function that receives the progress; None if it is not shown."""
    if progress is None or progress is True:
        notebook = in_notebook()
        return Notebook() if notebook else Terminal() if progress else None
    if progress is False:
        return None
    if not callable(progress):
        raise TypeError(f"progress={progress!r}: give a function, True or False")
    return progress
