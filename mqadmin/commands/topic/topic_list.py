"""mqadmin topicList: every topic, or with -c every topic with its cluster and its groups."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import front, hash_order
from mqadmin.report import Report
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqclient.admin.topics import clusters_in
from mqclient.engine.parallel import in_parallel
from mqcommon.names import is_of_a_group
from mqcommon.wire.bodies.route import ClusterInfo

Described = tuple[str, str, list[str]]
"""Cluster, topic, groups."""


async def run(admin: Admin, arguments: Arguments) -> Report:
    """List the topics."""
    topics = hash_order(await admin.topics.names())
    if not arguments.flag("clusterModel"):
        names = [{"topic": topic} for topic in topics]
        return Report(names, lambda: "\n".join(topics), columns=("topic",))
    unreached = Unreached()
    known = ClusterInfo()
    with unreached.passed_over():
        known = await admin.brokers.clusters()
    shown = [topic for topic in topics if not is_of_a_group(topic)]
    described: dict[str, Described] = {topic: ("", topic, []) for topic in shown}
    missing: set[str] = set()

    async def describe(topic: str) -> None:
        """Note cluster and groups; unavailable cells stay empty, as in RocketMQ."""
        with unreached.passed_over() as failed:
            route = await admin.topics.route(topic)
            cluster = next(iter(clusters_in(known, route)), "")
            described[topic] = (cluster, topic, [])
            groups = await admin.topics.consumed_by(topic, route)
            described[topic] = (cluster, topic, hash_order(groups))
        if failed():
            missing.add(topic)

    await in_parallel(describe, shown)
    columns = ("cluster", "topic", "groups")
    found = list(described.values())
    rows = [dict(zip(columns, one, strict=True)) for one in found if one[1] not in missing]
    return Report(rows, lambda: _table(found), columns=columns, failure=unreached.failure)


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
