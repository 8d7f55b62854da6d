"""Versions of subscriptions: of a group's subscriptions to a topic, a broker applies the highest.

Rules: RocketMQ 4.9 `ConsumerGroupInfo.updateSubscription`; a version is a time in milliseconds.
A clock that stands still or steps back must not keep an older filter in force. So the versions of
one process always rise, and a new subscription gets a higher version than the members that are
online.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterable

from mqclient.engine.client import Client
from mqclient.errors import RocketMQError
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqcommon.wire.calls import group_calls

__all__ = ["next_version", "outrank"]

log = logging.getLogger(__name__)
ASK_TIMEOUT = 3.0
"""Seconds to wait for a broker's answer about the online members."""
VERSION_MAX = 1 << 62
"""A broker's version above this is not a time; new versions ignore it."""
_lock = threading.Lock()
_last = 0


def next_version(above: int = 0) -> int:
    """A version for a new subscription, higher than all before it and than `above`."""
    global _last
    with _lock:
        _last = max(time.time_ns() // 1_000_000, _last + 1, above + 1)
        return _last


async def outrank(client: Client, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
    """Give subscriptions higher versions than the other members of the group sent.

    A broker that does not answer is skipped; the next heartbeat reaches it.
    """
    wanted = {item.topic: item for item in subscriptions}
    addresses = {
        address
        for topic in wanted
        if (route := client.routes.known(topic)) is not None
        for queue in route.subscribe
        if (address := client.routes.address(queue)) is not None
    }
    await asyncio.gather(*(_outrank_at(client, address, group, wanted) for address in addresses))


async def _outrank_at(
    client: Client, address: str, group: str, wanted: dict[str, SubscriptionData]
) -> None:
    try:
        online = await client.invoke(address, group_calls.consumer_connection(group), ASK_TIMEOUT)
    except RocketMQError as error:  # most often: no member is online
        log.debug("subscriptions of the members of %s: %s", group, error)
        return
    for topic, known in online.subscription_table.items():
        ours = wanted.get(topic)
        if ours is None or not ours.sub_version <= known.sub_version < VERSION_MAX:
            continue
        if (ours.expression_type, ours.sub_string) != (known.expression_type, known.sub_string):
            ours.sub_version = next_version(above=known.sub_version)
