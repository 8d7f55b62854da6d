"""Options and output that the jobs share."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

import click

from mqclient.cli.connection import NAMESRV_OPTION, OPTIONS, ConnectionOption
from mqcommon.cli.moments import read_start
from mqcommon.cli.options import all_options, read_by
from mqcommon.cli.output import output_option
from mqpipeline.errors import UsageError
from mqpipeline.jobs.session import open_session, read_pairs, require_spark
from mqpipeline.jobs.topics import Moment, Piece

__all__ = [
    "PIECE_COLUMNS",
    "Run",
    "job_options",
    "moment_option",
    "namesrv_options",
    "piece_row",
    "progress_bar",
]

F = TypeVar("F", bound=Callable[..., Any])

SPARK_OPTIONS = {"address_map": "addressMap", "credentials": "credentials", "tls": "tlsConfig"}
"""Options of format("rocketmq"), by the client argument with the same meaning."""
PIECE_COLUMNS = ("topic", "broker", "queue", "first", "end", "rows")
"""Columns of a plan; a row is a queue."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a job runs. master, conf: for Spark. output: format of the report."""

    master: str
    conf: tuple[str, ...]
    dry_run: bool
    output: str | None

    def session(self, job: str) -> Callable[[], Any]:
        """A function that opens the job's session; checks at once that Spark can start."""
        settings: Mapping[str, str] = read_pairs(self.conf, "--conf")
        require_spark(self.master)
        return partial(open_session, self.master, settings, f"mqpipeline {job}")


def job_options(command: F) -> F:
    """Add --master, --conf, --dry-run and --output; the command gets them as `run`, a Run."""
    add = [
        click.option(
            "--master", default="local[*]", show_default=True, envvar="SPARK_MASTER",
            help="Spark's master, or sc://HOST of a Spark Connect server",
        ),
        click.option(
            "--conf", multiple=True, metavar="KEY=VALUE", help="a Spark setting; may be repeated"
        ),
        click.option(
            "--dry-run", is_flag=True, help="print the plan; starts no Spark, writes nothing"
        ),
        output_option,
    ]  # fmt: skip

    @functools.wraps(command)
    def with_run(*arguments: Any, **given: Any) -> Any:
        names = ("master", "conf", "dry_run", "output")
        run = Run(**{name: given.pop(name) for name in names})
        return command(*arguments, run=run, **given)

    return all_options(*add)(cast(F, with_run))


def namesrv_options(command: F) -> F:
    """Add -n/--namesrv, the connection options of other commands, and --option.

    The command gets -n as `namesrv`, and the others as `options`, for format("rocketmq").
    """
    option = click.option(
        "--option", "options", multiple=True, metavar="KEY=VALUE",
        callback=lambda context, _option, pairs: _texts(context) | _pairs(pairs, "--option"),
        help="an option of format(\"rocketmq\"), such as tags=A; may be repeated",
    )  # fmt: skip
    return all_options(NAMESRV_OPTION, *map(_connection_option, OPTIONS), option)(command)


def _connection_option(known: ConnectionOption) -> Callable[[F], F]:
    """A connection option whose text is passed on to Spark's tasks."""

    def note(context: click.Context, _option: click.Parameter, text: str | None) -> None:
        if text is not None:
            _texts(context)[SPARK_OPTIONS[known.argument]] = text

    return click.option(
        known.flag, known.argument, metavar=known.value, help=known.help, callback=note,
        expose_value=False, is_eager=True,
    )  # fmt: skip


def _texts(context: click.Context) -> dict[str, str]:
    texts: dict[str, str] = context.meta.setdefault(__name__, {})
    return texts


def _pairs(pairs: tuple[str, ...], flag: str) -> dict[str, str]:
    try:
        return read_pairs(pairs, flag)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


def moment_option(flag: str, argument: str, default: str | None, text: str) -> Callable[[F], F]:
    """An option whose value is earliest, latest or a time."""
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
    start = read_start(text)
    return round(start.timestamp() * 1000) if isinstance(start, datetime) else start


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
    """Show a progress bar with the lag on standard error, if it is a terminal."""
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
