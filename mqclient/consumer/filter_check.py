"""Lets a broker check a SQL92 filter, so that a bad one raises in the program.

RocketMQ checks only at the start (`MQClientInstance.checkClientInBroker`). After it, a filter
that no broker can parse gives the application no error and no message.
"""

import asyncio
import logging
from collections.abc import Callable

from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.errors import BrokerError
from mqcommon.wire.bodies.heartbeat import SQL92, CheckClientRequestBody
from mqcommon.wire.calls import group_calls

__all__ = ["FilterChecks"]

log = logging.getLogger(__name__)


class FilterChecks:
    """The filters under check, one per topic: a newer one replaces the older."""

    def __init__(self, client: Client, group: str) -> None:
        self._client, self._group = client, group
        self._asked: dict[str, asyncio.Task[None]] = {}
        """By topic: running checks, and refusals that `finish` has not raised."""
        self._awaited: set[asyncio.Task[None]] = set()
        """Checks whose refusal a call of `finish` raises."""

    def begin(self, item: Subscription, accept: Callable[[Subscription], None]) -> None:
        """Let a broker check a filter, then accept it unless `forget` came first.

        A refusal is logged, and the next `finish` raises it.
        """
        topic = item.data.topic
        task = asyncio.get_running_loop().create_task(self._check_new(item, accept))
        self._asked[topic] = task
        task.add_done_callback(lambda task: self._done(topic, task))

    def forget(self, topic: str) -> None:
        """Drop the filter that is being checked for a topic, if any."""
        self._asked.pop(topic, None)

    async def finish(self, topic: str | None = None) -> None:
        """Wait for the running checks, or for a topic's; raise the first refusal."""
        for name, task in list(self._asked.items()):
            if topic is not None and name != topic:
                continue
            self._awaited.add(task)
            try:
                await asyncio.shield(task)
            finally:
                self._awaited.discard(task)
                if task.done() and self._asked.get(name) is task:
                    self.forget(name)

    async def cancel(self) -> None:
        """Cancel the running checks."""
        tasks = list(self._asked.values())
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
        if self._asked.get(topic) is asyncio.current_task():
            accept(item)

    def _done(self, topic: str, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and task not in self._awaited:
            log.error("topic %s is not subscribed: %s", topic, error)
        elif self._asked.get(topic) is task:
            self.forget(topic)
