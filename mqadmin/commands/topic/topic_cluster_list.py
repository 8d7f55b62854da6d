"""mqadmin topicClusterList: the clusters that have a topic."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import hash_order
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """List the clusters."""
    clusters = hash_order(await admin.topics.clusters_of(arguments.required("topic")))
    rows = [{"cluster": cluster} for cluster in clusters]
    return Report(rows, lambda: "\n".join(clusters), columns=("cluster",))


TOPIC_CLUSTER_LIST = Command(
    "topicClusterList",
    run,
    [Option("t", "topic", "topic name", required=True)],
)
