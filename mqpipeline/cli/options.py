"""Options that jobs share, and how they report."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import click

from mqclient.commands.connection import NAMESRV_OPTION
from mqpipeline.errors import UsageError
from mqpipeline.session import open_session, read_pairs, require_spark
from mqpipeline.topics import Moment, Piece
from mqstore.commands.moments import read_milliseconds
from mqstore.commands.options import all_options, read_by
from mqstore.commands.output import output_option

__all__ = [
    "PIECE_COLUMNS",
    "job_options",
    "moment_option",
    "namesrv_options",
    "piece_row",
    "progress_bar",
    "session_of",
    "until_stopped",
]

F = TypeVar("F", bound=Callable[..., Any])

PIECE_COLUMNS = ("topic", "broker", "queue", "first", "end", "rows")
"""What a plan shows of each queue."""


def job_options(command: F) -> F:
    """--master, --conf, --dry-run and --output."""
    add = [
        click.option(
            "--master", default="local[*]", show_default=True, envvar="SPARK_MASTER",
            help="Spark's master, or sc://HOST of a Spark Connect server",
        ),
        click.option(
            "--conf", multiple=True, metavar="KEY=VALUE", help="a setting of Spark; may be repeated"
        ),
        click.option(
            "--dry-run", is_flag=True, help="say what would be done; start no Spark, write nothing"
        ),
        output_option,
    ]  # fmt: skip
    return all_options(*add)(command)


def namesrv_options(command: F) -> F:
    """-n/--namesrv and --option."""
    command = click.option(
        "--option", "options", multiple=True, metavar="KEY=VALUE",
        callback=lambda _context, _option, pairs: _pairs(pairs, "--option"),
        help="an option of format(\"rocketmq\"), as addressMap, credentials, tlsConfig, tag; "
        "may be repeated",
    )(command)  # fmt: skip
    return NAMESRV_OPTION(command)


def _pairs(pairs: tuple[str, ...], flag: str) -> dict[str, str]:
    try:
        return read_pairs(pairs, flag)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


def moment_option(flag: str, argument: str, default: str | None, text: str) -> Callable[[F], F]:
    """An option that is earliest, latest or a time."""
    return click.option(
        flag,
        argument,
        default=default,
        show_default=default is not None,
        metavar="TIME",
        callback=read_by(_moment),
        help=text,
    )


def _moment(text: str) -> Moment:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    try:
        return read_milliseconds(text)
    except ValueError as error:
        raise ValueError(f"{error}; or earliest, or latest") from None


def session_of(job: str, master: str, conf: tuple[str, ...]) -> Callable[[], Any]:
    """How a job gets its session; what Spark needs is looked for at once."""
    settings: Mapping[str, str] = read_pairs(conf, "--conf")
    require_spark(master)
    return partial(open_session, master, settings, f"mqpipeline {job}")


def piece_row(piece: Piece) -> dict[str, Any]:
    """A row of a plan."""
    return {
        "topic": piece.queue.topic,
        "broker": piece.queue.broker_name,
        "queue": piece.queue.queue_id,
        "first": piece.first,
        "end": piece.end,
        "rows": piece.rows,
    }


@contextmanager
def progress_bar(job: str, unit: str = "rows") -> Iterator[Callable[[int, int], None]]:
    """A bar, and what is left, on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(job), BarColumn(), TextColumn("{task.completed:,} of {task.total:,} " + unit),
        TextColumn("lag {task.fields[lag]:,}"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(job, total=0, lag=0)

        def report(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total, lag=max(total - done, 0))

        yield report


@contextmanager
def until_stopped() -> Iterator[Callable[[float], bool]]:
    """A function that waits for some seconds and says whether SIGTERM came.

    The first SIGTERM ends nothing: the caller asks, between two rounds. The second one does.
    """
    import threading

    came = threading.Event()

    def note(*_: object) -> None:
        came.set()
        signal.signal(signal.SIGTERM, before)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield came.wait
    finally:
        signal.signal(signal.SIGTERM, before)
