"""Lets a broker check a SQL92 filter, so that a bad one raises in `subscribe`.

RocketMQ checks only at the start (`MQClientInstance.checkClientInBroker`). After it, a filter
that no broker can parse gives the application no error and no message.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.errors import BrokerError
from mqcommon.wire.bodies.heartbeat import SQL92, CheckClientRequestBody
from mqcommon.wire.calls import group_calls

__all__ = ["FilterChecks", "Subscribed"]

log = logging.getLogger(__name__)


class Subscribed(Awaitable[None]):
    """Result of `subscribe`: await it to know that no broker refuses the filter."""

    def __init__(self, task: "asyncio.Task[None] | None" = None) -> None:
        self.task = task
        self.awaited = False

    def __await__(self) -> Generator[Any, None, None]:
        self.awaited = True
        if self.task is not None:
            yield from asyncio.shield(self.task).__await__()


class FilterChecks:
    """The filters under check, one per topic: a newer one replaces the older."""

    def __init__(self, client: Client, group: str) -> None:
        self._client, self._group = client, group
        self._asked: dict[str, Subscribed] = {}
        """By topic: running checks, and refusals that the caller has not awaited."""

    def begin(self, item: Subscription, accept: Callable[[Subscription], None]) -> Subscribed:
        """Let a broker check a filter, then accept it unless `forget` came first.

        A refusal that the caller does not await is logged, and the next `finish` raises it.
        """
        topic = item.data.topic
        task = asyncio.get_running_loop().create_task(self._check_new(item, accept))
        asked = self._asked[topic] = Subscribed(task)
        task.add_done_callback(lambda task: self._done(topic, task, asked))
        return asked

    def forget(self, topic: str) -> None:
        """Drop the filter that is being checked for a topic, if any."""
        self._asked.pop(topic, None)

    async def finish(self) -> None:
        """Wait for the running checks; raise the first refusal that was not awaited."""
        for topic, asked in list(self._asked.items()):
            if asked.awaited and asked.task is not None:
                await asyncio.wait([asked.task])  # the `await` raises its error
                continue
            try:
                await asked
            finally:
                if self._asked.get(topic) is asked:
                    self.forget(topic)

    async def cancel(self) -> None:
        """Cancel the running checks."""
        tasks = [asked.task for asked in self._asked.values() if asked.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def check(self, item: Subscription) -> None:
        """Ask a broker of the topic, if one is known, whether it can apply the filter.

        Raises BrokerError if it cannot, UnreachableError, ClientTimeout.
        """
        route = self._client.routes.known(item.data.topic)
        if item.checked or item.data.expression_type != SQL92 or not (route and route.subscribe):
            return
        body = CheckClientRequestBody(self._client.client_id, self._group, item.data)
        address = self._client.address_of(route.subscribe[0])
        await self._client.invoke(address, group_calls.check_client_config(body))
        item.checked = True

    async def check_later(self, item: Subscription) -> None:
        """The same for a topic whose route appears later: a refusal is logged."""
        try:
            await self.check(item)
        except BrokerError as error:
            item.checked = True
            log.error("topic %s gets no messages: filter refused: %s", item.data.topic, error)

    async def _check_new(self, item: Subscription, accept: Callable[[Subscription], None]) -> None:
        topic = item.data.topic
        await self._client.routes.get(topic)
        await self.check(item)
        asked = self._asked.get(topic)
        if asked is not None and asked.task is asyncio.current_task():
            accept(item)

    def _done(self, topic: str, task: "asyncio.Task[None]", asked: Subscribed) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not asked.awaited:
            log.error("topic %s is not subscribed: %s", topic, error)
        elif self._asked.get(topic) is asked:
            self.forget(topic)
