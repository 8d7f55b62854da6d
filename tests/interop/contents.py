"""The records of a store: read from its log, and served by a running broker, byte for byte."""

from __future__ import annotations

import struct
from collections import defaultdict
from pathlib import Path
from typing import TypeVar

import mqstore
from mqcommon.message import ReceivedMessage, decode_messages
from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.bodies.topics import TopicStatsTable
from mqcommon.wire.calls.call import Call
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe

R = TypeVar("R")
Queue = tuple[str, int]
Contents = dict[Queue, dict[int, bytes]]
"""Stored records by queue and queue offset."""

_FOUND, _RETRY, _MOVED = 0, 20, 21
_TRANSACTION_MASK = 0x0C
_NOT_QUEUED = (0x04, 0x0C)  # prepared and rollback


def split(body: bytes) -> list[bytes]:
    """The records of a body, each with its length in front as stored."""
    records = []
    while body:
        (size,) = struct.unpack_from(">i", body)
        records.append(body[:size])
        body = body[size:]
    return records


def in_log(root: Path) -> Contents:
    """The records of each queue according to the commit log; every body matches its checksum."""
    contents: Contents = defaultdict(dict)
    for chunk in mqstore.open(root).chunks(check_crc=True):
        for record in split(chunk.body):
            for queue, offset in places(decode_messages(record)[0]):
                assert offset not in contents[queue], (queue, offset)
                contents[queue][offset] = record
    return dict(contents)


def places(message: ReceivedMessage) -> list[tuple[Queue, int]]:
    """The queues a record belongs to and its offset in each."""
    if message.sys_flag & _TRANSACTION_MASK in _NOT_QUEUED:
        return []
    found = [((message.topic, message.queue_id), message.queue_offset)]
    names = message.properties.get("INNER_MULTI_DISPATCH")
    offsets = message.properties.get("INNER_MULTI_QUEUE_OFFSET")
    if names and offsets:
        for name, offset in zip(names.split(","), offsets.split(","), strict=True):
            queue_id = 0 if name.startswith("%LMQ%") else message.queue_id
            found.append(((name, queue_id), int(offset)))
    return found


class Server:
    """A running broker as a reader of its queues sees it."""

    def __init__(self, address: str) -> None:
        self._probe = Probe(address, timeout=60.0)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._probe.close()

    def offset(self, code: int, queue: Queue) -> int:
        """Code 30: the offset after a queue's last message; code 31: the first offset."""
        reply = self._probe.call(Frame(code, {"topic": queue[0], "queueId": str(queue[1])}))
        assert reply.code == 0, reply.remark
        return int(reply.fields["offset"])

    def length(self, topic: str) -> int:
        """Code 202: number of messages that the queues of a topic ever had."""
        reply = self.call(202, {"topic": topic})
        table = TopicStatsTable.from_json(reply.body).offset_table
        return sum(place.max_offset for place in table.values())

    def is_dispatched(self) -> bool:
        """Code 28: whether everything in the log is in the queues too."""
        table = KVTable.from_json(self.call(28).body).table
        return table["dispatchBehindBytes"] == "0"

    def queue(self, queue: Queue, subscription: str = "*") -> dict[int, bytes]:
        """Every record of a queue that a pull returns, by its queue offset."""
        at, found = self.offset(31, queue), {}
        while True:
            fields = {
                "consumerGroup": "interop_reader",
                "topic": queue[0],
                "queueId": str(queue[1]),
                "queueOffset": str(at),
                "maxMsgNums": "32",
                "sysFlag": "4",  # the subscription comes along
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": subscription,
                "subVersion": "0",
                "expressionType": "TAG",
            }
            reply = self._probe.call(Frame(11, fields))
            if reply.code not in (_FOUND, _RETRY):
                end = self.offset(30, queue)
                if at == int(reply.fields["maxOffset"]) < end:
                    continue  # another message arrived after the pull
                assert (reply.code, at) != (_MOVED, end) and at == end, (queue, at, end, reply)
                return found
            for record in split(reply.body):
                place = dict(places(decode_messages(record)[0]))[queue]
                # The entry of a lost record points to the next one, so Java serves that twice.
                assert found.get(place, record) == record
                found[place] = record
            assert int(reply.fields["nextBeginOffset"]) > at
            at = int(reply.fields["nextBeginOffset"])

    def by_key(self, topic: str, key: str) -> list[bytes]:
        """The records that a query by key returns, in the broker's order."""
        span = {"beginTimestamp": "0", "endTimestamp": str(2**63 - 1)}
        reply = self._probe.call(Frame(12, {"topic": topic, "key": key, "maxNum": "64", **span}))
        return split(reply.body) if reply.code == 0 else []

    def by_offset(self, physical_offset: int) -> bytes | None:
        """The record at an offset in the log."""
        reply = self._probe.call(Frame(33, {"offset": str(physical_offset)}))
        return reply.body if reply.code == 0 else None

    def committed(self, group: str, queue: Queue) -> int | None:
        """The committed offset of a group."""
        fields = {"consumerGroup": group, "topic": queue[0], "queueId": str(queue[1])}
        reply = self._probe.call(Frame(14, fields))
        return int(reply.fields["offset"]) if reply.code == 0 else None

    def commit(self, group: str, queue: Queue, offset: int) -> None:
        """Commit an offset of a group."""
        fields = {"consumerGroup": group, "topic": queue[0], "queueId": str(queue[1])}
        self.call(15, {**fields, "commitOffset": str(offset)})

    def ask(self, call: Call[R]) -> R:
        """A call of the client's; its result."""
        return call.result(self._probe.call(call.request))

    def call(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Frame:
        """Any other request, which must succeed."""
        reply = self._probe.call(Frame(code, fields or {}, body))
        assert reply.code == 0, (code, reply.remark)
        return reply


def assert_served(server: Server, expected: Contents) -> None:
    """Every record of the log is served at its offset; any other served record is newer."""
    for queue, records in sorted(expected.items()):
        served = server.queue(queue)
        missing = sorted(records.keys() - served.keys())
        assert not missing, (queue, missing)
        wrong = [offset for offset, record in records.items() if served[offset] != record]
        assert not wrong, (queue, wrong)
        assert all(offset > max(records) for offset in served.keys() - records.keys()), queue
