"""RocketMQ's names: legal characters and lengths, reserved topics and groups, hash codes.

RocketMQ 4.9: `MixAll`, `TopicValidator`, `Validators`, `FilterAPI`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LIGHT_PREFIX = "%LMQ%"
"""Prefix of light queues and of their groups."""

AUTO_CREATE_TOPIC = "TBW102"
"""The template topic: a topic created by a send gets its queues and permissions."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC = "BenchmarkTest"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
INNER_PREFIX = "RMQ_SYS_"
"""Prefix of the topics in which RocketMQ keeps transactions and traces."""
SYSTEM_PREFIX = "rmq_sys_"
"""Prefix that `TopicValidator.isSystemTopic` reserves."""
REPLY_SUFFIX = "_REPLY_TOPIC"

TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group of tools that read without committing; every broker has it."""
OWNER_GROUP = "CID_ONSAPI_OWNER"
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
SCHEDULE_GROUP = "SCHEDULE_CONSUMER"
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
PLACEHOLDER_GROUPS = ("DEFAULT_PRODUCER", "DEFAULT_CONSUMER")
"""Default groups of RocketMQ's clients, which refuse to start with one of them."""

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
"""Topics that clients may not send to."""

SYSTEM_TOPICS = NO_SENDING | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}
"""Topics that clients may not create. A broker adds the topics named after it and its cluster."""

SYSTEM_GROUPS = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    OWNER_GROUP,
)
"""Groups that every broker has."""


RESERVED_GROUPS = frozenset(
    {
        *SYSTEM_GROUPS,
        *PLACEHOLDER_GROUPS,
        INNER_PRODUCER_GROUP,
        "SELF_TEST_P_GROUP",
        "__MONITOR_CONSUMER",
    }
)
"""The groups that RocketMQ's tools do not show as a user's (`DefaultMQAdminExtImpl`)."""


def is_system_group(group: str) -> bool:
    """Whether a group is one of RocketMQ's own groups, not a user's."""
    return group in RESERVED_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def has_legal_characters(name: str) -> bool:
    """Whether the name of a topic or group is not empty and has only legal characters."""
    return _LEGAL.fullmatch(name) is not None


def illegal_topic(topic: str | None) -> str | None:
    """Why a topic name is illegal, in RocketMQ's words; None if it is legal."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if not has_legal_characters(topic):
        return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(topic) > TOPIC_LENGTH_MAX:
        return "The specified topic is longer than topic max length."
    return None


def is_legal_group(group: str) -> bool:
    """Whether a request may create a group of this name."""
    return len(group) <= GROUP_LENGTH_MAX and has_legal_characters(group)


def retry_topic(group: str) -> str:
    """The topic in which a group's failed messages wait for their next delivery."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic that receives a group's messages after their last failed delivery."""
    return DLQ_PREFIX + group


def retry_groups(topics: list[str]) -> list[str]:
    """The groups that have a retry topic among these topics, in their order."""
    return [name.removeprefix(RETRY_PREFIX) for name in topics if name.startswith(RETRY_PREFIX)]


def is_of_a_group(topic: str) -> bool:
    """Whether a topic contains a group's retries or dead letters."""
    return group_of(topic) is not None


def group_of(topic: str) -> str | None:
    """The group whose retries or dead letters a topic contains; None for other topics."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return None


def is_internal_topic(topic: str) -> bool:
    """Whether a topic is RocketMQ's own, or has a group's retries or dead letters.

    A broker's topics that are named after it and its cluster are not known here.
    """
    prefixes = (INNER_PREFIX, SYSTEM_PREFIX, LIGHT_PREFIX)
    return topic in SYSTEM_TOPICS or topic.startswith(prefixes) or is_of_a_group(topic)


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, as a signed 32-bit number."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def joined_hash(codes: Iterable[int]) -> int:
    """Java's `hashCode` of an object that joins the hash codes of its fields; not reduced."""
    result = 1
    for code in codes:
        result = 31 * result + code
    return result


def tags_of(expression: str) -> list[str]:
    """The tags of an expression "A || B"; empty for "*", which selects every message."""
    if expression == "*":
        return []
    return [tag for part in expression.split("||") if (tag := part.strip())]


def tag_hash(tag: str | None) -> int:
    """The tag code of a consume queue's entry; 0 for a message without a tag."""
    return java_hash(tag or "")


def tag_names(text: str | None) -> frozenset[str] | None:
    """Parse the option `tag`, such as "TagA || TagB"; None for all tags."""
    if text is None or text.strip() in ("", "*"):
        return None
    return frozenset(tags_of(text))
