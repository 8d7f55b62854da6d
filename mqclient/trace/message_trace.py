"""Message trace: records of what became of messages, sent to a topic that `mqadmin` can search.

Rules: RocketMQ 4.9 `TraceDataEncoder`, `AsyncTraceDispatcher`, `SendMessageTraceHookImpl`,
`ConsumeMessageTraceHookImpl` and `EndTransactionTraceHookImpl`. Unlike there, the records of a send
that was tried at several brokers have the time of all tries.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from mqclient.consumer.context import ConsumeContext, ConsumeResult, Handler, is_async
from mqclient.engine.client import Client
from mqclient.errors import RocketMQError
from mqclient.producer.outgoing import Outgoing, prepare
from mqclient.producer.results import SendResult
from mqclient.producer.sender import Sender
from mqclient.settings.clients import ProducerSettings
from mqcommon.message import Message, MessageQueue, ReceivedMessage, unique_id
from mqcommon.property_text import NAME_END, PAIR_END, pairs_of
from mqcommon.wire.codes import MessageSysFlag

__all__ = ["ConsumeTrace", "SendTrace", "TraceDispatcher", "TraceRecord"]

log = logging.getLogger(__name__)
FIELD_END, RECORD_END = NAME_END, PAIR_END
"""Trace records use the separators of properties."""
BACKLOG_MAX = 1024
"""Records that wait; further ones are dropped."""
ROUND_S = 0.1
"""Seconds that records are collected before they are sent."""
BATCH_CHARACTERS = 118_000
KEYS_CHARACTERS = 16_000
"""A message of records is sent when its text, or its keys, have this many characters."""
MESSAGE_BYTES_MAX = 128_000
SEND_TIMEOUT = 5.0

_NORMAL, _HALF, _COMMIT, _DELAY = range(4)
_STATES = {"COMMIT": "COMMIT_MESSAGE", "ROLLBACK": "ROLLBACK_MESSAGE", "UNKNOWN": "UNKNOW"}
_SUCCESS, _TIME_OUT, _EXCEPTION, _RETURN_NULL, _FAILED = range(5)


class TraceRecord(NamedTuple):
    """One record, or the records of one handler call, and the keys to find it by."""

    text: str
    keys: Sequence[str]


def _record(*fields: object) -> str:
    return FIELD_END.join(map(_text, fields)) + RECORD_END


def _text(field: object) -> str:
    """A field as Java's StringBuilder appends it."""
    if field is None:
        return "null"
    return str(field).lower() if isinstance(field, bool) else str(field)


def _keys(msg_ids_and_keys: Iterable[str | None]) -> list[str]:
    return [key for key in msg_ids_and_keys if key]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class TraceDispatcher:
    """Collects records from any thread and sends them in batches; never blocks a caller.

    topic: where to. role: "PRODUCE" or "CONSUME". group: whose messages these are.
    """

    def __init__(
        self, client: Client, topic: str, group: str, role: Literal["PRODUCE", "CONSUME"]
    ) -> None:
        self._client = client
        self.topic = topic
        self.group = client.namespace.unwrap(group)
        self._sender = Sender(
            client,
            ProducerSettings(
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


class SendTrace:
    """Makes the records of a producer's sends, and of the ends of its transactions."""

    def __init__(self, client: Client, dispatcher: TraceDispatcher) -> None:
        self._client = client
        self._dispatcher = dispatcher

    def sent(self, outgoing: Outgoing, result: SendResult, started_ms: int) -> None:
        """Note that a message or batch is stored. started_ms: when its send began."""
        if outgoing.topic.startswith(self._dispatcher.topic) or not result.trace_on:
            return
        properties = dict(pairs_of(outgoing.properties))
        tags, keys = properties.get("TAGS"), properties.get("KEYS")
        kind = _HALF if outgoing.sys_flag & MessageSysFlag.TRANSACTION_PREPARED else _NORMAL
        if "DELAY" in properties or "__STARTDELIVERTIME" in properties:
            kind = _DELAY
        queue = result.message_queue
        text = _record(
            *("Pub", started_ms, result.region_id, self._dispatcher.group),
            *(queue.topic, result.msg_id, tags, keys, self._address(queue)),
            *(len(outgoing.body), _now_ms() - started_ms, kind),
            *(result.offset_msg_id, not result.lesser),
        )
        self._dispatcher.append(TraceRecord(text, _keys((result.msg_id, keys))))

    def ended(
        self,
        message: Message | ReceivedMessage,
        msg_id: str,
        address: str,
        state: str,
        from_check: bool,
    ) -> None:
        """Note how a transaction ended. address: of the broker. state: a TransactionState's name.

        from_check: whether the broker had asked.
        """
        properties = message.properties
        region = properties.get("MSG_REGION") or "DefaultRegion"
        tags, keys = properties.get("TAGS"), properties.get("KEYS")
        text = _record(
            *("EndTransaction", _now_ms(), region, self._dispatcher.group, message.topic),
            *(msg_id, tags, keys, address, _COMMIT, message.transaction_id),
            *(_STATES[state], from_check),
        )
        self._dispatcher.append(TraceRecord(text, _keys((msg_id, keys))))

    def _address(self, queue: MessageQueue) -> str | None:
        return self._client.routes.address(self._client.namespace.wrap_queue(queue))


class ConsumeTrace:
    """Makes the records of a consumer's calls of handlers.

    consume_timeout: seconds after which a call counts as timed out.
    """

    def __init__(self, dispatcher: TraceDispatcher, consume_timeout: float) -> None:
        self._dispatcher = dispatcher
        self._limit_ms = int(consume_timeout * 1000)

    def around(self, handler: Handler) -> Handler:
        """The same handler, with records before and after each call."""
        call: Callable[..., Any] = handler
        if is_async(handler):

            async def traced_async(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
                done = self._begin(messages)
                try:
                    outcome = await call(messages, context)
                except BaseException:
                    done(None, True)
                    raise
                done(outcome, False)
                return outcome

            return traced_async

        def traced(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
            done = self._begin(messages)
            try:
                outcome = call(messages, context)
            except BaseException:
                done(None, True)
                raise
            if inspect.isawaitable(outcome):
                return self._awaited(outcome, done)
            done(outcome, False)
            return outcome

        return traced

    async def _awaited(self, outcome: Any, done: Callable[[Any, bool], None]) -> Any:
        """The result of a plain function that returned a coroutine."""
        try:
            result = await outcome
        except BaseException:
            done(None, True)
            raise
        done(result, False)
        return result

    def _begin(self, messages: list[ReceivedMessage]) -> Callable[[Any, bool], None]:
        """Note that a handler gets messages; the function returned notes its outcome."""
        traced = [m for m in messages if m.properties.get("TRACE_ON") != "false"]
        if not traced:
            return lambda _outcome, _raised: None
        started_ms, request_id, count = _now_ms(), unique_id(), len(messages)
        group = self._dispatcher.group
        region = traced[-1].properties.get("MSG_REGION")
        named = [(message.msg_id, message.keys) for message in traced]
        keys = _keys(word for pair in named for word in pair)
        before = [
            _record("SubBefore", started_ms, region, group, request_id, m.msg_id,
                    m.reconsume_times, m.keys)
            for m in traced
        ]  # fmt: skip
        self._dispatcher.append(TraceRecord("".join(before), keys))

        def done(outcome: Any, raised: bool) -> None:
            now_ms = _now_ms()
            taken_ms = now_ms - started_ms
            code = self._code(outcome, raised, taken_ms)
            success = not raised and _succeeded(outcome)
            after = [
                _record("SubAfter", request_id, msg_id, taken_ms // count, success, own_keys,
                        code, now_ms, group)
                for msg_id, own_keys in named
            ]  # fmt: skip
            self._dispatcher.append(TraceRecord("".join(after), keys))

        return done

    def _code(self, outcome: Any, raised: bool, taken_ms: int) -> int:
        """RocketMQ's ConsumeReturnType; None is a success here."""
        if raised:
            return _EXCEPTION
        if outcome is not None and not isinstance(outcome, ConsumeResult):
            return _RETURN_NULL
        if taken_ms >= self._limit_ms:
            return _TIME_OUT
        return _SUCCESS if _succeeded(outcome) else _FAILED


def _succeeded(outcome: Any) -> bool:
    return outcome in (None, ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
