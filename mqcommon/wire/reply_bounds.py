"""Bounds on the properties that a server may send, so that a few bytes do not become gigabytes."""

from mqcommon.errors import ProtocolError
from mqcommon.wire.frame import Frame

__all__ = ["check_fields", "read_config"]

FIELDS_MAX = 1_000
"""Most extension fields of a reply; RocketMQ's have at most 20."""
CONFIG_BYTES_MAX = 1 << 20
"""Most bytes of a server's configuration as properties text; RocketMQ's has about 10 KB."""


def check_fields(reply: Frame, server: str) -> None:
    """Raise ProtocolError for a reply with more extension fields than any has."""
    count = len(reply.fields)
    if count > FIELDS_MAX:
        raise ProtocolError(f"{count} extension fields: must be 0 to {FIELDS_MAX}", server)


def read_config(body: bytes) -> str:
    """The configuration of a server as properties text. Raises ValueError if it is too long."""
    if len(body) > CONFIG_BYTES_MAX:
        raise ValueError(f"{len(body)} bytes of configuration: must be 0 to {CONFIG_BYTES_MAX}")
    return body.decode()
