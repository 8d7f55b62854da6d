"""Collects trace records and sends them (`AsyncTraceDispatcher`)."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal

from mqclient.engine.client import Client
from mqclient.errors import RocketMQError
from mqclient.producer.outgoing import prepare
from mqclient.producer.sender import Sender
from mqclient.settings.producers import SendOptions
from mqclient.trace.records import TraceRecord
from mqcommon.message import Message

__all__ = ["TraceDispatcher"]

log = logging.getLogger(__name__)
BACKLOG_MAX = 1024
"""Records that wait; further ones are dropped."""
ROUND_S = 0.1
"""Seconds that records are collected before they are sent."""
BATCH_CHARACTERS = 118_000
KEYS_CHARACTERS = 16_000
"""A message of records is sent when its text, or its keys, have this many characters."""
MESSAGE_BYTES_MAX = 128_000
SEND_TIMEOUT = 5.0


class TraceDispatcher:
    """Collects records from any thread and sends them in batches; never blocks a caller.

    topic: topic for the records. role: "PRODUCE" or "CONSUME". group: group of the messages.
    """

    def __init__(
        self, client: Client, topic: str, group: str, role: Literal["PRODUCE", "CONSUME"]
    ) -> None:
        self._client = client
        self.topic = topic
        self.group = client.namespace.unwrap(group)
        self._sender = Sender(
            client,
            SendOptions(
                group=f"_INNER_TRACE_PRODUCER-{group}-{role}"[:255],
                timeout=SEND_TIMEOUT,
                body_bytes_max=MESSAGE_BYTES_MAX,
            ),
        )
        self._lock = threading.Lock()  # guards the two fields below
        self._backlog: deque[TraceRecord] = deque()
        self._coming = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self.dropped = 0
        """Records that did not fit into the backlog."""

    def start(self) -> None:
        """Send from the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def append(self, record: TraceRecord) -> None:
        """Take a record, from any thread; it is dropped if 1024 wait."""
        with self._lock:
            if len(self._backlog) >= BACKLOG_MAX:
                self.dropped += 1
                return
            self._backlog.append(record)
            first, self._coming = not self._coming, True
        loop = self._loop
        if first and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(loop.call_later, ROUND_S, self._send_soon)

    async def close(self) -> None:
        """Send what waits, in at most 5 seconds."""
        self._send_soon()
        if self._sending:
            await asyncio.wait(self._sending, timeout=SEND_TIMEOUT)

    def _send_soon(self) -> None:
        with self._lock:
            records, self._backlog, self._coming = self._backlog, deque(), False
            dropped, self.dropped = self.dropped, 0
        if dropped:
            log.warning("%d trace records were dropped: more than 1024 waited", dropped)
        for message in _messages(self.topic, records):
            task = asyncio.get_running_loop().create_task(self._send(message))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, message: Message) -> None:
        try:
            outgoing = prepare(message, self._sender.settings)  # in no namespace
            await self._sender.send_anywhere(outgoing, SEND_TIMEOUT)
        except (RocketMQError, ValueError) as error:
            log.warning("trace records could not be sent to topic %s: %s", self.topic, error)


def _messages(topic: str, records: Iterable[TraceRecord]) -> Iterator[Message]:
    """Pack records into messages whose keys are all message ids and keys."""
    texts: list[str] = []
    keys: dict[str, None] = {}
    size = keys_size = 0
    for record in records:
        texts.append(record.text)
        keys.update(dict.fromkeys(record.keys))
        size += len(record.text)
        keys_size += sum(len(key) + 1 for key in record.keys)
        if size >= BATCH_CHARACTERS or keys_size >= KEYS_CHARACTERS:
            yield _message(topic, texts, keys)
            texts, keys, size, keys_size = [], {}, 0, 0
    if texts:
        yield _message(topic, texts, keys)


def _message(topic: str, texts: list[str], keys: Iterable[str]) -> Message:
    message = Message(topic, "".join(texts).encode())
    message.properties["KEYS"] = " ".join(keys)
    return message
