"""A RocketMQ cluster of one broker, played by scripts behind a MockTransport."""

import asyncio
import struct
import time
import zlib

from mqclient.engine.mock import MockTransport
from mqcommon.message import MessageQueue, encode_properties, offset_msg_id
from mqcommon.wire import Frame, RequestCode, ResponseCode
from mqcommon.wire.bodies.heartbeat import GetConsumerListByGroupResponseBody, HeartbeatData
from mqcommon.wire.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody
from mqcommon.wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from mqcommon.wire.codes import PullSysFlag

NAMESRV = "127.0.0.1:9876"
BROKER = "127.0.0.1:10911"
NAME = "broker-a"


def record(queue_id, queue_offset, topic, body, properties, reconsume_times=0, sys_flag=0) -> bytes:
    """One stored message, as a broker puts it into the answer to a pull."""
    text = encode_properties(properties)
    topic_bytes = topic.encode()
    total = 91 + len(body) + len(topic_bytes) + len(text)
    now = time.time_ns() // 1_000_000
    host = b"\x7f\0\0\1" + struct.pack(">i", 10911)
    head = struct.pack(">iIIii", total, 0xDAA320A7, zlib.crc32(body) & 0x7FFFFFFF, queue_id, 0)
    middle = struct.pack(">qqiq", queue_offset, queue_offset * 1000, sys_flag, now) + host
    tail = struct.pack(">q", now) + host + struct.pack(">iq", reconsume_times, 0)
    return b"".join(
        (
            head,
            middle,
            tail,
            struct.pack(">i", len(body)),
            body,
            bytes([len(topic_bytes)]),
            topic_bytes,
            struct.pack(">h", len(text)),
            text,
        )
    )


class Cluster:
    """Topics in memory; clients connect through `transport`."""

    def __init__(self, **topics: int) -> None:
        self.topics = dict(topics)
        self.stored: dict[MessageQueue, list[bytes]] = {}
        self.committed: dict[MessageQueue, int] = {}
        self.members: list[str] = []
        self.heartbeats: list[HeartbeatData] = []
        self.given_back: list[dict[str, str]] = []
        self.pull_code: int | None = None
        self.online = Frame(int(ResponseCode.CONSUMER_NOT_ONLINE), remark="not online")
        self.arrived = asyncio.Event()
        scripts = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.clusters,
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: lambda _address, _request: Frame(0),
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: lambda _a, _r: self.online,
            RequestCode.QUERY_CONSUMER_OFFSET: self.query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update_offset,
            RequestCode.GET_MAX_OFFSET: lambda _a, r: self.offset(len(self.queue_of(r))),
            RequestCode.GET_MIN_OFFSET: lambda _a, _r: self.offset(0),
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back,
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: lambda _address, _request: Frame(0),
        }
        self.transport = MockTransport({int(code): script for code, script in scripts.items()})

    def requests(self, code: RequestCode) -> list[Frame]:
        """The requests of this code that the client sent."""
        return [frame for _, frame in self.transport.sent if frame.code == code]

    def put(self, topic: str, *bodies: bytes, queue_id: int = 0, **properties: str) -> None:
        """Store messages behind the client's back."""
        queue = MessageQueue(topic, NAME, queue_id)
        stored = self.stored.setdefault(queue, [])
        for body in bodies:
            times = int(properties.pop("reconsume_times", "0"))
            stored.append(record(queue_id, len(stored), topic, body, properties, times))
        self.arrived.set()

    # --- NameServer

    def route(self, _address: str, request: Frame) -> Frame:
        queues = self.topics.get(request.fields["topic"])
        if queues is None:
            return Frame(int(ResponseCode.TOPIC_NOT_EXIST), remark="No topic route info")
        data = TopicRouteData(
            [BrokerData(NAME, "DefaultCluster", {0: BROKER})], [QueueData(NAME, queues, queues)]
        )
        return Frame(0, body=data.to_json())

    def clusters(self, _address: str, _request: Frame) -> Frame:
        return Frame(0, body=ClusterInfo({}, {"DefaultCluster": [NAME]}).to_json())

    # --- broker

    def heartbeat(self, _address: str, request: Frame) -> Frame:
        data = HeartbeatData.from_json(request.body)
        self.heartbeats.append(data)
        if data.consumer_data_set and data.client_id not in self.members:
            self.members.append(data.client_id)
        return Frame(0)

    def consumer_list(self, _address: str, _request: Frame) -> Frame:
        if not self.members:
            return Frame(1, remark="no consumer for this group")
        return Frame(0, body=GetConsumerListByGroupResponseBody(self.members).to_json())

    def queue_of(self, request: Frame) -> list[bytes]:
        return self.stored.get(self.named_queue(request), [])

    def named_queue(self, request: Frame) -> MessageQueue:
        fields = request.fields
        return MessageQueue(fields["topic"], NAME, int(fields["queueId"]))

    def offset(self, value: int) -> Frame:
        return Frame(0, {"offset": str(value)})

    def query_offset(self, _address: str, request: Frame) -> Frame:
        found = self.committed.get(self.named_queue(request))
        return Frame(22, remark="Not found") if found is None else self.offset(found)

    def update_offset(self, _address: str, request: Frame) -> Frame:
        self.committed[self.named_queue(request)] = int(request.fields["commitOffset"])
        return Frame(0)

    def send(self, _address: str, request: Frame) -> Frame:
        fields = request.fields
        queue = MessageQueue(fields["b"], NAME, int(fields["e"]))
        self.topics.setdefault(queue.topic, int(fields["d"]))
        stored = self.stored.setdefault(queue, [])
        properties = dict(pair.split("\x01") for pair in fields["i"].split("\x02"))
        stored.append(record(queue.queue_id, len(stored), queue.topic, request.body, properties))
        self.arrived.set()
        offset = len(stored) - 1
        reply = {"msgId": offset_msg_id("127.0.0.1", 10911, offset), "queueOffset": str(offset)}
        return Frame(0, {**reply, "queueId": str(queue.queue_id)})

    def send_back(self, _address: str, request: Frame) -> Frame:
        self.given_back.append(request.fields)
        return Frame(0)

    def lock(self, _address: str, request: Frame) -> Frame:
        asked = LockBatchRequestBody.from_json(request.body).mq_set
        return Frame(0, body=LockBatchResponseBody(asked).to_json())

    async def pull(self, _address: str, request: Frame) -> Frame:
        """Long polling: an empty queue is held until something arrives anywhere."""
        if self.pull_code is not None:
            return Frame(self.pull_code, remark="scripted")
        start = int(request.fields["queueOffset"])
        waits = int(request.fields["sysFlag"]) & PullSysFlag.SUSPEND
        while waits and start == len(self.queue_of(request)):
            self.arrived.clear()
            await self.arrived.wait()
        stored = self.queue_of(request)
        count = int(request.fields["maxMsgNums"])
        found = stored[start : start + count]
        beyond = start > len(stored)
        fields = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(len(stored) if beyond else start + len(found)),
            "minOffset": "0",
            "maxOffset": str(len(stored)),
        }
        code = ResponseCode.PULL_OFFSET_MOVED if beyond else ResponseCode.SUCCESS
        code = code if found or beyond else ResponseCode.PULL_NOT_FOUND
        return Frame(int(code), fields, b"".join(found))
