"""mqadmin exportMetadata: the topics and groups of a cluster or of a broker, in a file."""

from __future__ import annotations

import time

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.exporting import ConcurrentMap, Fields, exported, folder_option
from mqadmin.java_order import properties_order
from mqadmin.report import Report
from mqadmin.targets import where
from mqclient.admin import Admin
from mqcommon.wire.bodies.groups import SubscriptionGroupConfig
from mqcommon.wire.bodies.topics import TopicConfig


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Export one broker's topics or groups, or a whole cluster's."""
    chosen = where(arguments)
    if chosen["broker"]:
        return await _of_broker(admin, arguments, chosen["broker"])
    masters = await admin.brokers.masters(str(chosen["cluster"]))
    topics, groups = await _of_cluster(admin, arguments, masters)
    content: dict[str, object] = {"exportTime": int(time.time() * 1000)}
    name = "metadata.json"
    if arguments.flag("topic"):
        name = "topic.json"
    elif arguments.flag("subscriptionGroup"):
        name = "subscriptionGroup.json"
    if name != "subscriptionGroup.json":
        content["topicConfigTable"] = topics
    if name != "topic.json":
        content["subscriptionGroupTable"] = groups
    return exported(arguments, name, content)


async def _of_broker(admin: Admin, arguments: Arguments, broker: str) -> Report:
    if arguments.flag("topic"):
        special = arguments.flag("specialTopic")
        topics = await admin.topics.user_table(broker, special_topics=special)
        return exported(
            arguments,
            "topic.json",
            Fields(
                dataVersion=topics.data_version,
                topicConfigTable=ConcurrentMap(topics.topic_config_table),
            ),
        )
    if arguments.flag("subscriptionGroup"):
        groups = await admin.groups.user_table(broker)
        return exported(
            arguments,
            "subscriptionGroup.json",
            Fields(
                dataVersion=groups.data_version,
                subscriptionGroupTable=ConcurrentMap(groups.subscription_group_table),
            ),
        )
    raise UsageError("say what to export of a broker: -t (topic) or -g (subscriptionGroup)")


async def _of_cluster(
    admin: Admin, arguments: Arguments, masters: list[str]
) -> tuple[dict[str, TopicConfig], dict[str, SubscriptionGroupConfig]]:
    """The topics and groups of all masters; the numbers of their queues are added up."""
    topics: dict[str, TopicConfig] = {}
    groups: dict[str, SubscriptionGroupConfig] = {}
    for address in masters:
        special = arguments.flag("specialTopic")
        found = await admin.topics.user_configs(address, special_topics=special)
        for name in properties_order(found):
            config = found[name]
            if name in topics:
                config.read_queue_nums += topics[name].read_queue_nums
                config.write_queue_nums += topics[name].write_queue_nums
            topics[name] = config
        known = await admin.groups.user_configs(address)
        for name in properties_order(known):
            group = known[name]
            if name in groups:
                group.retry_queue_nums += groups[name].retry_queue_nums
            groups[name] = group
    return topics, groups


EXPORT_METADATA = Command(
    "exportMetadata",
    run,
    [
        Option("c", "clusterName", "choose a cluster to export"),
        Option("b", "brokerAddr", "choose a broker to export"),
        folder_option("metadata.json"),
        Option("t", "topic", "only export topic metadata", takes_value=False),
        Option(
            "g", "subscriptionGroup", "only export subscriptionGroup metadata", takes_value=False
        ),
        Option("s", "specialTopic", "need retryTopic and dlqTopic", takes_value=False),
    ],
)
