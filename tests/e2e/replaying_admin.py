"""Plays the recorded admin sessions to servers of ours that hold what RocketMQ's held."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mqcommon import fastjson
from mqcommon.wire.codes import LanguageCode, ResponseCode
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.standalone import Standalone
from mqstore import ReceivedMessage
from tests.e2e.admin_shapes import shape, unequal
from tests.e2e.recorded_admin import Exchange, Found, Queue
from tests.e2e.replaying import HELD_MS, PATIENCE, Line, is_same_call, messages
from tests.inside import broker_of, store_of
from tests.waiting import until

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"
NO_SEND = (HALF_TOPIC, DELAY_TOPIC, "OFFSET_MOVED_EVENT")
SETTINGS = {
    "enablePropertyFilter": "true", "brokerFastFailureEnable": "false",
    "diskMaxUsedSpaceRatio": "95", "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "6000", "maxHashSlotNum": "100", "maxIndexNum": "400",
    "transactionTimeOut": "600000", "transactionCheckInterval": "100",
}  # fmt: skip
"""As in the recorded broker, but half messages are read often and their producers never asked."""
#: Requests that change nothing: they may be asked again while a change is on its way.
ASKED_AGAIN = (
    Code.GET_ROUTEINFO_BY_TOPIC,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    Code.GET_CONSUMER_CONNECTION_LIST,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.GET_ALL_PRODUCER_INFO,
)
STORING = (
    Code.SEND_MESSAGE,
    Code.SEND_MESSAGE_V2,
    Code.SEND_BATCH_MESSAGE,
    Code.CONSUMER_SEND_MSG_BACK,
    Code.END_TRANSACTION,
    Code.PULL_MESSAGE,
)
"""Requests after which the queues may lag behind the log."""


def config_files(found: Found) -> dict[str, str]:
    """The state as a broker's files, by name."""
    table: dict[str, dict[str, int]] = {}
    for (group, queue), offset in found.offsets.items():
        table.setdefault(f"{queue.topic}@{group}", {})[str(queue.queue_id)] = offset
    version = {"counter": 1, "timestamp": 1}
    return {
        "topics.json": json.dumps({"dataVersion": version, "topicConfigTable": found.topics}),
        "subscriptionGroup.json": json.dumps(
            {"dataVersion": version, "subscriptionGroupTable": found.groups}
        ),
        "consumerOffset.json": json.dumps({"offsetTable": table}),
    }


def write_config(found: Found, data: Path) -> None:
    (data / "config").mkdir(parents=True)
    for name, text in config_files(found).items():
        (data / "config" / name).write_text(text)


class AdminReplay:
    """The servers, with the recorded state, and what differed.

    differences: by session, code and request, with both sides. compared: how many replies.
    """

    def __init__(self, mq: Standalone, found: Found) -> None:
        self._mq, self._found = mq, found
        self._lines: dict[tuple[str, int], Line] = {}
        self._physical: dict[int, int] = {}
        self._consumer = Line(mq.broker_address, timeout=PATIENCE)
        self._producer = Line(mq.broker_address, timeout=PATIENCE)
        self._has_stored = True
        self.differences: list[str] = []
        self.compared = 0

    # --- the state before

    def prepare(self) -> None:
        """Fill the queues, raise the counters, and connect the clients."""
        with Line(self._mq.broker_address, timeout=PATIENCE) as line:
            for queue, end in self._found.ends.items():
                for at in range(end):
                    self._fill(line, queue, self._found.messages.get(queue, {}).get(at))
            self._mq.wait_dispatched()
            for name, key in self._found.counted:
                self._count(line, name, key)
            for _ in range(self._found.updates or 0):
                assert line.call(Frame(Code.UPDATE_BROKER_CONFIG, body=b"noSuchKey=1")).code == 0
        self._clients()

    def _fill(self, line: Line, queue: Queue, message: ReceivedMessage | None) -> None:
        body = message.stored_body if message else b"-"
        properties = message.stored_properties if message else b""
        if queue.topic.startswith("%") or queue.topic in NO_SEND:
            store_of(self._mq).put(
                queue.topic, body, queue_id=queue.queue_id, properties=properties
            )
            return
        reply = line.call(_send(queue.topic, body, properties.decode(), queue.queue_id))
        assert reply.code == 0, (queue, reply)
        if message is not None:
            self._physical[message.commit_log_offset] = int(reply.fields["msgId"][16:], 16)

    def _count(self, line: Line, name: str, key: str) -> None:
        """Raise a statistic that RocketMQ had counted, unless the recording itself raises it."""
        topic, _, group = key.partition("@")
        if topic not in self._found.topics or _is_counted(line, name, key):
            return
        if topic == HALF_TOPIC:
            self._half_message(line, name, key)
        elif name == "TOPIC_PUT_NUMS" and Queue(topic, 0) not in self._found.ends:
            delay = "DELAY\x0118" if topic == DELAY_TOPIC else ""
            line.call(_send("WireTopic" if delay else topic, b"counted", delay, 0))
        elif group:
            self._pull_all(line, topic, group)

    def _half_message(self, line: Line, name: str, key: str) -> None:
        """Store a half message, so that the checks find one in its queue."""
        prepared = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01" + "A" * 32
        sent = line.call(_send("TopicTx", b"half", prepared, 0, sys_flag=4))
        rollback = {
            "producerGroup": "p", "tranStateTableOffset": sent.fields["queueOffset"],
            "commitLogOffset": str(int(sent.fields["msgId"][16:], 16)),
            "commitOrRollback": "12", "fromTransactionCheck": "false",
            "msgId": "A" * 32, "transactionId": "A" * 32,
        }  # fmt: skip
        assert until(lambda: _is_counted(line, name, key)), key
        assert line.call(Frame(Code.END_TRANSACTION, rollback)).code == 0

    def _pull_all(self, line: Line, topic: str, group: str) -> None:
        queues = self._found.topics[topic]["readQueueNums"]
        for queue_id in range(queues):
            pull = {
                "consumerGroup": group, "topic": topic, "queueId": str(queue_id),
                "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
                "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            }  # fmt: skip
            line.call(Frame(Code.PULL_MESSAGE, pull))

    def _clients(self) -> None:
        """The consumer and the producer that were on-line all the time."""
        consumer, producers = self._found.consumer, self._found.producers
        (client,) = (one["clientId"] for one in consumer["connectionSet"])
        row = {
            "consumeFromWhere": consumer["consumeFromWhere"], "groupName": consumer["group"],
            "consumeType": consumer["consumeType"], "messageModel": consumer["messageModel"],
            "subscriptionDataSet": list(consumer["subscriptionTable"].values()),
            "unitMode": False,
        }  # fmt: skip
        self._heartbeat(self._consumer, client, [row], producers)
        others = {o["clientId"] for rows in producers.values() for o in rows} - {client}
        for other in others:
            self._heartbeat(self._producer, other, [], producers)

    def _heartbeat(
        self, line: Line, client: str, consumers: Sequence[Any], producers: Mapping[str, Any]
    ) -> None:
        groups = [
            {"groupName": group}
            for group, rows in producers.items()
            if any(row["clientId"] == client for row in rows)
        ]
        body = {"clientID": client, "consumerDataSet": consumers, "producerDataSet": groups}
        text = json.dumps(body).encode()
        reply = line.call(Frame(Code.HEART_BEAT, {}, text, language=LanguageCode.JAVA))
        assert reply.code == 0

    # --- the sessions

    def play(self, registers_before: str) -> None:
        """Play all sessions. registers_before: the session before which RocketMQ's timer
        registered.
        """
        session = ""
        for one in self._found.recording:
            if one.session != session:
                self._hang_up()
                session = one.session
                if session == registers_before:
                    broker_of(self._mq).context.registrar.announce()
            self._before(one)
            if (reply := self._send(one)) is not None:
                self._compare(one, self._settled(one, reply))

    def close(self) -> None:
        self._hang_up()
        self._consumer.close()
        self._producer.close()

    def _hang_up(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    def _line(self, one: Exchange) -> Line:
        key = (one.server, one.connection)
        if key not in self._lines:
            names = one.server == "namesrv"
            address = self._mq.namesrv if names else self._mq.broker_address
            self._lines[key] = Line(address, timeout=PATIENCE)
        return self._lines[key]

    def _before(self, one: Exchange) -> None:
        """Replay the commits of the recorded online consumer up to this request."""
        group = self._found.consumer["group"]
        reset = one.request.code == Code.INVOKE_BROKER_TO_RESET_OFFSET and one.reply
        if reset and reset.code == ResponseCode.CONSUMER_NOT_ONLINE:
            self._consumer.close()
            assert until(lambda: not self._is_online(group))
        for row in one.offsets():
            if row.group == group and self._is_online(group):
                self._commit(row.queue, row.committed)

    def _commit(self, queue: Queue, offset: int) -> None:
        fields = {
            "consumerGroup": self._found.consumer["group"], "topic": queue.topic,
            "queueId": str(queue.queue_id), "commitOffset": str(offset),
        }  # fmt: skip
        assert self._consumer.call(Frame(Code.UPDATE_CONSUMER_OFFSET, fields)).code == 0

    def _take_reset(self) -> None:
        """Wait for the broker's reset of the consumer's offsets, and commit them."""
        told = self._consumer.first(lambda f: f.code == Code.RESET_CONSUMER_CLIENT_OFFSET)
        table = fastjson.loads(told.body)
        assert isinstance(table, dict)
        for text, offset in table["offsetTable"].items():
            queue = json.loads(text)
            self._commit(Queue(queue["topic"], queue["queueId"]), offset)

    def _is_online(self, group: str) -> bool:
        asked = Frame(Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        return self._producer.call(asked).code == 0

    def _send(self, one: Exchange) -> Frame | None:
        line, request = self._line(one), one.request
        self._translate(request)
        if self._has_stored and one.server == "broker":
            self._mq.wait_dispatched()
        self._has_stored = request.code in STORING
        if one.reply is None:
            line.write(encode(request))
            return None
        if request.code == Code.GET_CONSUMER_RUNNING_INFO:
            line.write(encode(request))
            self._tell_running_info(one.reply)
            return line.first(lambda f: f.is_response and f.opaque == request.opaque)
        opaque = request.opaque
        reply = line.call(request)
        request.opaque = opaque
        if request.code == Code.INVOKE_BROKER_TO_RESET_OFFSET and one.succeeded:
            self._take_reset()
        for told in one.told:
            line.first(lambda f, told=told: not f.is_response and is_same_call(f, told))
        return reply

    def _tell_running_info(self, reply: Frame) -> None:
        asked = self._consumer.first(
            lambda f: not f.is_response and f.code == Code.GET_CONSUMER_RUNNING_INFO
        )
        answer = Frame(0, {}, reply.body, remark=reply.remark, flag=1, opaque=asked.opaque)
        self._consumer.write(encode(answer))

    def _translate(self, request: Frame) -> None:
        fields = request.fields
        if request.code == Code.VIEW_MESSAGE_BY_ID:
            offset = int(fields["offset"])
            fields["offset"] = str(self._physical.get(offset, offset))
        if request.code == Code.PULL_MESSAGE:
            fields["suspendTimeoutMillis"] = HELD_MS
        if request.code == Code.SEND_MESSAGE_V2:
            fields["g"] = str(int(time.time() * 1000))
        if request.code == Code.QUERY_MESSAGE and int(fields["endTimestamp"]) < 1 << 62:
            fields["endTimestamp"] = str(int(time.time() * 1000) + 60_000)

    def _settled(self, one: Exchange, reply: Frame) -> Frame:
        """Registrations and leaving clients take effect a little later, as in RocketMQ."""
        replies = [reply]

        def is_equal() -> bool:
            assert one.reply is not None
            if shape(one, one.reply, self._physical) == shape(one, replies[-1]):
                return True
            replies.append(self._line(one).call(one.request))
            return False

        if one.request.code in ASKED_AGAIN:
            until(is_equal)
        return replies[-1]

    # --- the comparison

    def _compare(self, one: Exchange, ours: Frame) -> None:
        assert one.reply is not None
        for theirs, mine in zip(one.messages(), messages(one.request, ours), strict=False):
            self._physical[theirs.commit_log_offset] = mine.commit_log_offset
        if one.request.code == Code.SEND_MESSAGE_V2:
            theirs_id, our_id = one.reply.fields["msgId"], ours.fields.get("msgId", "0" * 32)
            self._physical[int(theirs_id[16:], 16)] = int(our_id[16:], 16)
        self.compared += 1
        expected, found = shape(one, one.reply, self._physical), shape(one, ours)
        if expected == found:
            return
        shown = "\n".join(unequal("", expected, found))
        self.differences.append(f"{one.session}: {one.request.code} {one.request.fields}\n{shown}")


def _send(topic: str, body: bytes, properties: str, queue_id: int, sys_flag: int = 0) -> Frame:
    letters = {
        "a": "before", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id),
        "f": str(sys_flag), "g": str(int(time.time() * 1000)), "h": "0", "i": properties,
        "m": "false",
    }  # fmt: skip
    return Frame(Code.SEND_MESSAGE_V2, letters, body)


def _is_counted(line: Line, name: str, key: str) -> bool:
    asked = Frame(Code.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    return line.call(asked).code == 0
