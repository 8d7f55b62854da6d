"""Reads and writes a broker's topics as text, ten thousand at a time, in the compiled core."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqcommon import _core
from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.headers.base import all_named

Row = tuple[int, int, int, int]
"""A topic of one broker in a route: read queues, write queues, perm, system flag."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The fields of a registration that the NameServer uses.

    filter_servers: addresses; None if the registration has no such field.
    """

    topics: Mapping[str, Row]
    version: DataVersion
    filter_servers: list[str] | None


def read(body: bytes, compressed: bool = False) -> Registered | None:
    """Read a body of REGISTER_BROKER (103) in the usual form of brokers.

    None for any other form, good or bad: `RegisterBrokerBody.decode` accepts or explains it.
    Raises BodyError for a compressed body that cannot be unpacked or would grow too big, which
    is checked only here.
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

    Raises TypeError or OverflowError if a field does not have its type.
    """
    return _core.write_topic_table(table)
