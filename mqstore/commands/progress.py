"""A bar on standard error while something long runs, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Report", "progress"]

Report = Callable[[str, int, int], None]
"""Told what is done, how much of it (bytes), and how much there is."""


@contextmanager
def progress() -> Iterator[Report | None]:
    """A bar per step, that goes away at the end; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True),
        TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        tasks = {}

        def report(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = shown.add_task(step)
            shown.update(tasks[step], completed=done, total=total)

        yield report
