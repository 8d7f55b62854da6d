"""The sub-commands by subject, RocketMQ's descriptions of its own, and where each is implemented.

A command is a module `commands/SUBJECT/NAME.py`, with its name in snake case. The module defines
one `Command` of that name; MODULES lists the modules that define several. A module that is not
named after one of RocketMQ's commands defines one of our own: `dlq_list.py` defines "dlq list".
A command's module is imported when the command is used.
"""

from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module

from mqadmin import commands
from mqadmin.command import Command

SUBJECTS: dict[str, tuple[str, ...]] = {
    "topic": (
        "updateTopic", "deleteTopic", "updateTopicPerm", "updateOrderConf", "topicList",
        "topicRoute", "topicStatus", "topicClusterList", "statsAll", "allocateMQ",
    ),
    "message": (
        "queryMsgById", "queryMsgByKey", "queryMsgByUniqueKey", "queryMsgByOffset",
        "queryMsgTraceById", "printMsg", "printMsgByQueue", "queryCq", "consumeMessage",
        "sendMessage", "sendMsgStatus", "checkMsgSendRT",
    ),
    "group": (
        "updateSubGroup", "deleteSubGroup", "getConsumerConfig", "consumerProgress",
        "consumerConnection", "consumerStatus", "producerConnection", "producer",
        "startMonitoring",
    ),
    "offset": ("resetOffsetByTime", "skipAccumulatedMessage", "cloneGroupOffset"),
    "broker": (
        "clusterList", "clusterRT", "brokerStatus", "brokerConsumeStats", "getBrokerConfig",
        "updateBrokerConfig", "cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog",
    ),
    "namesrv": (
        "getNamesrvConfig", "updateNamesrvConfig", "updateKvConfig", "deleteKvConfig",
        "wipeWritePerm", "addWritePerm",
    ),
    "acl": (
        "updateAclConfig", "deleteAclConfig", "getAclConfig", "clusterAclConfigVersion",
        "updateGlobalWhiteAddr",
    ),
    "export": ("exportMetadata", "exportConfigs", "exportMetrics"),
    "context": (),
}  # fmt: skip
"""The names of all commands by subject: RocketMQ's, and ours, which `_add_own` adds."""

SUBJECT_TITLES = {
    "topic": "Topics",
    "message": "Messages",
    "group": "Groups and clients",
    "offset": "Offsets of groups",
    "broker": "Clusters and brokers",
    "namesrv": "NameServers",
    "acl": "Accounts and permissions",
    "export": "Exports",
    "context": "Saved contexts",
}

MODULES = dict.fromkeys(SUBJECTS["acl"], "accounts")
"""Modules that are not named after their command."""

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
"""RocketMQ's name and description of each command, in RocketMQ's order."""

OWN: list[str] = []
"""The name of each command that RocketMQ lacks; `_add_own` finds them."""

ALIASES = {"deleteaccessconfig": "deleteAclConfig"}
"""Other names that RocketMQ accepts, in lower case."""


def full_name(word: str) -> str | None:
    """RocketMQ's spelling of a command, which may be typed in any case; None if it is unknown."""
    wanted = word.lower()
    if wanted in ALIASES:
        return ALIASES[wanted]
    return next((name for name in names() if name.lower() == wanted), None)


def named(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The full name that a command line begins with, of one or two words, and the words after it.

    The name is None if it is unknown.
    """
    for count in (2, 1):
        name = full_name(" ".join(words[:count]))
        if name is not None:
            return name, words[count:]
    return None, words


def second_words(first: str) -> list[str]:
    """The second words of the commands that begin with a word."""
    pairs = (name.split() for name in OWN if " " in name)
    return [second for head, second in pairs if head == first.lower()]


def nearest(word: str) -> list[str]:
    """The names that a mistyped word is closest to, the best first."""
    known = {name.lower(): name for name in names()}
    return [known[near] for near in get_close_matches(word.lower(), known, 2, 0.7)]


def description(name: str) -> str:
    """The purpose of a command, in one line."""
    return DESCRIPTIONS.get(name) or command_of(name).description


def is_rocketmqs(name: str) -> bool:
    """Whether RocketMQ has a command of this full name."""
    return name in DESCRIPTIONS


def subject_of(name: str) -> str:
    """The subject of a full name."""
    return next(subject for subject, names in SUBJECTS.items() if name in names)


@cache
def command_of(name: str) -> Command:
    """The command of a full name."""
    module = f"mqadmin.commands.{subject_of(name)}.{MODULES.get(name) or _snake_case(name)}"
    found = vars(import_module(module)).values()
    return next(one for one in found if isinstance(one, Command) and one.name == name)


def names() -> list[str]:
    """The full names of all commands."""
    return [*DESCRIPTIONS, *OWN]


def _snake_case(name: str) -> str:
    """allocateMQ -> allocate_mq, dlq list -> dlq_list."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])| ", "_", name).lower()


def listing() -> str:
    """What `mqadmin` prints without arguments: RocketMQ's text, then our own commands if any."""
    own = _lines(_described(OWN))
    return "\n".join(
        [
            "The most commonly used mqadmin commands are:",
            *_lines(DESCRIPTIONS),
            *(["", "Commands that RocketMQ does not have:", *own] if own else []),
            "",
            "See 'mqadmin help <command>' for more information on a specific command.",
        ]
    )


def groups() -> str:
    """What `mqadmin` prints on a terminal without arguments: the commands by subject."""
    parts = []
    for subject, names in SUBJECTS.items():
        parts += [f"{SUBJECT_TITLES[subject]}:", *_lines(_described(names)), ""]
    return "\n".join(
        [*parts, "See 'mqadmin help <command>' for more information on a specific command."]
    )


def _add_own() -> None:
    """Find the commands of our own, and add them to OWN and SUBJECTS."""
    known = {*map(_snake_case, DESCRIPTIONS), *MODULES.values()}
    for subject in SUBJECTS:
        folder = os.path.join(os.path.dirname(commands.__file__), subject)
        for found in pkgutil.iter_modules([folder]):
            if found.name not in known:
                name = found.name.replace("_", " ")
                OWN.append(name)
                SUBJECTS[subject] += (name,)


def _described(names: Iterable[str]) -> dict[str, str]:
    return {name: description(name) for name in names}


def _lines(descriptions: Mapping[str, str]) -> list[str]:
    return [f"   {name:<20} {words}" for name, words in descriptions.items()]


_add_own()
