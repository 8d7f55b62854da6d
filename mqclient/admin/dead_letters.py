"""Dead-letter topics: their messages, and their way back to the group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mqclient.admin.channel import Channel, Room
from mqclient.admin.messages import Messages
from mqclient.admin.offsets import Offsets
from mqclient.admin.topics import Topics
from mqclient.errors import NoRouteError, RocketMQError
from mqcommon.message import DecodeError, Message, MessageQueue, ReceivedMessage
from mqcommon.names import DLQ_PREFIX, dead_letter_topic, retry_topic

if TYPE_CHECKING:
    from mqclient.producer.producer import Producer

REDRIVE_GROUP = "mqadmin_redrive"
"""Its committed offset in a dead-letter topic is the first message that was not redriven."""
PAGE = 32


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """The dead-letter topic of a group.

    messages: stored messages. waiting: messages that were not redriven. last_timestamp_ms: store
    time of the last message, 0 if there is none.
    """

    group: str
    topic: str
    messages: int
    waiting: int
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Redriven:
    """The messages that were sent to the group again. failure: the error that ended the work."""

    messages: list[ReceivedMessage] = field(default_factory=list)
    failure: RocketMQError | DecodeError | None = None


@dataclass(frozen=True, slots=True)
class _Span:
    """The stored messages of a queue from `begin` up to `end`.

    redriven: the first message that was not redriven. last_timestamp_ms: store time of the last
    one, not positive if there is none.
    """

    queue: MessageQueue
    begin: int
    end: int
    redriven: int
    last_timestamp_ms: int


class DeadLetters(Room):
    """Messages that groups could not consume. All raise NoRouteError for a group without any."""

    def __init__(
        self,
        channel: Channel,
        topics: Topics,
        offsets: Offsets,
        messages: Messages,
        producer: Callable[[str], Producer],
    ) -> None:
        super().__init__(channel)
        self._topics, self._offsets, self._messages = topics, offsets, messages
        self._producer = producer

    async def topics(self) -> list[DeadLetterTopic]:
        """The dead-letter topics of all groups."""
        names = [name for name in await self._topics.names() if name.startswith(DLQ_PREFIX)]
        return [await self.topic(name.removeprefix(DLQ_PREFIX)) for name in sorted(names)]

    async def topic(self, group: str) -> DeadLetterTopic:
        """The dead-letter topic of one group."""
        spans = await self._spans(group, again=True)
        return DeadLetterTopic(
            group,
            dead_letter_topic(group),
            sum(span.end - span.begin for span in spans),
            sum(span.end - span.redriven for span in spans),
            max([0, *(span.last_timestamp_ms for span in spans)]),
        )

    async def read(
        self, group: str, count: int = PAGE, *, again: bool = False
    ) -> list[ReceivedMessage]:
        """The oldest messages that were not redriven. again: all stored messages count."""
        found: list[ReceivedMessage] = []
        for span in await self._spans(group, again=again):
            offset = span.begin
            while offset < span.end and len(found) < count:
                page = await self._messages.read(span.queue, offset, min(PAGE, count - len(found)))
                found += page.messages
                if page.next_offset <= offset:
                    break
                offset = page.next_offset
        return found[:count]

    async def redrive(
        self, group: str, count: int | None = None, *, again: bool = False
    ) -> Redriven:
        """Send the messages to the group's retry topic: this group, and no other, gets them again.

        A redriven message has no failed deliveries. It keeps its place in the dead-letter
        topic, and the offset of REDRIVE_GROUP says up to where messages were redriven. count: at
        most this many. again: begin at the oldest stored message.
        """
        done = Redriven()
        spans = await self._spans(group, again=again)
        try:
            async with self._producer(REDRIVE_GROUP) as producer:
                for span in spans:
                    await self._redrive_span(group, span, count, producer, done.messages)
        except (RocketMQError, DecodeError) as error:
            return Redriven(done.messages, error)
        return done

    async def redrive_some(self, group: str, msg_ids: Iterable[str]) -> Redriven:
        """As `redrive`, for messages with these ids; the offset of REDRIVE_GROUP stays.

        msg_ids: offset message ids, or unique keys. Raises BrokerError if one is not stored.
        """
        topic = dead_letter_topic(group)
        with _naming(group):
            await self._topics.route(topic)
        messages = [await self._messages.view(msg_id, topic) for msg_id in msg_ids]
        done = Redriven()
        try:
            async with self._producer(REDRIVE_GROUP) as producer:
                for message in messages:
                    await producer.send(_copy(message, group))
                    done.messages.append(message)
        except (RocketMQError, DecodeError) as error:
            return Redriven(done.messages, error)
        return done

    async def purge(self, group: str) -> list[str]:
        """Delete the dead-letter topic in every cluster; returns the brokers' addresses.

        The records stay in the commit log until the broker deletes the log's files.
        """
        topic = dead_letter_topic(group)
        for span in await self._spans(group, again=True):
            # A new topic of this name begins at offset 0 again.
            await self._offsets.commit(REDRIVE_GROUP, span.queue, 0)
        clusters = {data.cluster for data in (await self._topics.route(topic)).broker_datas}
        addresses = []
        for cluster in sorted(filter(None, clusters)):
            addresses += await self._topics.delete(topic, cluster)
        return addresses

    async def _redrive_span(
        self,
        group: str,
        span: _Span,
        count: int | None,
        producer: Producer,
        done: list[ReceivedMessage],
    ) -> None:
        """Send the messages of one queue, page by page; each page moves the committed offset."""
        offset = span.begin
        while offset < span.end and (count is None or len(done) < count):
            wanted = min(PAGE, span.end - offset)
            if count is not None:
                wanted = min(wanted, count - len(done))
            page = await self._messages.read(span.queue, offset, wanted)
            if not page.messages and page.next_offset <= offset:
                return
            try:
                for message in page.messages:
                    await producer.send(_copy(message, group))
                    done.append(message)
                    offset = message.queue_offset + 1
                offset = max(offset, page.next_offset)
            finally:
                if offset > span.redriven:
                    await self._offsets.commit(REDRIVE_GROUP, span.queue, offset)

    async def _spans(self, group: str, *, again: bool) -> list[_Span]:
        """The messages of each queue that were not redriven; with `again`, all."""
        topic = dead_letter_topic(group)
        spans = []
        with _naming(group):
            extents = (await self._topics.stats(topic)).offset_table
        for queue, extent in sorted(extents.items()):
            redriven = await self._offsets.committed(REDRIVE_GROUP, queue) or 0
            if redriven > extent.max_offset:  # the offset is of an earlier topic of this name
                redriven = 0
            redriven = max(redriven, extent.min_offset)
            begin = extent.min_offset if again else redriven
            last_ms = extent.last_update_timestamp
            spans.append(_Span(queue, begin, extent.max_offset, redriven, last_ms))
        return spans


@contextmanager
def _naming(group: str) -> Iterator[None]:
    """Name the group in the error for a dead-letter topic that does not exist."""
    try:
        yield
    except NoRouteError as error:
        words = f"group {group!r} has no dead letters, as there is no topic {error.topic}"
        hint = "list the groups that have: mqadmin dlq list"
        text = f"{words}; {hint} -n {error.namesrv}"
        raise NoRouteError(text, error.topic, error.namesrv) from error


def _copy(message: ReceivedMessage, group: str) -> Message:
    """The message for the group's retry topic; consumers show it under its original topic."""
    copy = Message.from_received(message, retry_topic(group))
    origin = message.properties.get("RETRY_TOPIC")
    if origin is not None:
        copy.properties["RETRY_TOPIC"] = origin
    copy.properties["ORIGIN_MESSAGE_ID"] = message.properties.get(
        "ORIGIN_MESSAGE_ID", message.msg_id
    )
    return copy
