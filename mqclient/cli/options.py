"""Options that several commands have, and how they reach a client."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from mqclient.config import Credentials, read_address_map
from mqclient.credentials import read_credentials
from mqclient.tls import ENVIRONMENT, Tls, read_tls

__all__ = ["connection_options", "read_start", "run_async"]

F = TypeVar("F", bound=Callable[..., Any])


def connection_options(command: F) -> F:
    """Add -n/--namesrv, --address-map, --credentials and --tls-config."""
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
        click.option(
            "--credentials",
            metavar="FILE",
            callback=lambda _context, _option, path: _keys(path),
            help="tools.yml with accessKey and secretKey [that of ROCKETMQ_HOME/conf, if any]",
        ),
        click.option(
            "--tls-config",
            "tls",
            metavar="FILE",
            envvar=ENVIRONMENT,
            callback=lambda _context, _option, path: _tls(path),
            help="speak TLS: tls.properties with tls.client.trustCertPath, ... [MQ_TLS_CONFIG]",
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


def _keys(path: str | None) -> Credentials:
    try:
        return read_credentials(path)
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error)) from None


def _tls(path: str | None) -> Tls | None:
    try:
        return read_tls(path) if path else None
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error)) from None


def read_start(_context: click.Context, _option: click.Parameter, text: str) -> str | datetime:
    """Read --from: earliest, latest, or a time like 2026-01-31T12:00:00 (UTC if it has no zone)."""
    if text in ("earliest", "latest"):
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not earliest, latest or a time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def run_async(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine; warnings of the client go to standard error."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="mqclient: %(levelname)s %(message)s"
    )
    return asyncio.run(work)
