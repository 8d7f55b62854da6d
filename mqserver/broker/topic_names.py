"""Names of topics and groups: what is legal, what is the system's (server.md 0.5, wire.md 6)."""

from __future__ import annotations

import re

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LIGHT_PREFIX = "%LMQ%"
"""Of light queues and their groups."""
AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC = "BenchmarkTest"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SYSTEM_PREFIX = "rmq_sys_"
REPLY_SUFFIX = "_REPLY_TOPIC"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

TOPIC_LENGTH_MAX = 127
GROUP_LENGTH_MAX = 255
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")

NO_SENDING = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Clients may not send to these."""

SYSTEM_TOPICS = NO_SENDING | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}
"""Clients may not create these; a broker adds its cluster's and its own name."""

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
"""Groups that every broker has."""


def illegal_topic(topic: str | None) -> str | None:
    """Why a topic name is illegal, in RocketMQ's words; None if it is fine."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if not _LEGAL.fullmatch(topic):
        return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(topic) > TOPIC_LENGTH_MAX:
        return "The specified topic is longer than topic max length."
    return None


def is_legal_group(group: str) -> bool:
    """Whether a group may be created unasked."""
    return len(group) <= GROUP_LENGTH_MAX and _LEGAL.fullmatch(group) is not None


def retry_topic(group: str) -> str:
    """Where a group's failed messages wait for their next delivery."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Where a group's messages end after their last delivery."""
    return DLQ_PREFIX + group
