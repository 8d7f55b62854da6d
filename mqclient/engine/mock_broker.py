"""A broker for tests of programs that send, and messages for tests of handlers. No sockets.

What it plays: routes, heartbeats, sends, batches, replies, transactions. Consumers need a real
broker: `mqserver.Standalone`, or the pytest fixture `mq_broker`.
"""

import struct
import time
from collections.abc import Iterator

from mqclient.engine.mock import MockTransport
from mqclient.engine.stored_record import stored_record
from mqcommon.message import (
    Message,
    ReceivedMessage,
    decode_messages,
    encode_properties,
    offset_msg_id,
    unique_id,
)
from mqcommon.wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from mqcommon.wire.codes import MessageSysFlag, RequestCode, ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.send import EndTransactionRequestHeader, SendMessageRequestHeaderV2

__all__ = ["MockBroker", "received"]

_ADDRESS, _NAME, _CLUSTER = "127.0.0.1:10911", "broker-a", "DefaultCluster"
_QUEUE_COUNT_MAX = 65_535


class MockBroker:
    """Plays a NameServer and a broker for producers: every topic exists, every send is stored.

        broker = MockBroker()
        with Producer(transport=broker.transport) as producer:
            producer.send(Message("Orders", b"order 1"))
        assert [message.body for message in broker.messages("Orders")] == [b"order 1"]

    queues: queues of each topic. It is for the clients of one test: nothing is ever deleted.
    """

    def __init__(self, queues: int = 4) -> None:
        if not isinstance(queues, int) or not 1 <= queues <= _QUEUE_COUNT_MAX:
            raise ValueError(f"queues must be 1 to {_QUEUE_COUNT_MAX}, not {queues!r}")
        self._queues = queues
        self._stored: list[ReceivedMessage] = []
        self._halves: dict[int, ReceivedMessage] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._count = 0
        self._refusal: Frame | None = None
        scripts = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._clusters,
            RequestCode.HEART_BEAT: lambda _address, _request: Frame(0),
            RequestCode.UNREGISTER_CLIENT: lambda _address, _request: Frame(0),
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.SEND_REPLY_MESSAGE_V2: self._send,
            RequestCode.END_TRANSACTION: self._end,
        }
        self.transport = MockTransport({int(code): script for code, script in scripts.items()})
        """For `transport=` of producers; its `sent` has every request."""

    def messages(self, topic: str | None = None) -> list[ReceivedMessage]:
        """The stored messages of a topic, or of all topics, in the order of their sends.

        A half message is stored when its transaction commits.
        """
        return [message for message in self._stored if topic in (None, message.topic)]

    def refuse(self, code: ResponseCode | None, remark: str = "refused by the test") -> None:
        """Answer every send with an error code from now on; None accepts them again.

        SYSTEM_BUSY raises BrokerError at once; after other codes producers try again. remark: the
        text of the error.
        """
        self._refusal = None if code is None else Frame(int(code), remark=remark)

    def _route(self, _address: str, _request: Frame) -> Frame:
        broker = BrokerData(_NAME, _CLUSTER, {0: _ADDRESS})
        queues = QueueData(_NAME, self._queues, self._queues)
        return Frame(0, body=TopicRouteData([broker], [queues]).to_json())

    def _clusters(self, _address: str, _request: Frame) -> Frame:
        broker = BrokerData(_NAME, _CLUSTER, {0: _ADDRESS})
        return Frame(0, body=ClusterInfo({_NAME: broker}, {_CLUSTER: [_NAME]}).to_json())

    def _send(self, _address: str, request: Frame) -> Frame:
        if self._refusal is not None:
            return self._refusal
        header = SendMessageRequestHeaderV2.from_fields(request.fields)
        items = _items(request.body) if header.batch else [_single(header, request.body)]
        ids: list[str] = []
        place = (header.topic, header.queue_id)
        first = self._next.get(place, 0)
        for index, (body, properties, flag) in enumerate(items):
            self._count += 1
            ids.append(offset_msg_id("127.0.0.1", 10911, self._count))
            record = stored_record(
                header.topic,
                body,
                properties,
                queue_id=header.queue_id,
                flag=flag,
                queue_offset=first + index,
                physical_offset=self._count,
                sys_flag=header.sys_flag & ~MessageSysFlag.TRANSACTION_PREPARED,
                born_ms=header.born_timestamp,
                store_ms=_now_ms(),
                reconsume_times=header.reconsume_times or 0,
            )
            (message,) = decode_messages(record, _NAME)
            if header.sys_flag & MessageSysFlag.TRANSACTION_PREPARED:
                self._halves[self._count] = message
            else:
                self._stored.append(message)
        self._next[place] = first + len(ids)
        fields = {"msgId": ",".join(ids), "queueId": str(place[1]), "queueOffset": str(first)}
        return Frame(0, fields)

    def _end(self, _address: str, request: Frame) -> Frame:
        header = EndTransactionRequestHeader.from_fields(request.fields)
        half = self._halves.pop(header.commit_log_offset, None)
        if half is not None and header.commit_or_rollback == MessageSysFlag.TRANSACTION_COMMIT:
            self._stored.append(half)
        return Frame(0)


def received(
    message: Message,
    *,
    reconsume_times: int = 0,
    queue_id: int = 0,
    queue_offset: int = 0,
) -> ReceivedMessage:
    """The message as a consumer would get it, for tests that call a handler.

        handle(received(Message("Orders", b"order 1", keys="order-1")))

    reconsume_times: earlier deliveries that failed. queue_id, queue_offset: where it is stored.
    Raises TypeError for what is not a Message.
    """
    if not isinstance(message, Message):
        raise TypeError(f"message must be a Message, not {type(message).__name__}")
    now_ms = _now_ms()
    properties = {"UNIQ_KEY": unique_id(), **message.properties}
    record = stored_record(
        message.topic,
        message.body,
        encode_properties(properties).decode(),
        queue_id=queue_id,
        flag=message.flag,
        queue_offset=queue_offset,
        born_ms=message.born_timestamp_ms or now_ms,
        store_ms=now_ms,
        reconsume_times=reconsume_times,
    )
    (made,) = decode_messages(record, _NAME)
    return made


def _single(header: SendMessageRequestHeaderV2, body: bytes) -> tuple[bytes, str, int]:
    return body, header.properties or "", header.flag


def _items(body: bytes) -> Iterator[tuple[bytes, str, int]]:
    """Body, properties and flag of each message of a batch; rule: `MessageDecoder.encodeMessage`.

    Each item: length, magic, CRC, flag, body with its length, properties with theirs.
    """
    at = 0
    while at < len(body):
        _length, _magic, _crc, flag, size = struct.unpack_from(">iiiii", body, at)
        at += 20
        content = body[at : at + size]
        (text_size,) = struct.unpack_from(">h", body, at + size)
        at += size + 2
        yield content, body[at : at + text_size].decode(), flag
        at += text_size


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
