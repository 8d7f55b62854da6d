"""mqadmin cleanUnusedTopic: remove the queues of topics that do not exist any more."""

from __future__ import annotations

from mqadmin.cleaning import cleaning_command
from mqadmin.command import Option
from mqclient.admin import Admin


async def clean(admin: Admin, cluster: str | None, broker: str | None) -> list[str]:
    """Ask the brokers."""
    return await admin.brokers.clean_unused_topics(cluster=cluster, broker=broker)


CLEAN_UNUSED_TOPIC = cleaning_command(
    "cleanUnusedTopic",
    clean,
    [Option("b", "brokerAddr", "Broker address"), Option("c", "cluster", "cluster name")],
    "the queues of topics that do not exist any more",
)
