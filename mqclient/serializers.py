"""Bodies as values: a serializer turns a value into the bytes of a message, and back."""

from mqclient.integrations.serializers import (
    Json,
    Serializer,
    UnreadableBodyError,
    message_of,
    value_of,
)

__all__ = ["Json", "Serializer", "UnreadableBodyError", "message_of", "value_of"]
