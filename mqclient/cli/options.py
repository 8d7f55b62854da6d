"""Options that several commands have, and how they reach a client."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from mqclient.config import read_address_map

__all__ = ["START", "connection_options", "run_async"]

F = TypeVar("F", bound=Callable[..., Any])


def connection_options(command: F) -> F:
    """Add -n/--namesrv and --address-map."""
    options = (
        click.option(
            "-n",
            "--namesrv",
            "--namesrvAddr",
            envvar="NAMESRV_ADDR",
            help="NameServers HOST:PORT, several by ';' [NAMESRV_ADDR, else 127.0.0.1:9876]",
        ),
        click.option(
            "--address-map",
            metavar="FROM=TO,...",
            callback=lambda _context, _option, text: _checked_map(text),
            help="broker addresses to replace, for brokers behind NAT",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _checked_map(text: str | None) -> dict[str, str]:
    try:
        return read_address_map(text or "")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


class Start(click.ParamType[str | datetime]):
    """Where to begin: earliest, latest, or a time like 2026-01-31T12:00:00 (UTC if no zone)."""

    name = "earliest|latest|TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | datetime:
        """Read the option's text."""
        if isinstance(value, datetime) or value in ("earliest", "latest"):
            return value if isinstance(value, datetime) else str(value)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not earliest, latest or a time", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


START = Start()


def run_async(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine; warnings of the client go to standard error."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="mqclient: %(levelname)s %(message)s"
    )
    return asyncio.run(work)
