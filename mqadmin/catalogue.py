"""The sub-commands: RocketMQ 4.9's in RocketMQ's order, then our own.

A command is a module of `commands/`. One of RocketMQ's goes into `BUILT`, one that RocketMQ lacks
into `OWN`; nothing else has to know of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from mqadmin.command import Command
from mqadmin.commands.acl.accounts import (
    CLUSTER_ACL_CONFIG_VERSION,
    DELETE_ACL_CONFIG,
    GET_ACL_CONFIG,
    UPDATE_ACL_CONFIG,
    UPDATE_GLOBAL_WHITE_ADDR,
)
from mqadmin.commands.broker.broker_consume_stats import BROKER_CONSUME_STATS
from mqadmin.commands.broker.broker_status import BROKER_STATUS
from mqadmin.commands.broker.cluster_list import CLUSTER_LIST
from mqadmin.commands.group.consumer_progress import CONSUMER_PROGRESS
from mqadmin.commands.message.query_msg_by_id import QUERY_MSG_BY_ID
from mqadmin.commands.topic.stats_all import STATS_ALL
from mqadmin.commands.topic.topic_list import TOPIC_LIST
from mqadmin.commands.topic.topic_route import TOPIC_ROUTE
from mqadmin.commands.topic.update_topic import UPDATE_TOPIC

BUILT: dict[str, Command] = {
    command.name.lower(): command
    for command in (
        BROKER_CONSUME_STATS,
        BROKER_STATUS,
        CLUSTER_ACL_CONFIG_VERSION,
        CLUSTER_LIST,
        CONSUMER_PROGRESS,
        DELETE_ACL_CONFIG,
        GET_ACL_CONFIG,
        QUERY_MSG_BY_ID,
        STATS_ALL,
        TOPIC_LIST,
        TOPIC_ROUTE,
        UPDATE_ACL_CONFIG,
        UPDATE_GLOBAL_WHITE_ADDR,
        UPDATE_TOPIC,
    )
}
"""RocketMQ's commands that work, by lower-case name."""

OWN: dict[str, Command] = {}
"""Commands that RocketMQ lacks, by lower-case name. Their own texts are their descriptions."""

DESCRIPTIONS: dict[str, str] = {
    "updateTopic": "Update or create topic",
    "deleteTopic": "Delete topic from broker and NameServer.",
    "updateSubGroup": "Update or create subscription group",
    "deleteSubGroup": "Delete subscription group from broker.",
    "updateBrokerConfig": "Update broker's config",
    "updateTopicPerm": "Update topic perm",
    "topicRoute": "Examine topic route info",
    "topicStatus": "Examine topic Status info",
    "topicClusterList": "get cluster info for topic",
    "brokerStatus": "Fetch broker runtime status data",
    "queryMsgById": "Query Message by Id",
    "queryMsgByKey": "Query Message by Key",
    "queryMsgByUniqueKey": "Query Message by Unique key",
    "queryMsgByOffset": "Query Message by offset",
    "queryMsgTraceById": "query a message trace",
    "printMsg": "Print Message Detail",
    "printMsgByQueue": "Print Message Detail",
    "sendMsgStatus": "send msg to broker.",
    "brokerConsumeStats": "Fetch broker consume stats data",
    "producerConnection": "Query producer's socket connection and client version",
    "consumerConnection": "Query consumer's socket connection, client version and subscription",
    "consumerProgress": "Query consumers's progress, speed",
    "consumerStatus": "Query consumer's internal data structure",
    "cloneGroupOffset": "clone offset from other group.",
    "producer": "Query producer's instances, connection, status, etc.",
    "clusterList": "List all of clusters",
    "topicList": "Fetch all topic list from name server",
    "updateKvConfig": "Create or update KV config.",
    "deleteKvConfig": "Delete KV config.",
    "wipeWritePerm": "Wipe write perm of broker in all name server you defined in the -n param",
    "addWritePerm": "Add write perm of broker in all name server you defined in the -n param",
    "resetOffsetByTime": "Reset consumer offset by timestamp(without client restart).",
    "skipAccumulatedMessage": "Skip all messages that are accumulated (not consumed) currently",
    "updateOrderConf": "Create or update or delete order conf",
    "cleanExpiredCQ": "Clean expired ConsumeQueue on broker.",
    "deleteExpiredCommitLog": "Delete expired CommitLog files",
    "cleanUnusedTopic": "Clean unused topic on broker.",
    "startMonitoring": "Start Monitoring",
    "statsAll": "Topic and Consumer tps stats",
    "allocateMQ": "Allocate MQ",
    "checkMsgSendRT": "check message send response time",
    "clusterRT": "List All clusters Message Send RT",
    "getNamesrvConfig": "Get configs of name server.",
    "updateNamesrvConfig": "Update configs of name server.",
    "getBrokerConfig": "Get broker config by cluster or special broker!",
    "getConsumerConfig": "Get consumer config by subscription group name!",
    "queryCq": "Query cq command.",
    "sendMessage": "Send a message",
    "consumeMessage": "Consume message",
    "updateAclConfig": "Update acl config yaml file in broker",
    "deleteAclConfig": "Delete Acl Config Account in broker",
    "clusterAclConfigVersion": "List all of acl config version information in cluster",
    "updateGlobalWhiteAddr": "Update global white address for acl Config File in broker",
    "getAclConfig": "List all of acl config information in cluster",
    "exportMetadata": "export metadata",
    "exportConfigs": "export configs",
    "exportMetrics": "export metrics",
}
"""RocketMQ's name and description of each command."""

ALIASES = {"deleteaccessconfig": "deleteAclConfig"}
"""Other names that RocketMQ accepts, in lower case."""


def full_name(word: str) -> str | None:
    """RocketMQ's spelling of a command, which may be typed in any case; None if it is unknown."""
    wanted = word.lower()
    if wanted in ALIASES:
        return ALIASES[wanted]
    names = (*DESCRIPTIONS, *(command.name for command in OWN.values()))
    return next((name for name in names if name.lower() == wanted), None)


def command_of(name: str) -> Command | None:
    """The command of a full name; None for one of RocketMQ's that is not built."""
    return BUILT.get(name.lower()) or OWN.get(name.lower())


def listing() -> str:
    """What `mqadmin` prints without arguments: RocketMQ's text, then our own commands if any."""
    own = {command.name: command.description for command in OWN.values()}
    return "\n".join(
        [
            "The most commonly used mqadmin commands are:",
            *_lines(DESCRIPTIONS),
            *(["", "Commands that RocketMQ does not have:", *_lines(own)] if own else []),
            "",
            "See 'mqadmin help <command>' for more information on a specific command.",
        ]
    )


def _lines(descriptions: Mapping[str, str]) -> list[str]:
    return [f"   {name:<20} {words}" for name, words in descriptions.items()]
