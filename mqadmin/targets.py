"""The brokers that -b or -c name, and changes that go to each of them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import TypedDict

from mqadmin.command import Arguments, UsageError
from mqclient.errors import RocketMQError

__all__ = ["Where", "on_each", "where"]


class Where(TypedDict):
    """The arguments of Admin's methods that choose brokers: exactly one is not None."""

    cluster: str | None
    broker: str | None


def where(arguments: Arguments) -> Where:
    """The cluster of -c or the broker of -b, which wins if both are given, as in RocketMQ."""
    broker = arguments.text("brokerAddr")
    cluster = None if broker else arguments.text("clusterName")
    if not broker and not cluster:
        raise UsageError("give a broker or a cluster: -b (brokerAddr) or -c (clusterName)")
    return Where(cluster=cluster or None, broker=broker or None)


async def on_each(addresses: Iterable[str], change: Callable[[str], Awaitable[None]]) -> None:
    """Change every broker, also after one has failed.

    Raises the first error after all were asked, and names the brokers that were changed.
    """
    done, failures = [], []
    for address in addresses:
        try:
            await change(address)
            done.append(address)
        except RocketMQError as error:
            failures.append(error)
    if failures:
        for address in done:
            print(f"note: {address} was changed", file=sys.stderr)
        raise failures[0]
