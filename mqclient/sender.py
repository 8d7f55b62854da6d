"""Sending: choose a queue, build the request, try another broker when that may help.

Rules: RocketMQ 4.9 `DefaultMQProducerImpl.sendDefaultImpl`, `MQFaultStrategy`.
"""

import asyncio
import random
import time
from collections.abc import Sequence

from mqclient.config import DEFAULT_TOPIC, ProducerSettings
from mqclient.engine import Client
from mqclient.errors import BrokerError, ClientTimeout, UnreachableError
from mqclient.outgoing import Outgoing
from mqclient.results import STATUS_OF_CODE, SendResult, SendStatus, read_send_reply
from mqclient.routes import TopicRoute
from mqclient.wire.codes import RequestCode, ResponseCode
from mqclient.wire.frame import Frame
from mqstore.message import MessageQueue

__all__ = ["QueueChooser", "Sender"]

RETRY_CODES = frozenset(
    map(
        int,
        (
            ResponseCode.TOPIC_NOT_EXIST,
            ResponseCode.SERVICE_NOT_AVAILABLE,
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.NO_PERMISSION,
            ResponseCode.NO_BUYER_ID,
            ResponseCode.NOT_IN_CURRENT_UNIT,
        ),
    )
)
"""Answers after which another broker is tried; SYSTEM_BUSY is not among them, as in RocketMQ."""


class QueueChooser:
    """Takes the queues of a topic in turn; after a failure, one of another broker if there is."""

    def __init__(self, start: int | None) -> None:
        self._index = random.randrange(1 << 30) if start is None else start

    def choose(self, queues: Sequence[MessageQueue], failed_broker: str | None) -> MessageQueue:
        """The next queue. failed_broker: broker name to avoid, None on a first try."""
        for _ in queues:
            queue = queues[self._index % len(queues)]
            self._index += 1
            if queue.broker_name != failed_broker:
                return queue
        queue = queues[self._index % len(queues)]
        self._index += 1
        return queue


class Sender:
    """Sends prepared messages for one producer group."""

    def __init__(self, client: Client, settings: ProducerSettings) -> None:
        self._client = client
        self.settings = settings
        self._choosers: dict[str, QueueChooser] = {}

    async def route(self, topic: str, timeout: float) -> TopicRoute:
        """The route to send to. timeout: seconds, if a NameServer must be asked.

        Raises NoRouteError when there is none, UnreachableError, ClientTimeout.
        """
        routes = self._client.routes
        known = routes.known(topic)
        if known is not None and known.publish:
            return known
        try:
            async with asyncio.timeout(max(0.0, timeout)):
                return await routes.for_sending(topic, self.settings.default_topic_queues)
        except TimeoutError as error:
            if isinstance(error, ClientTimeout):
                raise
            raise ClientTimeout(
                f"NameServer {self._client.namesrv} did not say in time where topic {topic!r} "
                f"is; check that it runs (mqserver namesrv start)"
            ) from None

    def choose(
        self, topic: str, route: TopicRoute, failed_broker: str | None = None
    ) -> MessageQueue:
        """The next queue of a topic, of another broker than the one that failed if possible."""
        chooser = self._choosers.get(topic)
        if chooser is None:
            chooser = self._choosers[topic] = QueueChooser(self.settings.queue_index_start)
        return chooser.choose(route.publish, failed_broker)

    async def send_anywhere(self, outgoing: Outgoing, timeout: float) -> SendResult:
        """Try up to 1 + retries brokers; each try may use all the time that is left.

        timeout: seconds for everything. Raises as Producer.send does.
        """
        deadline = time.monotonic() + timeout
        topic = outgoing.topic
        failed_broker: str | None = None
        last_error: Exception | None = None
        for tries_left in range(self.settings.retries, -1, -1):
            route = await self.route(topic, deadline - time.monotonic())
            chosen = self.choose(topic, route, failed_broker)
            if last_error is not None and time.monotonic() >= deadline:
                break
            failed_broker = chosen.broker_name
            try:
                result = await self.send_to(outgoing, chosen, deadline - time.monotonic())
            except (UnreachableError, ClientTimeout) as error:
                last_error = error
            except BrokerError as error:
                if error.code not in RETRY_CODES:
                    raise
                last_error = error
            else:
                lesser = result.status is not SendStatus.SEND_OK
                if not (lesser and self.settings.retry_not_durable and tries_left):
                    return result
        assert last_error is not None
        if time.monotonic() < deadline:
            raise last_error
        raise ClientTimeout(
            f"message {outgoing.msg_id} was not acknowledged within {timeout:g} s "
            f"(last: {last_error}); it may be stored nevertheless"
        ) from last_error

    async def send_to(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        """Send to one queue, once. timeout: seconds."""
        request = self._request(outgoing, queue)
        reply = await self._client.call_broker(self._master(queue), request, max(0.001, timeout))
        if reply.code not in STATUS_OF_CODE:
            raise BrokerError(reply.code, reply.remark, f"broker {queue.broker_name}")
        return read_send_reply(reply, queue, outgoing.msg_id)

    async def oneway_to(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> None:
        """Send to one queue without an answer; returns when the bytes are written."""
        await self._client.oneway(self._master(queue), self._request(outgoing, queue), timeout)

    def _master(self, queue: MessageQueue) -> str:
        address = self._client.routes.address(queue, only_this=True)
        if address is None:
            raise UnreachableError(
                f"broker {queue.broker_name!r} has no master for topic {queue.topic!r}; look: "
                f"mqadmin topicRoute -n {self._client.settings.namesrv[0]} -t {queue.topic}"
            )
        return address

    def _request(self, outgoing: Outgoing, queue: MessageQueue) -> Frame:
        """Header V2 with its one-letter fields, in RocketMQ's order; see headers/send.py."""
        born_ms = outgoing.born_timestamp_ms
        fields = {
            "a": self.settings.group,
            "b": outgoing.topic,
            "c": DEFAULT_TOPIC,
            "d": str(self.settings.default_topic_queues),
            "e": str(queue.queue_id),
            "f": str(outgoing.sys_flag),
            "g": str(time.time_ns() // 1_000_000 if born_ms is None else born_ms),
            "h": str(outgoing.flag),
            "i": outgoing.properties,
            "j": str(outgoing.reconsume_times),
            "k": "false",
        }
        if outgoing.max_reconsume_times is not None:
            fields["l"] = str(outgoing.max_reconsume_times)
        fields["m"] = "true" if outgoing.batch else "false"
        fields["n"] = queue.broker_name
        code = RequestCode.SEND_BATCH_MESSAGE if outgoing.batch else RequestCode.SEND_MESSAGE_V2
        return Frame(int(code), fields, outgoing.body)
