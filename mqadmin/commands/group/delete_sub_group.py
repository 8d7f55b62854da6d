"""mqadmin deleteSubGroup: delete a consumer group; of a cluster, its retry and DLQ topics too."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import hash_order
from mqadmin.report import Report, Row
from mqadmin.targets import where
from mqclient.admin import Admin
from mqcommon.names import dead_letter_topic, retry_topic


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Delete the group."""
    group, chosen = arguments.required("groupName"), where(arguments)
    remove_offset = arguments.is_true("removeOffset")
    addresses = hash_order(await admin.groups.delete(group, **chosen, remove_offset=remove_offset))
    cluster = chosen["cluster"]
    topics = [retry_topic(group), dead_letter_topic(group)] if cluster is not None else []
    for topic in topics:
        await admin.topics.delete(topic, str(cluster))
    rows: list[Row] = [
        {
            "brokerAddr": address,
            "group": group,
            "removeOffset": remove_offset,
            "deletedTopics": topics,
        }
        for address in addresses
    ]
    place = "" if cluster is None else f" in cluster [{cluster}]"
    lines = [
        f"delete subscription group [{group}] from broker [{address}]{place} success.\n"
        for address in addresses
    ]
    for topic in topics:
        lines.append(f"delete topic [{topic}] from cluster [{cluster}] success.\n")
        lines.append(f"delete topic [{topic}] from NameServer success.\n")
    return Report(
        rows,
        lambda: "".join(lines),
        columns=("brokerAddr", "group", "removeOffset", "deletedTopics"),
    )


async def effect(_admin: Admin, arguments: Arguments) -> str:
    """What will be lost."""
    group, chosen = arguments.required("groupName"), where(arguments)
    place = chosen["broker"] or f"every master of cluster {chosen['cluster']}"
    lost = [f"the configuration of group {group}"]
    if arguments.is_true("removeOffset"):
        lost.append("its committed offsets")
    if chosen["cluster"]:
        lost.append(
            f"its topics {retry_topic(group)} and {dead_letter_topic(group)} with their messages"
        )
    return f"delete on {place}: {', '.join(lost)}"


DELETE_SUB_GROUP = Command(
    "deleteSubGroup",
    run,
    [
        Option("b", "brokerAddr", "delete subscription group from which broker"),
        Option("c", "clusterName", "delete subscription group from which cluster"),
        Option("g", "groupName", "subscription group name", required=True),
        Option("r", "removeOffset", "remove offset"),
    ],
    effect=effect,
)
