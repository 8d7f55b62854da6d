"""Messages whose bodies a producer's serializer makes, for both faces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from mqclient.engine.serializing import OfValues, Serialize, V, body_of
from mqcommon.message import Message

__all__ = ["MessageMaker"]


class MessageMaker(OfValues[V]):
    """Base of producers: makes messages of values."""

    _serializer: Serialize[V] | None

    def message(
        self,
        topic: str,
        value: V,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        deliver_at: datetime | None = None,
    ) -> Message:
        """Make a message to send; the producer's `serializer` makes its body of the value.

        Other arguments as for Message. Raises ValueError or TypeError naming the topic and the
        type, if the serializer does not take the value; else as Message does.
        """
        return Message(
            topic,
            body_of(self._serializer, topic, value),
            tags=tags,
            keys=keys,
            properties=properties,
            delay_level=delay_level,
            deliver_at=deliver_at,
        )
