"""Reads a topic without joining a group or committing offsets; `mqclient tail` uses it.

Pulls carry their subscription, as those of RocketMQ's pull consumer do, so brokers need no
heartbeat; the group is TOOLS_CONSUMER, which every broker has.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Self, Unpack

from mqclient.config import ClientOptions, ConsumeFrom, check_start, client_settings
from mqclient.consumer.damage import pass_damage
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.pull import ERROR_DELAY, pull_template, pull_values
from mqclient.consumer.pull_answer import read_pull_answer
from mqclient.consumer.subscription import Subscription, tag_subscription
from mqclient.engine import Client, TransportLike
from mqclient.errors import BrokerError, RocketMQError, UnreachableError
from mqclient.wire import calls
from mqclient.wire.codes import PullSysFlag
from mqstore.message import MessageQueue, ReceivedMessage
from mqstore.names import TOOLS_GROUP

__all__ = ["TopicReader"]

log = logging.getLogger(__name__)
_PULL_BATCH = 32
_HOLD = 5.0
_ANSWER_GRACE = 10.0
BUFFERED_PULLS = 16
"""Most pulled batches that wait for the caller; then pulling pauses."""


class TopicReader:
    """Yields a topic's messages from all its queues, for ever; joins no group, commits nothing.

    topic: its name. namesrv: as for a consumer. expression: tags "TagA || TagB", or "*". start:
    where each queue begins: "latest", "earliest" or an aware datetime. Options: the fields of
    ClientSettings. The queues are those that exist when it starts.

        async with TopicReader("TopicTest", "127.0.0.1:9876", start="earliest") as reader:
            async for message in reader:
                print(message.body)
    """

    def __init__(
        self,
        topic: str,
        namesrv: str | Iterable[str] | None = None,
        *,
        expression: str = "*",
        start: ConsumeFrom = "latest",
        transport: TransportLike | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        settings = client_settings(namesrv, options)
        check_start(start, "start")
        self._client = Client(settings, transport)
        self._subscription = tag_subscription(topic, expression, None)
        self._start = start
        self._arrived: asyncio.Queue[list[ReceivedMessage] | BrokerError] = asyncio.Queue(
            BUFFERED_PULLS
        )
        self._ready: deque[ReceivedMessage] = deque()

    async def __aenter__(self) -> Self:
        """Find the queues and start pulling.

        Raises NoRouteError when the topic does not exist, BrokerError, UnreachableError,
        ClientTimeout.
        """
        client, topic = self._client, self._subscription.data.topic
        await client.start()
        try:
            route = await client.routes.get(topic)
            if route is None or not route.subscribe:
                raise await client.routes.no_route(topic)
            queues = route.subscribe
            offsets = await asyncio.gather(*(_start(client, q, self._start) for q in queues))
        except BaseException:
            await client.close(1.0)
            raise
        for queue, offset in zip(queues, offsets, strict=True):
            client.spawn(self._pull(ProcessQueue(queue, offset)), f"reading {queue}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close(1.0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Wait for the next message; raises BrokerError if a broker refuses the pulls."""
        self._client.check_running()
        while not self._ready:
            item = await self._arrived.get()
            if isinstance(item, BrokerError):
                raise item
            self._ready.extend(item)
        return self._ready.popleft()

    async def _pull(self, held: ProcessQueue) -> None:
        """Pull one queue; retry an unreachable broker, pass a refusal on to the caller."""
        while True:
            try:
                messages = await _pull_once(self._client, held, self._subscription)
                if messages:
                    await self._arrived.put(messages)
            except BrokerError as error:
                await self._arrived.put(error)
                return
            except (RocketMQError, ValueError) as error:
                log.warning("pulling %s failed: %s", held.queue, error)
                await asyncio.sleep(ERROR_DELAY)


async def _start(client: Client, queue: MessageQueue, start: ConsumeFrom) -> int:
    if isinstance(start, datetime):
        call = calls.search_offset(queue, int(start.timestamp() * 1000))
    else:
        call = calls.min_offset(queue) if start == "earliest" else calls.max_offset(queue)
    return await client.invoke(client.address_of(queue), call)


async def _pull_once(
    client: Client, held: ProcessQueue, subscription: Subscription
) -> list[ReceivedMessage]:
    address = client.address_of(held.queue, held.broker_id)
    template = pull_template(
        client,
        address,
        TOOLS_GROUP,
        held.queue,
        count=1 if held.pulls_one else _PULL_BATCH,
        suspend_ms=int(_HOLD * 1000),
        subscription=subscription.data.sub_string,
    )
    values = pull_values(held, int(PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION))
    try:
        reply = await template.send(values, b"", _HOLD + _ANSWER_GRACE, at_once=True)
    except UnreachableError as error:
        raise template.explain(error) from error.__cause__
    answer = pass_damage(held, read_pull_answer(reply, held.queue.broker_name))
    held.next_offset, held.broker_id = answer.next_offset, answer.suggested_broker_id
    tags = subscription.tags
    return [message for message in answer.messages if tags is None or message.tags in tags]
