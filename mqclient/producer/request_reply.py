"""Requests that wait for a reply message, and the replies to them.

Rules: RocketMQ 4.9 `DefaultMQProducerImpl.request`, `RequestResponseFuture`,
`MessageUtil.createReplyMessage` and `ClientRemotingProcessor.receiveReplyMessage`.
"""

import asyncio
import ipaddress
import logging
import struct
import time
import uuid
from collections.abc import Iterable, Mapping

from mqclient.engine.client import Client
from mqclient.engine.stored_record import NO_HOST, stored_record
from mqclient.errors import ClientTimeout, ClosedError, ProtocolError, RocketMQError
from mqclient.producer.sender import Sender
from mqcommon.message import Message, MessageQueue, ReceivedMessage, decode_messages
from mqcommon.names import REPLY_SUFFIX
from mqcommon.property_text import PROPERTIES_BYTES_MAX, pairs_of
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.send import ReplyMessageRequestHeader

__all__ = ["Requests", "reply"]

log = logging.getLogger(__name__)
_CORRELATION, _ASKER, _TTL = "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"


def reply(
    request: ReceivedMessage,
    body: bytes | bytearray | memoryview,
    *,
    tags: str | None = None,
    keys: str | Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Message:
    """Make the reply to a request that a consumer received; any producer sends it.

    request: the received message. body: the reply's content, not empty. tags, keys, properties:
    as for Message, but the tag may be any received tag, because replies have no subscribers.
    Raises ValueError if the message is no request, because `send` sent it.
    """
    found = request.properties
    missing = [name for name in ("CLUSTER", _ASKER, _CORRELATION) if not found.get(name)]
    if missing:
        raise ValueError(
            f"message {request.msg_id} cannot be replied to: it has no {missing[0]}; reply to "
            f"messages that were sent by request()"
        )
    topic = found["CLUSTER"] + REPLY_SUFFIX
    message = Message(topic, body, keys=keys, properties=properties)
    if tags is not None:
        message.properties |= {"TAGS": tags}
    del message.properties["WAIT"]  # RocketMQ's replies have none
    copied = {name: found[name] for name in (_CORRELATION, _ASKER, _TTL) if name in found}
    message.properties |= {"MSG_TYPE": "reply", **copied}
    return message


class Requests:
    """The requests of one producer that wait for their replies."""

    def __init__(self, client: Client, sender: Sender) -> None:
        self._client = client
        self._sender = sender
        self._own: set[str] = set()
        """Correlation ids of this producer's requests."""
        client.on_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._arrived)

    async def request(
        self, message: Message, queue: MessageQueue | None, timeout: float
    ) -> ReceivedMessage:
        """Send a message and wait for its reply; see Producer.request."""
        self._client.check_running()
        deadline = time.monotonic() + timeout
        correlation = str(uuid.uuid4())
        future: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        waiting = self._client.replies
        waiting[correlation] = future
        self._own.add(correlation)
        try:
            try:
                await self._send(message, correlation, queue, timeout, deadline)
            except RocketMQError:
                if not future.done():  # else only the answer to the send was lost
                    raise
            await asyncio.wait((future,), timeout=max(0.0, deadline - time.monotonic()))
            if future.done():
                return future.result()
            raise ClientTimeout(
                f"no reply to the request to topic {message.topic!r} came within {timeout:.3g} s; "
                f"check that a consumer of the topic replies (correlation id {correlation})"
            )
        finally:
            del waiting[correlation]
            self._own.discard(correlation)

    async def _send(
        self,
        message: Message,
        correlation: str,
        queue: MessageQueue | None,
        timeout: float,
        deadline: float,
    ) -> None:
        # The whole timeout, as DefaultMQProducerImpl.prepareSendRequest writes it.
        ttl = str(max(1, round(timeout * 1000)))
        more = {_CORRELATION: correlation, _ASKER: self._client.client_id, _TTL: ttl}
        outgoing = self._sender.prepare_with(message, more)
        await self._sender.route(outgoing.topic, deadline - time.monotonic())
        # A broker can push the reply only to a producer that it knows.
        await self._client.introduce(outgoing.topic, deadline - time.monotonic())
        left = deadline - time.monotonic()
        if queue is None:
            await self._sender.send_anywhere(outgoing, left)
        else:
            await self._sender.send_to(outgoing, queue, left)

    def close(self) -> None:
        """End every request that waits with ClosedError."""
        for correlation in self._own:
            future = self._client.replies[correlation]
            if not future.done():
                future.set_exception(ClosedError("the producer closed before the reply came"))
                future.exception()  # a request that is being cancelled does not ask for it

    async def _arrived(self, address: str, request: Frame) -> Frame:
        """A broker pushes a reply. Answer success even if no request waits, as RocketMQ does."""
        header = ReplyMessageRequestHeader.from_fields(request.fields)
        self._check_properties(header.properties or "", address)
        (message,) = decode_messages(_record(header, request.body))
        now_ms = time.time_ns() // 1_000_000
        message.properties["ARRIVE_TIME"] = str(now_ms)
        correlation = message.properties.get(_CORRELATION, "")
        message.topic = self._client.namespace.unwrap(message.topic)
        future = self._client.replies.get(correlation)
        if future is None or future.done():
            log.warning(
                "broker %s pushed a reply from producer group %s that no request waits for: it is "
                "late, or a second one (correlation id %s, %d ms after its birth)",
                address, header.producer_group, correlation, now_ms - header.born_timestamp,
            )  # fmt: skip
        else:
            future.set_result(message)
        return request.reply(0)

    def _check_properties(self, text: str, address: str) -> None:
        """Raise ProtocolError, also from the request that waits, for more than messages have."""
        size = len(text.encode())
        if size <= PROPERTIES_BYTES_MAX:
            return
        what = f"a reply message with {size} bytes of properties: must be 0 to "
        error = ProtocolError(f"{what}{PROPERTIES_BYTES_MAX}", f"broker {address}")
        found = (pair.value for pair in pairs_of(text) if pair.name == _CORRELATION)
        future = self._client.replies.get(next(found, ""))
        if future is not None and not future.done():
            future.set_exception(error)
        raise error


def _record(header: ReplyMessageRequestHeader, body: bytes) -> bytes:
    """A pushed reply in stored form, which ReceivedMessage reads; it has no place in a log."""
    return stored_record(
        header.topic,
        body,
        header.properties or "",
        queue_id=header.queue_id,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_ms=header.born_timestamp,
        store_ms=header.store_timestamp,
        born_host=_host(header.born_host),
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )


def _host(text: str) -> bytes:
    """An address "ip:port" as messages store it; zeros if it is none."""
    host, _, port = text.removeprefix("/").rpartition(":")
    try:
        return ipaddress.ip_address(host.strip("[]")).packed + struct.pack(">i", int(port))
    except (ValueError, struct.error):
        return NO_HOST
