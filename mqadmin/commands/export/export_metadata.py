"""mqadmin exportMetadata: the topics and groups of a cluster or of a broker, in a file."""

from __future__ import annotations

import time

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.exporting import Fields, exported, folder_option
from mqadmin.java_order import properties_order
from mqadmin.report import Report
from mqadmin.targets import where
from mqclient.admin import Admin
from mqcommon.wire.bodies.groups import GroupConfig, SubscriptionGroupWrapper
from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper


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
        topics = await _topics(admin, arguments, broker)
        content: dict[str, object] = Fields(
            dataVersion=topics.data_version, topicConfigTable=Fields(topics.topic_config_table)
        )
        return exported(arguments, "topic.json", content)
    if arguments.flag("subscriptionGroup"):
        groups = await _groups(admin, broker)
        content = Fields(
            dataVersion=groups.data_version,
            subscriptionGroupTable=Fields(groups.subscription_group_table),
        )
        return exported(arguments, "subscriptionGroup.json", content)
    raise UsageError("say what to export of a broker: -t (topic) or -g (subscriptionGroup)")


async def _topics(admin: Admin, arguments: Arguments, broker: str) -> TopicConfigSerializeWrapper:
    """A broker's topics in Java's order, which depends on the topics that are left out, too."""
    special = arguments.flag("specialTopic")
    table = await admin.topics.user_table(broker, special_topics=special)
    kept = table.topic_config_table
    order = properties_order([*await admin.topics.configs(broker), *kept])
    table.topic_config_table = {name: kept[name] for name in order if name in kept}
    return table


async def _groups(admin: Admin, broker: str) -> SubscriptionGroupWrapper:
    """A broker's groups in Java's order, which depends on the groups that are left out, too."""
    table = await admin.groups.user_table(broker)
    kept = table.subscription_group_table
    order = properties_order([*await admin.groups.configs(broker), *kept])
    table.subscription_group_table = {name: kept[name] for name in order if name in kept}
    return table


async def _of_cluster(
    admin: Admin, arguments: Arguments, masters: list[str]
) -> tuple[dict[str, TopicConfig], dict[str, GroupConfig]]:
    """The topics and groups of all masters; the numbers of their queues are added up."""
    topics: dict[str, TopicConfig] = {}
    groups: dict[str, GroupConfig] = {}
    for address in masters:
        found = (await _topics(admin, arguments, address)).topic_config_table
        for name, config in found.items():
            if name in topics:
                config.read_queue_nums += topics[name].read_queue_nums
                config.write_queue_nums += topics[name].write_queue_nums
            topics[name] = config
        known = (await _groups(admin, address)).subscription_group_table
        for name, group in known.items():
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
