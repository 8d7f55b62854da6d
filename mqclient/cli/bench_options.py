"""The options that the commands of `mqclient bench` share."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mqclient.cli.connection import connection_options
from mqclient.engine.address_server import fetch_addresses
from mqclient.engine.tls import TlsConfig, connector_tls
from mqclient.settings.checks import is_address_server
from mqclient.settings.identity import account_of
from mqcommon.cli.options import all_options, topic_option
from mqcommon.cli.output import output_option
from mqcommon.names import BENCHMARK_TOPIC

__all__ = [
    "FINITE",
    "WHOLE",
    "load_of",
    "load_options",
    "send_options",
    "send_settings",
    "topic_options",
]

F = TypeVar("F", bound=Callable[..., Any])


class _Finite(click.types.FloatParamType):
    """A number that JSON can say."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number; fails on text, infinity and nan."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number of seconds or messages", param, ctx)
        return number


FINITE = _Finite()


class _Whole(click.types.IntParamType):
    """A number of things; the function that uses the number checks its range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a count; fails on text and on numbers outside 0 to WHOLE_MAX."""
        number: int = super().convert(value, param, ctx)
        if not 0 <= number <= WHOLE_MAX:
            self.fail(f"{number} is not between 0 and {WHOLE_MAX}", param, ctx)
        return number


WHOLE_MAX = (1 << 63) - 1
WHOLE = _Whole()

RATE_IN_FLIGHT = 1024
"""Requests that may wait for replies in an open loop unless --in-flight says otherwise."""


def load_options(duration: str = "seconds that count", threads: int = 1) -> Callable[[F], F]:
    """Add the options of every load. duration: the help of --duration."""

    def add(command: F) -> F:
        seconds = click.option(
            "--duration", type=FINITE, default=10.0, show_default=True, help=duration
        )
        options: tuple[Callable[[F], F], ...] = (
            connection_options,
            topic_option(
                "topic; of several, the beginning of their names",
                default=BENCHMARK_TOPIC,
                show_default=True,
            ),
            click.option(
                "--threads",
                type=WHOLE,
                default=threads,
                show_default=True,
                help="threads; each opens its own connection to send or read",
            ),
            seconds,
            click.option(
                "--timeout",
                type=FINITE,
                default=10.0,
                show_default=True,
                help="close a connection after this many seconds without a reply",
            ),
            click.option(
                "--headers",
                type=click.Choice(("json", "rocketmq")),
                default="json",
                show_default=True,
                help="format of request headers",
            ),
            click.option(
                "--name", help="name of this run in `bench compare` [a short description]"
            ),
            click.option(
                "--save",
                type=click.Path(dir_okay=False, writable=True),
                callback=lambda _context, _option, path: _may_be_saved(path),
                help="append the whole report to this file, as one line of JSON",
            ),
            output_option,
        )
        return all_options(*options)(command)

    return add


def _may_be_saved(path: str | None) -> str | None:
    """Refuse a report file before the run if it cannot be written after it."""
    folder = os.path.dirname(os.path.abspath(path)) if path else None
    if folder and not os.access(folder, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{folder} is not a writable folder")
    return path


def topic_options(command: F) -> F:
    """Add the options of loads that send or read messages."""
    options = (
        click.option(
            "--topics",
            type=WHOLE,
            default=1,
            show_default=True,
            help="number of topics, TOPIC-000000 and so on; sends create missing topics",
        ),
        click.option(
            "--warmup",
            type=FINITE,
            help="seconds of load before the measurement [1; 0 with --count or for a backlog]",
        ),
        click.option(
            "--count",
            type=WHOLE,
            default=0,
            help="stop after this many messages, warm-up included, in whole batches [no limit]",
        ),
    )
    return all_options(*options)(command)


def send_options(command: F) -> F:
    """Add what loads have that send."""
    options = (
        click.option(
            "--in-flight",
            type=WHOLE,
            help="requests in flight per thread; 1 sends synchronously "
            f"[1; with --rate {RATE_IN_FLIGHT}]",
        ),
        click.option(
            "--body-bytes", type=WHOLE, default=1024, show_default=True, help="bytes per body"
        ),
        click.option(
            "--batch", type=WHOLE, default=1, show_default=True, help="messages per request"
        ),
        click.option(
            "--tags",
            "tag",
            default="",
            help="tag of every message",
        ),
        click.option("--oneway", is_flag=True, help="request no replies"),
        click.option(
            "--wait/--no-wait",
            default=True,
            show_default=True,
            help="property WAIT: let replies wait for flush and replication",
        ),
        click.option(
            "--queues",
            type=WHOLE,
            default=0,
            help="queues per broker of new topics [4]",
        ),
    )
    return topic_options(all_options(*options)(command))


def load_of(options: dict[str, Any], warmup: float = 0.0) -> dict[str, object]:
    """Turn the options that every load has into settings.

    warmup: seconds, used without --warmup and --count.
    """
    tls: TlsConfig | None = options["tls"]
    try:
        options["tls"] = connector_tls(tls) if tls else None
    except ValueError as error:  # a file that is not there
        raise click.UsageError(str(error)) from error
    given = options.pop("warmup", None)
    if options.get("count"):
        warmup = 0.0
    for option in ("duration", "timeout"):
        options[f"{option}_s"] = options.pop(option)
    namesrv = options["namesrv"] or "127.0.0.1:9876"
    known = fetch_addresses(namesrv) if is_address_server(namesrv) else (namesrv,)
    options["namesrv"] = ";".join(known)
    options["credentials"] = options["credentials"] and account_of(options["credentials"])
    return {**options, "warmup_s": warmup if given is None else given}


def send_settings(options: dict[str, Any], rate: float) -> dict[str, object]:
    """Move the options of sending out of all options; the load's options remain."""
    names = ("in_flight", "body_bytes", "batch", "tag", "oneway", "wait")
    settings = {name: options.pop(name) for name in names}
    if settings["in_flight"] is None:
        settings["in_flight"] = RATE_IN_FLIGHT if rate else 1
    return {**settings, "rate": rate}
