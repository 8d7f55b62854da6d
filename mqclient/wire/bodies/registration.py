"""A broker's topics as text and back, ten thousand at a time, by the compiled core."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqclient.wire.bodies.base import BodyError
from mqclient.wire.bodies.common import DataVersion
from mqclient.wire.headers.base import all_named
from mqstore import _core

Row = tuple[int, int, int, int]
"""What a route says of a topic on one broker: read queues, write queues, perm, system flag."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What the NameServer takes of a registration.

    filter_servers: addresses; None when the broker did not speak of them.
    """

    topics: Mapping[str, Row]
    version: DataVersion
    filter_servers: list[str] | None


def read(body: bytes, compressed: bool = False) -> Registered | None:
    """Read a body of REGISTER_BROKER (103) if it is as brokers write it.

    None for everything else, good or bad: `RegisterBrokerBody.decode` forgives, and says why not.
    Raises BodyError for a compressed one that cannot be unpacked or would grow too big: that is
    found out once.
    """
    try:
        found = _core.read_registration(body, compressed)
    except ValueError as error:
        raise _refused(error) from error
    if found is None:
        return None
    topics, counter, timestamp, filter_servers = found
    if not all_named(topics) or not all_named(filter_servers):
        return None
    return Registered(topics, DataVersion(counter, timestamp), filter_servers)


def unpack(body: bytes) -> bytes:
    """The pieces of a compressed registration; BodyError as `read`."""
    try:
        return _core.unpack_registration(body)
    except ValueError as error:
        raise _refused(error) from error


def _refused(error: ValueError) -> BodyError:
    return BodyError(f"compressed registration: {error}")


def topic_table(table: dict[str, Any]) -> str:
    """A table of `TopicConfig` as fastjson's text, keys sorted.

    Raises TypeError or OverflowError where a field does not have its type.
    """
    return _core.write_topic_table(table)
