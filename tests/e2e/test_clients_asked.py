"""Requests that the broker forwards to clients: resets, running info, direct consuming, replies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from mqcommon.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from mqcommon.wire.codes import LanguageCode
from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone
from mqstore import MessageQueue, decode_messages
from tests.waiting import until

GROUP = "readers"
BROKER = "broker-a"
CLIENT = "192.0.2.1@reader"
FLAG_RESPONSE = 1


def heartbeat(topic: str, client: str = CLIENT, version: int | None = None) -> Frame:
    subscription = {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {
        "groupName": GROUP,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    producers = [{"groupName": "CLIENT_INNER_PRODUCER"}]
    body = {"clientID": client, "consumerDataSet": [consumer], "producerDataSet": producers}
    frame = Frame(34, {}, json.dumps(body).encode())
    return frame if version is None else Frame(34, {}, frame.body, version=version)


class Client:
    """A raw consumer connection that answers the broker's requests in a thread."""

    def __init__(self, mq: Standalone, topic: str, version: int | None = None) -> None:
        self._mq = mq
        self.probe = Probe(mq.broker_address, timeout=60)
        assert self.probe.call(heartbeat(topic, version=version)).code == 0

    def leave(self) -> None:
        """Close the connection, and wait until the broker knows: tests share it."""
        self.probe.close()
        members = Frame(203, {"consumerGroup": GROUP})
        assert until(lambda: ask(self._mq.broker_address, members).code != 0)

    def ask_meanwhile(self, mq: Standalone, request: Frame) -> Callable[[], Frame]:
        """Have an administrator send a request; the function returned waits for its reply."""
        replies: list[Frame] = []
        thread = threading.Thread(
            target=lambda: replies.append(ask(mq.broker_address, request, timeout=60))
        )
        thread.start()

        def reply() -> Frame:
            thread.join(timeout=60)
            return replies[0]

        return reply

    def pushed(self, code: int) -> Frame:
        """The next request of the broker with this code."""
        while True:
            frame = self.probe.pushed.pop(0) if self.probe.pushed else self.probe.read()
            if frame.code == code and not frame.is_response:
                return frame

    def answer(self, asked: Frame, code: int, remark: str | None, body: bytes) -> None:
        self.probe.write(
            encode(Frame(code, {}, body, opaque=asked.opaque, flag=FLAG_RESPONSE, remark=remark))
        )


def send(mq: Standalone, topic: str, queue_id: int, body: bytes = b"x") -> Frame:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0"}
    frame = Frame(310, {**letters, "g": "1", "h": "0", "i": "KEYS\x01k", "m": "false"}, body)
    reply = ask(mq.broker_address, frame)
    assert reply.code == 0
    return reply


@pytest.fixture
def topic(mq: Standalone) -> str:
    topic = mq.topic(queues=2)
    for queue_id in (0, 0, 1):
        send(mq, topic, queue_id)
    mq.wait_dispatched()
    return topic


@pytest.fixture
def client(mq: Standalone, topic: str) -> Iterator[Client]:
    client = Client(mq, topic)
    yield client
    client.leave()


def commit(mq: Standalone, topic: str, offsets: tuple[int, int]) -> None:
    for queue_id, offset in enumerate(offsets):
        fields = {"consumerGroup": GROUP, "topic": topic, "queueId": str(queue_id)}
        ask(mq.broker_address, Frame(15, {**fields, "commitOffset": str(offset)}))


def reset(mq: Standalone, topic: str, timestamp: int, force: bool, **more: int) -> Frame:
    fields = {"topic": topic, "group": GROUP, "timestamp": str(timestamp)}
    request = Frame(222, {**fields, "isForce": str(force).lower()}, **more)  # type: ignore[arg-type]
    return ask(mq.broker_address, request)


def queues(topic: str, *offsets: int) -> dict[MessageQueue, int]:
    return {MessageQueue(topic, BROKER, i): offset for i, offset in enumerate(offsets)}


def test_a_reset_goes_to_the_members(mq: Standalone, topic: str, client: Client) -> None:
    mq.wait_dispatched()
    commit(mq, topic, (1, 1))
    reply = reset(mq, topic, -1, force=True)
    assert (reply.code, reply.remark) == (0, "not set any response code")
    assert ResetOffsetBody.from_json(reply.body).offset_table == queues(topic, 2, 1)
    told = client.pushed(220)
    assert told.is_oneway
    assert told.fields == {"topic": topic, "group": GROUP, "timestamp": "-1", "isForce": "false"}
    assert told.body == reply.body
    # Without force, no offset moves forward.
    kept = ResetOffsetBody.from_json(reset(mq, topic, -1, force=False).body)
    assert kept.offset_table == queues(topic, 1, 1)


def test_a_reset_by_a_cpp_admin_is_told_as_a_list(
    mq: Standalone, topic: str, client: Client
) -> None:
    commit(mq, topic, (1, 1))
    assert reset(mq, topic, 0, force=True, language=int(LanguageCode.CPP)).code == 0
    rows = json.loads(client.pushed(220).body)["offsetTable"]
    assert sorted((row["queueId"], row["offset"]) for row in rows) == [(0, 0), (1, 0)]


def test_a_reset_needs_offsets_and_somebody_online(mq: Standalone, topic: str) -> None:
    reply = reset(mq, topic, 0, force=True)
    assert (reply.code, reply.remark) == (1, f"THe consumer group <{GROUP}> not exist")
    commit(mq, topic, (1, 1))
    reply = reset(mq, topic, 0, force=True)
    assert reply.code == 206
    assert (reply.remark or "").startswith("Consumer not online, so can not reset offset, Group")


def test_members_tell_their_positions(mq: Standalone, topic: str, client: Client) -> None:
    reply = client.ask_meanwhile(mq, Frame(223, {"topic": topic, "group": GROUP}))
    table = queues(topic, 2, 1)
    client.answer(
        client.pushed(221), 0, None, GetConsumerStatusBody(message_queue_table=table).to_json()
    )
    assert GetConsumerStatusBody.from_json(reply().body).consumer_table == {CLIENT: table}


def test_running_info_is_relayed_as_it_is(mq: Standalone, topic: str, client: Client) -> None:
    fields = {"consumerGroup": GROUP, "clientId": CLIENT, "jstackEnable": "false"}
    reply = client.ask_meanwhile(mq, Frame(307, fields))
    asked = client.pushed(307)
    assert asked.fields == fields
    client.answer(asked, 0, "as it is", b'{"properties":{}}')
    told = reply()
    assert (told.code, told.remark, told.body) == (0, "as it is", b'{"properties":{}}')


def test_direct_consuming_takes_the_message_along(
    mq: Standalone, topic: str, client: Client
) -> None:
    msg_id = send(mq, topic, 1, b"again, please").fields["msgId"]
    fields = {"consumerGroup": GROUP, "clientId": CLIENT, "msgId": msg_id}
    reply = client.ask_meanwhile(mq, Frame(309, fields))
    asked = client.pushed(309)
    assert asked.fields == {**fields, "brokerName": BROKER}
    assert decode_messages(asked.body)[0].body == b"again, please"
    client.answer(asked, 0, None, b'{"consumeResult":"CR_SUCCESS"}')
    assert reply().body == b'{"consumeResult":"CR_SUCCESS"}'


def test_a_client_that_goes_or_is_too_old_is_told(mq: Standalone, topic: str) -> None:
    client = Client(mq, topic)
    fields = {"consumerGroup": GROUP, "clientId": CLIENT}
    reply = client.ask_meanwhile(mq, Frame(307, fields))
    client.pushed(307)
    client.leave()
    assert reply().code == 1
    old = Client(mq, topic, version=61)
    refused = ask(mq.broker_address, Frame(307, fields))
    old.leave()
    assert refused.code == 1
    assert "too low" in (refused.remark or "")


def replying(topic: str, asker: str) -> Frame:
    letters = {"a": "repliers", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    text = f"MSG_TYPE\x01reply\x02CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01{asker}"
    return Frame(325, {**letters, "h": "0", "i": text, "j": "0", "m": "false"}, b"the answer")


def test_a_reply_goes_to_who_asked_and_is_stored(
    mq: Standalone, topic: str, client: Client
) -> None:
    reply = client.ask_meanwhile(mq, replying("DefaultCluster_REPLY_TOPIC", CLIENT))
    pushed = client.pushed(326)
    assert pushed.body == b"the answer"
    assert "CORRELATION_ID\x01c-1" in pushed.fields["properties"]
    assert pushed.fields["properties"].startswith("PUSH_REPLY_TIME\x01")
    assert pushed.fields["storeHost"] == mq.broker_address
    assert pushed.fields["producerGroup"] == "repliers"
    client.answer(pushed, 0, None, b"")
    answer = reply()
    assert (answer.code, answer.remark) == (0, None)
    assert len(answer.fields["msgId"]) == 32
    stored = mq.messages("DefaultCluster_REPLY_TOPIC")[-1]
    assert stored.body == b"the answer"
    assert "CLUSTER" not in stored.properties  # kept as it came


def test_a_reply_that_is_refused_says_why(mq: Standalone, topic: str, client: Client) -> None:
    reply = client.ask_meanwhile(mq, replying("DefaultCluster_REPLY_TOPIC", CLIENT))
    client.answer(client.pushed(326), 1, "nobody waits", b"")
    answer = reply()
    assert answer.code == 1
    assert answer.remark == f"push reply message to {CLIENT}fail."


def test_no_reply_waits_for_a_client_that_answers_nothing(
    mq: Standalone, topic: str, client: Client
) -> None:
    replies = "DefaultCluster_REPLY_TOPIC"
    silent = Probe(mq.broker_address, timeout=60)
    assert silent.call(heartbeat(topic, "192.0.2.2@silent")).code == 0
    repliers = [Probe(mq.broker_address, timeout=60) for _ in range(8)]
    for number, replier in enumerate(repliers):
        frame = replying(replies, "192.0.2.2@silent")
        replier.write(encode(Frame(325, frame.fields, frame.body, opaque=number)))
    assert until(lambda: silent.read().code == 326)  # the broker waits for its answers from now on
    began = time.monotonic()
    reply = client.ask_meanwhile(mq, replying(replies, CLIENT))
    client.answer(client.pushed(326), 0, None, b"")
    assert reply().code == 0
    assert time.monotonic() - began < 5, "the silent client's deadline is 10 s"
    for open_probe in (silent, *repliers):
        open_probe.close()
