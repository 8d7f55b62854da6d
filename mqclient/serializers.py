"""Bodies as values: a serializer turns a value into the bytes of a message, and back."""

from mqclient.integrations.serializers import (
    Deserializer,
    Json,
    MessagePack,
    Serializer,
    Text,
    UnreadableBodyError,
    message_of,
    value_of,
)

__all__ = [
    "Deserializer",
    "Json",
    "MessagePack",
    "Serializer",
    "Text",
    "UnreadableBodyError",
    "message_of",
    "value_of",
]
