"""mqadmin cleanExpiredCQ: remove queue files whose messages are deleted."""

from __future__ import annotations

from mqadmin.cleaning import cleaning_command
from mqadmin.command import Option
from mqclient.admin import Admin


async def clean(admin: Admin, cluster: str | None, broker: str | None) -> list[str]:
    """Ask the brokers."""
    return await admin.brokers.clean_expired_queues(cluster=cluster, broker=broker)


CLEAN_EXPIRED_CQ = cleaning_command(
    "cleanExpiredCQ",
    clean,
    [Option("b", "brokerAddr", "Broker address"), Option("c", "cluster", "clustername")],
    "files of queues whose messages are deleted",
)
