"""The file of consumer filters, consumerFilter.json (RocketMQ's `ConsumerFilterManager`)."""

from msgspec import field

from mqcommon.wire.bodies.base import Body
from mqcommon.wire.headers.base import Int32, Name


class BloomFilterData(Body):
    """The bits of a group's filter for a topic, of `bit_num`."""

    bit_pos: list[Int32] = field(default_factory=list)
    bit_num: Int32 = 0


class ConsumerFilterData(Body):
    """A group's filter for a topic: an expression other than tags.

    born_time, dead_time: milliseconds since the epoch; dead while the group has no member.
    client_version: `subVersion` of the subscription.
    """

    consumer_group: Name
    topic: Name
    expression: str
    expression_type: str
    born_time: int
    client_version: int
    dead_time: int = 0
    dead: bool = False
    bloom_filter_data: BloomFilterData | None = None


class FilterDataMapByTopic(Body):
    """The filters of one topic by group."""

    topic: Name
    group_filter_data: dict[Name, ConsumerFilterData] = field(default_factory=dict)


class ConsumerFilterWrapper(Body):
    """The whole file: filters by topic."""

    filter_data_by_topic: dict[Name, FilterDataMapByTopic] = field(default_factory=dict)
