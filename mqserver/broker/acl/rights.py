"""The right that each request code of a broker needs when access control is on, and why.

The data plane checks the rights (`rust/server/src/tables/acl_needs.rs`), and the processors of
codes that name a message by its offset check the message's topic. A test fails for a code without a
row, and docs/acl.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from mqcommon.wire.codes import OUR_CODES
from mqcommon.wire.codes import RequestCode as Code
from mqserver.runtime.guard import ACCOUNT_CODES


class Right(Enum):
    """The right that a request needs, in addition to the valid signature of an account."""

    TOPIC_PUB = "PUB of the topic"
    TOPIC_SUB = "SUB of the topic"
    GROUP_SUB = "SUB of the group"
    TOPIC_AND_GROUP_SUB = "SUB of the topics and of the group"
    GROUP_AND_MESSAGE_SUB = "SUB of the group and of the message's topic"
    MESSAGE_SUB = "SUB of the message's topic"
    ADMIN = "an admin account"
    SIGNATURE = "none"


class Row(NamedTuple):
    """The right of a code, and the reason."""

    right: Right
    why: str


_SENDS = Row(Right.TOPIC_PUB, "stores a message; a send to a retry topic needs SUB of the group")
_REPLIES = Row(
    Right.TOPIC_PUB, "pushes a message to a client, and stores it in the topic; RocketMQ forgets it"
)
_LOCKS = Row(
    Right.TOPIC_AND_GROUP_SUB, "takes queues away from the group's members; RocketMQ forgets it"
)
_FIGURES = Row(Right.SIGNATURE, "shows offsets, names or figures, no message; as in RocketMQ")

RIGHTS: Mapping[int, Row] = {
    **dict.fromkeys(OUR_CODES, Row(Right.SIGNATURE, "changes nothing and shows no secret")),
    **dict.fromkeys(sorted(ACCOUNT_CODES), Row(Right.ADMIN, "changes the broker or shows secrets")),
    Code.SEND_MESSAGE: _SENDS,
    Code.SEND_MESSAGE_V2: _SENDS,
    Code.SEND_BATCH_MESSAGE: _SENDS,
    Code.SEND_REPLY_MESSAGE: _REPLIES,
    Code.SEND_REPLY_MESSAGE_V2: _REPLIES,
    Code.CONSUMER_SEND_MSG_BACK: Row(
        Right.GROUP_AND_MESSAGE_SUB,
        "copies a message to the group; without the message's topic it reads any topic",
    ),
    Code.END_TRANSACTION: Row(
        Right.SIGNATURE, "the half message must carry the producer group; as in RocketMQ"
    ),
    Code.PULL_MESSAGE: Row(Right.TOPIC_AND_GROUP_SUB, "reads messages"),
    Code.QUERY_MESSAGE: Row(Right.TOPIC_SUB, "reads messages"),
    Code.VIEW_MESSAGE_BY_ID: Row(Right.MESSAGE_SUB, "reads a message; RocketMQ forgets it"),
    Code.QUERY_CONSUME_QUEUE: Row(
        Right.TOPIC_SUB, "shows where the messages of a queue are; RocketMQ forgets it"
    ),
    Code.HEART_BEAT: Row(Right.TOPIC_AND_GROUP_SUB, "joins groups and subscribes to topics"),
    Code.UNREGISTER_CLIENT: Row(Right.GROUP_SUB, "leaves a group"),
    Code.CHECK_CLIENT_CONFIG: Row(Right.SIGNATURE, "checks an expression and keeps nothing"),
    Code.GET_CONSUMER_LIST_BY_GROUP: Row(Right.GROUP_SUB, "as in RocketMQ"),
    Code.UPDATE_CONSUMER_OFFSET: Row(Right.TOPIC_AND_GROUP_SUB, "moves the group"),
    Code.LOCK_BATCH_MQ: _LOCKS,
    Code.UNLOCK_BATCH_MQ: _LOCKS,
    Code.GET_CONSUMER_RUNNING_INFO: Row(
        Right.GROUP_SUB, "shows a consumer's stacks and properties; RocketMQ forgets it"
    ),
    Code.CONSUME_MESSAGE_DIRECTLY: Row(
        Right.GROUP_AND_MESSAGE_SUB, "has a consumer handle a message; RocketMQ forgets it"
    ),
    **dict.fromkeys(
        (
            Code.QUERY_CONSUMER_OFFSET,
            Code.SEARCH_OFFSET_BY_TIMESTAMP,
            Code.GET_MAX_OFFSET,
            Code.GET_MIN_OFFSET,
            Code.GET_EARLIEST_MSG_STORETIME,
            Code.GET_ALL_CONSUMER_OFFSET,
            Code.GET_ALL_DELAY_OFFSET,
            Code.QUERY_CONSUME_TIME_SPAN,
            Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            Code.GET_ALL_TOPIC_CONFIG,
            Code.GET_TOPIC_STATS_INFO,
            Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            Code.GET_CONSUMER_CONNECTION_LIST,
            Code.GET_CONSUME_STATS,
            Code.QUERY_TOPIC_CONSUME_BY_WHO,
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            Code.GET_PRODUCER_CONNECTION_LIST,
            Code.GET_ALL_PRODUCER_INFO,
            Code.GET_BROKER_CONSUME_STATS,
            Code.GET_BROKER_CONFIG,
            Code.GET_BROKER_RUNTIME_INFO,
            Code.VIEW_BROKER_STATS_DATA,
        ),
        _FIGURES,
    ),
}


def page_rows(codes: list[int]) -> list[str]:
    """The rows of the table in docs/acl.md for these codes."""
    return [
        f"| {code} | {Code(code).name} | {RIGHTS[code].right.value} | {RIGHTS[code].why} |"
        for code in sorted(codes)
    ]
