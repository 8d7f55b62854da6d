"""mqadmin countTopics: how many topics a broker has."""

from __future__ import annotations

from mqclient.admin import Admin
from mqclient.mqadmin.command import Arguments, Command, Option
from mqclient.mqadmin.render import Report


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask one broker."""
    count = await admin.brokers.count_topics(arguments.required("brokerAddr"))
    return Report([{"topics": count}], lambda: f"{count}\n")


COUNT_TOPICS = Command(
    "countTopics",
    "Count the topics of a broker",
    run,
    options=(Option("b", "brokerAddr", "which broker", required=True),),
)
