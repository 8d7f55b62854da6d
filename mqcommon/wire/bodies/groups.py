"""Bodies about groups: configuration, connections, consumption."""

from msgspec import field

from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.base import Body
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqcommon.wire.headers.base import Int32, Name


class _GroupName(Body):
    """The only field of a GroupConfig that may be given by position."""

    group_name: Name


class GroupConfig(_GroupName, kw_only=True):
    """A consumer group as its broker keeps it.

    retry_max_times: redeliveries before the dead-letter topic. broker_id: which broker id serves
    reads; which_broker_when_consume_slowly: the same while the group lags.
    """

    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True


class SubscriptionGroupWrapper(Body):
    """All groups of a broker: the answer to 201."""

    subscription_group_table: dict[Name, GroupConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class Connection(Body):
    """A connected client. client_addr: "ip:port"; language: LanguageCode name; version: ordinal."""

    client_id: Name
    client_addr: Name
    language: str | None = None
    version: Int32 = 0


class ConsumerConnection(Body):
    """Members and subscriptions of a consumer group: the answer to 203."""

    connection_set: list[Connection] = field(default_factory=list)
    subscription_table: dict[Name, SubscriptionData] = field(default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ProducerConnection(Body):
    """Members of a producer group: the answer to 204."""

    connection_set: list[Connection] = field(default_factory=list)


class ProducerInfo(Body):
    """A connected producer. remote_ip: "/ip:port"."""

    wire_names = {"remote_ip": "remoteIP"}
    client_id: Name
    remote_ip: str
    language: str | None = None
    version: Int32 = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(Body):
    """All producers of a broker by group: the answer to 328."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


class OffsetWrapper(Body):
    """Positions in one queue. last_timestamp: ms, store time of the last message consumed."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(Body):
    """Progress of a group in each queue: the answer to 208."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
    """Progress of all groups of a broker: the answer to 317."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: Name | None = None
    total_diff: int = 0


class BrokerStatsItem(Body):
    """One statistic over one period. tps: per second; avgpt: average per event."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    """A statistic over a minute, an hour and a day: the answer to 315."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)

    @property
    def sum_of_a_day(self) -> int:
        """The sum of the longest period that has one yet."""
        return self.stats_day.sum or self.stats_hour.sum or self.stats_minute.sum
