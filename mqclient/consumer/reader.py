"""Reads a topic without a group: joins nothing, commits nothing. What `mqclient tail` stands on.

Pulls carry their subscription themselves, as RocketMQ's pull consumer does, so brokers need no
heartbeat; the group is TOOLS_CONSUMER, which every broker has.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from datetime import datetime

from mqclient.config import ConsumeFrom
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.pull import ERROR_DELAY, pull_request, read_pull_answer
from mqclient.consumer.subscription import Subscription, tag_subscription
from mqclient.engine import Client
from mqclient.errors import BrokerError, RocketMQError
from mqclient.wire import calls
from mqclient.wire.codes import PullSysFlag
from mqstore.message import MessageQueue, ReceivedMessage

__all__ = ["TOOLS_GROUP", "read_topic"]

log = logging.getLogger(__name__)
TOOLS_GROUP = "TOOLS_CONSUMER"
_PULL_BATCH = 32
_HOLD = 5.0
_ANSWER_GRACE = 10.0
_BUFFER_PULLS = 16
"""Pulled batches that may wait for the caller; then pulling pauses."""


async def read_topic(
    client: Client, topic: str, expression: str = "*", start: ConsumeFrom = "latest"
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield a topic's messages from all its queues, for ever; close the iterator to stop.

    client: a started engine. start: where each queue begins. The queues are those at the start.
    Raises NoRouteError when the topic does not exist, BrokerError, UnreachableError.
    """
    subscription = tag_subscription(topic, expression, None)
    route = await client.routes.get(topic)
    if route is None or not route.subscribe:
        raise await client.routes.no_route(topic)
    arrived: asyncio.Queue[list[ReceivedMessage] | BaseException] = asyncio.Queue(_BUFFER_PULLS)
    offsets = await asyncio.gather(*(_start(client, queue, start) for queue in route.subscribe))
    tasks = [
        asyncio.ensure_future(_pull(client, ProcessQueue(queue, offset), subscription, arrived))
        for queue, offset in zip(route.subscribe, offsets, strict=True)
    ]
    try:
        while True:
            item = await arrived.get()
            if isinstance(item, BaseException):
                raise item
            for message in item:
                yield message
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _start(client: Client, queue: MessageQueue, start: ConsumeFrom) -> int:
    if isinstance(start, datetime):
        call = calls.search_offset(queue, int(start.timestamp() * 1000))
    else:
        call = calls.min_offset(queue) if start == "earliest" else calls.max_offset(queue)
    return await client.invoke(client.address_of(queue), call)


async def _pull(
    client: Client,
    held: ProcessQueue,
    subscription: Subscription,
    arrived: "asyncio.Queue[list[ReceivedMessage] | BaseException]",
) -> None:
    """Pull one queue into `arrived`; a broker that is away is waited for, other errors end it."""
    while True:
        try:
            messages = await _pull_once(client, held, subscription)
            if messages:
                await arrived.put(messages)
        except BrokerError as error:
            await arrived.put(error)
            return
        except RocketMQError as error:
            log.warning("pulling %s failed: %s", held.queue, error)
            await asyncio.sleep(ERROR_DELAY)


async def _pull_once(
    client: Client, held: ProcessQueue, subscription: Subscription
) -> list[ReceivedMessage]:
    request = pull_request(
        TOOLS_GROUP,
        held,
        count=_PULL_BATCH,
        sys_flag=int(PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION),
        suspend_ms=int(_HOLD * 1000),
        subscription=subscription.data.sub_string,
    )
    address = client.address_of(held.queue, held.broker_id)
    reply = await client.call_broker(address, request, _HOLD + _ANSWER_GRACE)
    answer = read_pull_answer(reply, held.queue.broker_name)
    held.next_offset, held.broker_id = answer.next_offset, answer.suggested_broker_id
    tags = subscription.tags
    return [message for message in answer.messages if tags is None or message.tags in tags]
