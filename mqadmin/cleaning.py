"""Shared by cleanExpiredCQ, cleanUnusedTopic and deleteExpiredCommitLog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin

Clean = Callable[[Admin, str | None, str | None], Awaitable[list[str]]]
"""Cleans the brokers of a cluster, or one broker, or all; returns the brokers' addresses."""


def cleaning_command(name: str, clean: Clean, options: Sequence[Option], effect: str) -> Command:
    """A command that has brokers delete data. effect: a name for the deleted data."""

    async def run(admin: Admin, arguments: Arguments) -> Report:
        addresses = await clean(admin, *_where(arguments))
        rows = [{"brokerAddr": address, "result": True} for address in addresses]
        # RocketMQ prints the last broker's result, and false if no broker was asked.
        return Report(
            rows, lambda: "success" if rows else "false", columns=("brokerAddr", "result")
        )

    async def will(_admin: Admin, arguments: Arguments) -> str:
        cluster, broker = _where(arguments)
        place = broker or (f"every broker of cluster {cluster}" if cluster else "every broker")
        return f"have {place} delete {effect}"

    return Command(name, run, options, effect=will)


def _where(arguments: Arguments) -> tuple[str | None, str | None]:
    """The cluster and the broker; a broker wins, as in RocketMQ."""
    broker = arguments.text("brokerAddr") or None
    return None if broker else arguments.text("cluster") or None, broker
