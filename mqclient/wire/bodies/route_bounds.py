"""Bounds on what a NameServer may say, so that a few bytes do not become gigabytes of queues."""

from mqclient.wire.bodies.route import TopicRouteData

__all__ = ["read_route"]

QUEUES_MAX = 65_536
"""Most read queues, and write queues, of a topic on one broker."""
BROKERS_MAX = 10_000
"""Most broker names of a route."""
ADDRESSES_MAX = 1_000
"""Most addresses of one broker name."""


def read_route(body: bytes) -> TopicRouteData:
    """Decode a route. Raises ValueError for one that no cluster has."""
    route = TopicRouteData.from_json(body)
    _check("broker names", len(route.broker_datas), BROKERS_MAX)
    _check("entries of queues", len(route.queue_datas), BROKERS_MAX)
    for broker in route.broker_datas:
        name = broker.broker_name
        _check(f"addresses of broker {name!r}", len(broker.broker_addrs), ADDRESSES_MAX)
    for queues in route.queue_datas:
        for count in (queues.read_queue_nums, queues.write_queue_nums):
            _check(f"queues of broker {queues.broker_name!r}", count, QUEUES_MAX)
    return route


def _check(what: str, count: int, most: int) -> None:
    if not 0 <= count <= most:
        raise ValueError(f"{count} {what}: must be 0 to {most}")
