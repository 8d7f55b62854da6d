"""A broker's topics as text and back, ten thousand at a time, by the compiled core."""

from collections.abc import Mapping
from typing import Any

from mqclient.wire.bodies.common import DataVersion
from mqclient.wire.headers.base import all_named
from mqstore import _core
from mqstore.lean import dataclass

BYTES_MAX = 64 * 1024 * 1024
"""A compressed registration that grows over this is refused."""

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
    """
    found = _core.read_registration(body, BYTES_MAX if compressed else None)
    if found is None:
        return None
    topics, counter, timestamp, filter_servers = found
    if not all_named(topics) or not all_named(filter_servers):
        return None
    return Registered(topics, DataVersion(counter, timestamp), filter_servers)


def topic_table(table: dict[str, Any]) -> str:
    """A table of `TopicConfig` as fastjson's text, keys sorted.

    Raises TypeError or OverflowError where a field does not have its type.
    """
    return _core.write_topic_table(table)
