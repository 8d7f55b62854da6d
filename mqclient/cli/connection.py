"""The options for connecting: NameServer, account and TLS."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

import click

from mqclient.engine.credentials import read_credentials
from mqclient.engine.tls import ENVIRONMENT, TlsConfig, read_tls
from mqclient.settings.checks import read_address_map
from mqclient.settings.connection import Connection
from mqclient.settings.identity import Credentials
from mqcommon.cli.options import all_options

__all__ = [
    "NAMESRV_OPTION",
    "OPTIONS",
    "ConnectionOption",
    "connection_of",
    "connection_options",
    "read_options",
    "run_async",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class ConnectionOption(NamedTuple):
    """An option of every command that connects; every client takes its value.

    argument: its name. flag, value: as on the command line. read: makes the value of the text,
    or of None if the option is absent; raises ValueError or OSError.
    """

    argument: str
    flag: str
    value: str
    read: Callable[[str | None], Any]
    help: str


def _tls(path: str | None) -> TlsConfig | None:
    path = path or os.environ.get(ENVIRONMENT)
    return read_tls(path) if path else None


def _address_map(text: str | None) -> dict[str, str]:
    return read_address_map(text or "")


def _account(path: str | None) -> Credentials | None:
    return read_credentials(path)


OPTIONS = (
    ConnectionOption(
        "address_map", "--address-map", "FROM=TO,...", _address_map,
        "broker addresses to replace, for brokers behind NAT",
    ),
    ConnectionOption(
        "credentials", "--credentials", "FILE", _account,
        "tools.yml with accessKey and secretKey [ROCKETMQ_HOME/conf/tools.yml, if any]",
    ),
    ConnectionOption(
        "tls", "--tls-config", "FILE", _tls,
        f"use TLS: tls.properties with tls.client.trustCertPath, ... [{ENVIRONMENT}]",
    ),
)  # fmt: skip
"""The options besides the NameServer's, whose flag differs between commands."""


NAMESRV_OPTION = click.option(
    "-n",
    "--namesrv",
    envvar="NAMESRV_ADDR",
    help="NameServers HOST:PORT, several by ';' [NAMESRV_ADDR, else 127.0.0.1:9876]",
)
"""-n/--namesrv; mqadmin's has RocketMQ's own spelling."""


def connection_options(command: F) -> F:
    """Add -n/--namesrv and OPTIONS to a click command; `connection_of` takes them."""
    own = [
        click.option(
            option.flag, option.argument, metavar=option.value, callback=_always(option.read),
            help=option.help,
        )
        for option in OPTIONS
    ]  # fmt: skip
    return all_options(NAMESRV_OPTION, *own)(command)


def connection_of(options: dict[str, Any]) -> dict[str, Any]:
    """Move the connection options out of a command's; returns the arguments of a client."""
    found = {name: options.pop(name) for name in ("namesrv", "tls", "credentials", "address_map")}
    return _arguments(found)


def read_options(texts: Mapping[str, str | None]) -> dict[str, Any]:
    """The arguments of a client by the texts of OPTIONS; an absent or empty one has its default.

    Raises click.BadParameter that names the option.
    """
    found = {}
    for option in OPTIONS:
        try:
            found[option.argument] = option.read(texts.get(option.argument) or None)
        except (ValueError, OSError) as error:
            raise click.BadParameter(str(error), param_hint=f"'{option.flag}'") from None
    return _arguments(found)


def _arguments(found: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a client, from the values of OPTIONS by their names."""
    return {"connection": Connection(address_map=found.pop("address_map")), **found}


def _always(read: Callable[[str | None], T]) -> Callable[..., T]:
    """A callback that reads the option even if it is not given."""

    def checked(_context: click.Context, _option: click.Parameter, text: str | None) -> T:
        try:
            return read(text)
        except (ValueError, OSError) as error:
            raise click.BadParameter(str(error)) from None

    return checked


def run_async(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine; warnings of the client go to standard error."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="mqclient: %(levelname)s %(message)s"
    )
    return asyncio.run(work)
