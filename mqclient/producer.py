"""The producer's asyncio face; sender.py does the sending."""

import time
import warnings
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self, Unpack

from mqclient.config import (
    Duration,
    ProducerOptions,
    ProducerSettings,
    check_topic,
    seconds,
    split_options,
)
from mqclient.engine import Client, TransportLike
from mqclient.errors import BrokerError, ClientTimeout, UnreachableError
from mqclient.linger import Linger
from mqclient.outgoing import Outgoing, prepare, prepare_batch
from mqclient.request_reply import Requests
from mqclient.results import SendResult
from mqclient.sender import Sender
from mqclient.wire.frame import Frame
from mqstore.message import Message, MessageQueue, ReceivedMessage

__all__ = ["Producer"]


class Producer:
    """Sends messages. The asyncio face; `mqclient.Producer` is the same for threads.

    namesrv: NameServer "host:port", several by ";" or as a list; None means NAMESRV_ADDR, else
    127.0.0.1:9876. Options: the fields of ProducerSettings and ClientSettings. It may be built
    without a running loop, and belongs to the loop that starts it.

        async with Producer("127.0.0.1:9876") as producer:
            result = await producer.send(Message("TopicTest", b"Hello RocketMQ", tags="TagA"))
    """

    settings: ProducerSettings

    def __init__(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        transport: TransportLike | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._build(namesrv, transport, options, ProducerSettings)

    def _build(
        self,
        namesrv: str | Iterable[str] | None,
        transport: TransportLike | None,
        options: Mapping[str, Any],
        kind: type[ProducerSettings],
    ) -> None:
        client_settings, self.settings = split_options(namesrv, options, kind)
        self._client = Client(client_settings, transport)
        self._client.add_producer(self.settings.group)
        self._sender = Sender(self._client, self.settings)
        self._requests = Requests(self._client, self._sender)
        linger = self.settings.linger > 0
        self._linger = Linger(self._sender, self.settings, self._prepare) if linger else None

    # --- life

    async def start(self) -> None:
        """Start the producer; only the first send needs the NameServer."""
        await self._client.start()

    async def close(self, timeout: Duration = 20.0) -> None:
        """Send what lingers, unregister, and leave the connections.

        timeout: seconds. Pending requests end with ClosedError. Pending sends get their answers, or
        ClosedError if no other client has the connections.
        """
        limit = seconds(timeout)
        self._requests.close()
        if self._linger is not None:
            await self._linger.close(limit)
        await self._client.close(limit)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None and client.running:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.settings.group} {self._client.client_id}>"

    @property
    def client_id(self) -> str:
        """The id under which brokers know this producer."""
        return self._client.client_id

    # --- sending

    async def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: Duration | None = None,
    ) -> SendResult:
        """Send a message, or several of one topic as a batch, and wait until it is stored.

        queue: send to this queue only; None takes the queues in turn, after a failure of other
        brokers first.
        timeout: seconds for the send and its retries; None means the producer's (3 s).
        Returns a SendResult whose status may be less than SEND_OK; see raise_for_status().
        Raises ValueError or TypeError for what cannot be sent, NoRouteError, BrokerError,
        UnreachableError, ClientTimeout (the message may be stored nevertheless), ClosedError.
        """
        if not self._client.running:
            self._client.check_running()
        if self._linger is not None and isinstance(message, Message):
            limit = self.settings.timeout if timeout is None else seconds(timeout)
            if queue is not None:
                _check_queue(queue, message.topic)
            return await self._linger.add(message, queue, limit)
        if type(message) is Message:  # the usual case, with one call fewer
            outgoing = prepare(message, self.settings)
        else:
            outgoing = self._prepare(message)
        limit = self.settings.timeout if timeout is None else seconds(timeout)
        sender = self._sender
        if queue is not None:
            _check_queue(queue, outgoing.topic)
            await sender.route(outgoing.topic, limit)
            return await sender.send_to(outgoing, queue, limit)
        started = time.monotonic()
        path = sender.next_path(outgoing.topic)
        if path is None:
            return await sender.try_on(outgoing, started, limit, None)
        # The route is known: send here, not in the sender, to save one coroutine.
        try:
            answer = await path.send(outgoing, limit)
            if type(answer) is not Frame and answer.code == 0:
                return SendResult(answer, outgoing.msg_id, path.queue)
        except (UnreachableError, ClientTimeout, BrokerError) as error:
            answer = error
        outcome = sender.judge(path, outgoing, answer)
        if isinstance(outcome, SendResult):
            return outcome
        return await sender.try_on(outgoing, started, limit, outcome)

    def send_from_thread(
        self, message: Message | Sequence[Message], timeout: Duration | None
    ) -> SendResult | Coroutine[Any, Any, SendResult]:
        """For the blocking face: `send` in the caller's thread, without the loop.

        Returns a coroutine for the loop if the loop must act, for example to fetch a route.
        """
        if not self._client.running:
            self._client.check_running()
        if self._linger is not None:
            return self.send(message, timeout=timeout)
        if type(message) is Message:
            outgoing = prepare(message, self.settings)
        else:
            outgoing = self._prepare(message)
        limit = self.settings.timeout if timeout is None else seconds(timeout)
        started = time.monotonic()
        sender = self._sender
        path = sender.next_path(outgoing.topic)
        if path is None or not path.blocks:
            return sender.try_on(outgoing, started, limit, None)
        try:
            answer = path.call(outgoing, limit)
            if type(answer) is not Frame and answer.code == 0:
                return SendResult(answer, outgoing.msg_id, path.queue)
        except (UnreachableError, ClientTimeout, BrokerError) as error:
            answer = error
        outcome = sender.judge(path, outgoing, answer)
        if isinstance(outcome, SendResult):
            return outcome
        return sender.try_on(outgoing, started, limit, outcome)

    async def send_oneway(
        self, message: Message | Sequence[Message], *, queue: MessageQueue | None = None
    ) -> None:
        """Send once, without an answer: the caller does not learn whether it was stored.

        Returns when the bytes are written. Raises like `send` for errors until then.
        """
        self._client.check_running()
        outgoing = self._prepare(message)
        route = await self._sender.route(outgoing.topic, self.settings.timeout)
        chosen = self._sender.choose(outgoing.topic, route) if queue is None else queue
        _check_queue(chosen, outgoing.topic)
        await self._sender.oneway_to(outgoing, chosen, self.settings.timeout)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout: Duration | None = None,
    ) -> ReceivedMessage:
        """Send a message and wait for the message that a consumer replies with.

        queue: as for `send`. timeout: seconds for the send, its retries and the reply; None means
        the producer's (3 s). The consumer makes its reply with `mqclient.reply`.
        Raises ClientTimeout when no reply comes, else as `send` does.
        """
        if not isinstance(message, Message):
            raise TypeError(f"a request is one Message, not {type(message).__name__}")
        if queue is not None:
            _check_queue(queue, message.topic)
        limit = self.settings.timeout if timeout is None else seconds(timeout)
        return await self._requests.request(message, queue, limit)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that accept sends, in RocketMQ's order.

        Raises NoRouteError if there is none.
        """
        self._client.check_running()
        return list((await self._sender.route(check_topic(topic), self.settings.timeout)).publish)

    def _prepare(self, message: Message | Sequence[Message]) -> Outgoing:
        if isinstance(message, Message):
            return prepare(message, self.settings)
        if isinstance(message, (list, tuple)):
            return prepare_batch(message, self.settings)
        raise TypeError(f"send takes a Message or a list of them, not {type(message).__name__}")


def _check_queue(queue: MessageQueue, topic: str) -> None:
    if not isinstance(queue, MessageQueue):
        raise TypeError(f"queue must be a MessageQueue, not {type(queue).__name__}")
    if queue.topic != topic:
        raise ValueError(f"{queue} does not belong to the message's topic {topic!r}")
