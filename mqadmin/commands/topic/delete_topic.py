"""mqadmin deleteTopic: delete a topic on every master of a cluster, and in every NameServer."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.errors import NoRouteError, RocketMQError


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Delete the topic; a topic that does not exist is no error, as in RocketMQ."""
    topic, cluster = arguments.required("topic"), arguments.required("clusterName")
    addresses = await admin.topics.delete(topic, cluster)
    lines = [
        f"delete topic [{topic}] from cluster [{cluster}] success.",
        f"delete topic [{topic}] from NameServer success.",
    ]
    rows = [{"topic": topic, "cluster": cluster, "brokerAddr": address} for address in addresses]
    return Report(rows, lambda: "\n".join(lines))


async def effect(admin: Admin, arguments: Arguments) -> str:
    """What will be lost."""
    topic, cluster = arguments.required("topic"), arguments.required("clusterName")
    lost = "0 messages"
    try:
        stats = (await admin.topics.stats(topic)).offset_table.values()
        count = sum(offsets.max_offset - offsets.min_offset for offsets in stats)
        readers = ", ".join(sorted(await admin.topics.consumed_by(topic)))
        lost = f"{count} messages" + (f", read by {readers}" if readers else "")
    except NoRouteError:
        pass  # the topic does not exist
    except RocketMQError as error:
        lost = f"an unknown number of messages ({error})"
    return f"delete topic {topic} on every broker of {cluster} and in every NameServer: {lost}"


DELETE_TOPIC = Command(
    "deleteTopic",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("c", "clusterName", "delete topic from which cluster", required=True),
    ],
    effect=effect,
)
