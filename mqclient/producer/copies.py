"""Copies of stored messages, to be sent again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mqcommon.message import Message
from mqcommon.names import INNER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC

__all__ = ["Stored", "copy_of"]

_FALSE_BY_NOW = frozenset({
    "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES", "CLUSTER", "MIN_OFFSET",
    "MAX_OFFSET", "INNER_MULTI_QUEUE_OFFSET",
})  # fmt: skip
"""Properties that mark half messages, or that the broker sets itself."""
_DELAY = frozenset({"REAL_TOPIC", "REAL_QID", "DELAY"})
"""Properties of a delayed message, even after its delivery."""


class Stored(Protocol):
    """The fields of a stored message that its copy has."""

    @property
    def topic(self) -> str:
        """Its topic."""
        ...

    @property
    def queue_id(self) -> int:
        """Its queue."""
        ...

    @property
    def body(self) -> bytes:
        """The body as sent, decompressed."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """Every property, RocketMQ's too."""
        ...

    @property
    def flag(self) -> int:
        """The flag that the user set."""
        ...

    @property
    def born_timestamp_ms(self) -> int:
        """When the producer made it, milliseconds since the epoch."""
        ...

    @property
    def reconsume_times(self) -> int:
        """Number of failed deliveries."""
        ...


def copy_of(stored: Stored, topic: str | None = None) -> tuple[Message | None, int]:
    """A message as it was first sent, with its queue id; None for RocketMQ's own.

    topic: where it goes; None is its original topic.
    """
    properties, home, queue_id = stored.properties, stored.topic, stored.queue_id
    dropped = _FALSE_BY_NOW | _DELAY
    if home == SCHEDULE_TOPIC:  # still delayed: its delay starts again
        home = properties.get("REAL_TOPIC", "")
        queue_id = int(properties.get("REAL_QID", "0"))
        dropped -= {"DELAY"}
    if not home or home.startswith(INNER_PREFIX):
        return None, 0
    message = Message(topic or home, stored.body, flag=stored.flag)
    kept = {name: value for name, value in properties.items() if name not in dropped}
    if message.topic.startswith(RETRY_PREFIX):
        kept["RECONSUME_TIME"] = str(stored.reconsume_times)
    message.properties = kept
    message.born_timestamp_ms = stored.born_timestamp_ms
    return message, queue_id
