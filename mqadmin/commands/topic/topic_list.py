"""mqadmin topicList: every topic, or with -c every topic with its cluster and its groups."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import front, hash_order
from mqadmin.report import Report
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqcommon.names import is_of_a_group

Described = tuple[str, str, list[str]]
"""Cluster, topic, groups."""


async def run(admin: Admin, arguments: Arguments) -> Report:
    """List the topics."""
    topics = hash_order(await admin.topics.names())
    if not arguments.flag("clusterModel"):
        names = [{"topic": topic} for topic in topics]
        return Report(names, lambda: "\n".join(topics), columns=("topic",))
    unreached = Unreached()
    found: list[Described] = []
    rows = []
    for topic in topics:
        if not is_of_a_group(topic):
            failures = unreached.count
            cluster, _, groups = described = await _describe(admin, topic, unreached)
            found.append(described)
            if unreached.count == failures:
                rows.append({"cluster": cluster, "topic": topic, "groups": groups})
    columns = ("cluster", "topic", "groups")
    return Report(rows, lambda: _table(found), columns=columns, failure=unreached.failure)


async def _describe(admin: Admin, topic: str, unreached: Unreached) -> Described:
    """Cluster, topic, groups; unavailable cells stay empty, as in RocketMQ."""
    cluster: str = ""
    groups: list[str] = []
    with unreached.passed_over():
        cluster = await admin.topics.cluster_of(topic)
        groups = hash_order(await admin.topics.consumed_by(topic))
    return cluster, topic, groups


def _table(found: list[Described]) -> str:
    lines = [f"{'#Cluster Name':<20}  {'#Topic':<48}  {'#Consumer Group':<48}"]
    lines += [
        f"{front(cluster, 20):<20}  {front(topic, 64):<64}  {front(group, 64):<64}"
        for cluster, topic, groups in found
        for group in groups or [""]
    ]
    return "\n".join(lines)


TOPIC_LIST = Command(
    "topicList",
    run,
    [Option("c", "clusterModel", "clusterModel", takes_value=False)],
)
