"""mqadmin deleteExpiredCommitLog: delete expired files of the commit log, whatever the hour."""

from __future__ import annotations

from mqadmin.cleaning import cleaning_command
from mqadmin.command import Option
from mqclient.admin import Admin


async def clean(admin: Admin, cluster: str | None, broker: str | None) -> list[str]:
    """Ask the brokers."""
    return await admin.brokers.delete_expired_logs(cluster=cluster, broker=broker)


DELETE_EXPIRED_COMMIT_LOG = cleaning_command(
    "deleteExpiredCommitLog",
    clean,
    [
        Option("b", "brokerAddr", "Broker address"),
        Option("c", "cluster", "clustername"),
        Option("n", "namesrvAddr", "Name server address"),
    ],
    "files of the commit log that are older than fileReservedTime",
)
