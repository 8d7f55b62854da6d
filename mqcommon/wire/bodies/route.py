"""Bodies of the NameServer: routes, clusters."""

from msgspec import field

from mqcommon.wire.bodies.base import Body
from mqcommon.wire.headers.base import Int32, Name

PERM_PRIORITY, PERM_READ, PERM_WRITE, PERM_INHERIT = 8, 4, 2, 1
"""Bits of a topic's perm."""

MASTER_ID = 0
"""Broker id of the master among the brokers of one name."""


class QueueData(Body):
    """The queues of a topic on one broker name, and their permission.

    topic_sys_flag: 1 unit, 2 unit subscription.
    """

    broker_name: Name
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_sys_flag: Int32 = 0

    @property
    def readable(self) -> bool:
        """True when consumers may pull here."""
        return bool(self.perm & PERM_READ)

    @property
    def writable(self) -> bool:
        """True when producers may send here."""
        return bool(self.perm & PERM_WRITE)


class BrokerData(Body):
    """The addresses of one broker name: broker id (0 = master) to "host:port"."""

    broker_name: Name
    cluster: Name | None = None
    broker_addrs: dict[int, Name] = field(default_factory=dict)

    @property
    def master(self) -> str | None:
        """Address of the master; None if it is not registered."""
        return self.broker_addrs.get(MASTER_ID)


class TopicRouteData(Body):
    """The route of a topic: the answer to 105.

    order_topic_conf: "brokerA:4;brokerB:8" when the topic is ordered.
    """

    broker_datas: list[BrokerData] = field(default_factory=list)
    queue_datas: list[QueueData] = field(default_factory=list)
    filter_server_table: dict[Name, list[Name]] = field(default_factory=dict)
    order_topic_conf: str | None = None


class ClusterInfo(Body):
    """All clusters: the answer to 106. Cluster name to broker names, broker name to data."""

    broker_addr_table: dict[Name, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[Name, list[Name]] = field(default_factory=dict)
