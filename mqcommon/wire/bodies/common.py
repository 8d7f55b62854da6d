"""Small bodies that requests about several subjects use."""

from msgspec import field

from mqcommon.wire.bodies.base import Body
from mqcommon.wire.headers.base import Name


class DataVersion(Body):
    """Version of a table. Two are the same only if both fields are equal.

    counter: bumped with each change. timestamp: milliseconds of that change.
    """

    counter: int = 0
    timestamp: int = 0


class KVTable(Body):
    """Text to text: broker runtime, order configuration."""

    table: dict[str, str] = field(default_factory=dict)


class TopicList(Body):
    """Topic names; broker_addr is set in the answer to 304 only."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: Name | None = None


class GroupList(Body):
    """Group names, the answer to 300."""

    group_list: list[str] = field(default_factory=list)
