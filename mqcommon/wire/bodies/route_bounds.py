"""Limits on a NameServer's replies, so that a few bytes do not become gigabytes of queues."""

from collections.abc import Collection, Iterable

from mqcommon.wire.bodies.route import BrokerData, ClusterInfo, TopicRouteData

__all__ = ["QUEUES_MAX", "order_counts", "queues_flaw", "read_clusters", "read_route"]

QUEUES_MAX = 65_536
"""Most read queues, and write queues, of a topic on one broker."""
ROUTE_QUEUES_MAX = 500_000
"""Most read queues, and write queues, of a topic on all brokers."""
BROKERS_MAX = 10_000
"""Most broker names of a route or of a cluster, and most clusters."""
ADDRESSES_MAX = 1_000
"""Most addresses of one broker name."""


def queues_flaw(topic: str, reads: int, writes: int) -> str | None:
    """Why a topic cannot have these numbers of read and write queues; None if it can."""
    for name, count in (("readQueueNums", reads), ("writeQueueNums", writes)):
        if not 0 <= count <= QUEUES_MAX:
            return f"topic {topic}: {name}={count} must be 0 to {QUEUES_MAX}"
    return None


def read_route(body: bytes) -> TopicRouteData:
    """Decode a route. Raises ValueError for one that no cluster has."""
    route = TopicRouteData.from_json(body)
    _check_brokers(route.broker_datas)
    _check("entries of queues", len(route.queue_datas), BROKERS_MAX)
    orders = order_counts(route.order_topic_conf or "")
    _check("entries of orderTopicConf", len(orders), BROKERS_MAX)
    _check_queues((queues.broker_name, queues.read_queue_nums) for queues in route.queue_datas)
    _check_queues((queues.broker_name, queues.write_queue_nums) for queues in route.queue_datas)
    _check_queues(orders)
    return route


def read_clusters(body: bytes) -> ClusterInfo:
    """Decode all clusters. Raises ValueError for more than any NameServer has."""
    info = ClusterInfo.from_json(body or b"{}")
    _check_brokers(info.broker_addr_table.values())
    _check("clusters", len(info.cluster_addr_table), BROKERS_MAX)
    for cluster, brokers in info.cluster_addr_table.items():
        _check(f"brokers of cluster {cluster!r}", len(brokers), BROKERS_MAX)
    return info


def order_counts(text: str) -> list[tuple[str, int]]:
    """Read "brokerA:4;brokerB:8". Raises ValueError for anything else."""
    pairs = [item.rpartition(":") for item in text.split(";") if item.strip()]
    for name, _, count in pairs:
        if not name or not count.strip().isdecimal():
            raise ValueError(f"orderTopicConf {text[:64]!r}: must be BROKER:QUEUES;BROKER:QUEUES")
    return [(name, int(count)) for name, _, count in pairs]


def _check_brokers(brokers: Collection[BrokerData]) -> None:
    _check("broker names", len(brokers), BROKERS_MAX)
    for broker in brokers:
        name = broker.broker_name
        _check(f"addresses of broker {name!r}", len(broker.broker_addrs), ADDRESSES_MAX)


def _check_queues(counts: Iterable[tuple[str, int]]) -> None:
    total = 0
    for name, count in counts:
        _check(f"queues of broker {name!r}", count, QUEUES_MAX)
        total += count
    _check("queues of all brokers", total, ROUTE_QUEUES_MAX)


def _check(what: str, count: int, most: int) -> None:
    if not 0 <= count <= most:
        raise ValueError(f"{count} {what}: must be 0 to {most}")
