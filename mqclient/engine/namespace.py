"""Namespaces: the names of topics and groups on the wire, and as programs know them.

Rules: RocketMQ 4.9 `NamespaceUtil.wrapNamespace` and `withoutNamespace`.
"""

import re
from collections.abc import Iterable

from mqcommon.message import MessageQueue
from mqcommon.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
)

__all__ = ["Namespace", "check_namespace"]

SEPARATOR = "%"
_LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_namespace(name: str) -> str:
    """Return a legal namespace; raises ValueError for any other text."""
    if not _LEGAL.fullmatch(name):
        raise ValueError(
            f"namespace {name!r} must be 1 to 64 letters, digits, _ and -; leave it out for none"
        )
    return name


class Namespace:
    """Puts names into a namespace, and takes them out of it.

    Without a name it is false and changes nothing. RocketMQ's own topics and groups are in no
    namespace. Both ways change a name at most once.

    >>> Namespace("shop").wrap("%RETRY%readers"), Namespace("shop").unwrap("shop%Orders")
    ('%RETRY%shop%readers', 'Orders')
    """

    __slots__ = ("_head", "name")

    def __init__(self, name: str | None) -> None:
        self.name = name or ""
        self._head = f"{name}{SEPARATOR}" if name else ""

    def __bool__(self) -> bool:
        return bool(self.name)

    def wrap(self, name: str) -> str:
        """The name of a topic or group on the wire."""
        if not self.name or _is_system(name):
            return name
        prefix, rest = _split(name)
        return name if rest.startswith(self._head) else f"{prefix}{self._head}{rest}"

    def unwrap(self, name: str) -> str:
        """The name of a topic or group for the program; another namespace's stays as it is."""
        prefix, rest = _split(name)
        if not self.name or not rest.startswith(self._head):
            return name
        return prefix + rest[len(self._head) :]

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """A queue as the wire has it."""
        return MessageQueue(self.wrap(queue.topic), queue.broker_name, queue.queue_id)

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """A queue for the program; the same object without a namespace."""
        if not self.name:
            return queue
        return MessageQueue(self.unwrap(queue.topic), queue.broker_name, queue.queue_id)

    def unwrap_queues(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Queues for the program, in their order."""
        return [self.unwrap_queue(queue) for queue in queues]


def _split(name: str) -> tuple[str, str]:
    """The prefix of a retry or dead-letter topic, and the rest."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _is_system(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith((SYSTEM_PREFIX, SYSTEM_GROUP_PREFIX))
