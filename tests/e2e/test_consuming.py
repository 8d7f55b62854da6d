"""Long polls, redelivery, dead letters, membership: with raw frames and with our consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from mqclient import (
    ConsumeContext,
    ConsumeResult,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from mqcommon.names import tag_hash, tags_of
from mqcommon.wire.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages
from tests.waiting import until


def pull(topic: str, offset: int, *, hold_ms: int = 0, tags: str = "*", queue: int = 0) -> Frame:
    fields = {
        "consumerGroup": "raw_puller",
        "topic": topic,
        "queueId": str(queue),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "6" if hold_ms else "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": str(hold_ms),
        "subscription": tags,
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return Frame(11, fields)


def send(topic: str, body: bytes, properties: str = "", queue: int = 0) -> Frame:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0"}
    return Frame(310, {**letters, "g": "1", "h": "0", "i": properties, "m": "false"}, body)


def heartbeat(group: str, client: str, topic: str, tags: str = "*", version: int = 1) -> Frame:
    subscription = SubscriptionData(topic, tags, [], list(map(tag_hash, tags_of(tags))), version)
    data = ConsumerData(group, subscription_data_set=[subscription])
    return Frame(34, body=HeartbeatData(client, [], [data]).to_json())


class TestHolding:
    def test_a_message_ends_the_wait(self, mq: Standalone) -> None:
        topic = mq.topic(queues=1)
        with Probe(mq.broker_address, 60) as waiting, Probe(mq.broker_address) as sender:
            request = pull(topic, 0, hold_ms=50_000)
            request.opaque = 77
            waiting.write(encode(request))
            began = time.monotonic()
            sender.call(send(topic, b"awaited"))
            reply = waiting.read()
        assert (reply.code, reply.opaque, reply.remark) == (0, 77, "FOUND")
        assert [m.body for m in decode_messages(reply.body)] == [b"awaited"]
        assert time.monotonic() - began < 45.0, "not at the deadline"

    def test_another_tag_does_not(self, mq: Standalone) -> None:
        topic = mq.topic(queues=1)
        with Probe(mq.broker_address, 60) as waiting, Probe(mq.broker_address) as sender:
            request = pull(topic, 0, hold_ms=50_000, tags="Wanted")
            request.opaque = 78
            waiting.write(encode(request))
            sender.call(send(topic, b"other", "TAGS\x01Other"))
            sender.call(send(topic, b"wanted", "TAGS\x01Wanted"))
            reply = waiting.read()
            if reply.code == 20:  # the pull came between the two messages
                reply = waiting.call(pull(topic, 1, hold_ms=50_000, tags="Wanted"))
        assert [m.body for m in decode_messages(reply.body)] == [b"wanted"]
        assert reply.fields["nextBeginOffset"] == "2"

    def test_time_ends_it_too(self, mq: Standalone) -> None:
        topic = mq.topic(queues=1)
        with Probe(mq.broker_address, 15) as waiting:
            reply = waiting.call(pull(topic, 0, hold_ms=300))
        assert (reply.code, reply.remark) == (19, "NO_MESSAGE_IN_QUEUE")
        assert reply.fields["nextBeginOffset"] == "0"

    def test_a_pull_commits_what_it_says(self, mq: Standalone) -> None:
        topic = mq.topic(queues=1)
        request = pull(topic, 0)
        request.fields.update(sysFlag="5", commitOffset="7")
        with Probe(mq.broker_address) as probe:
            probe.call(request)
            key = {"consumerGroup": "raw_puller", "topic": topic, "queueId": "0"}
            assert probe.call(Frame(14, key)).fields["offset"] == "7"


class TestMembership:
    def test_members_are_told_of_each_other(self, mq: Standalone) -> None:
        topic = mq.topic()
        group = f"group-{topic}"
        with Probe(mq.broker_address) as one:
            assert one.call(heartbeat(group, "one", topic)).code == 0
            with Probe(mq.broker_address) as two:
                two.call(heartbeat(group, "two", topic))
                told = one.read()
                assert (told.code, told.fields) == (40, {"consumerGroup": group})
                assert told.is_oneway
                listed = one.call(Frame(38, {"consumerGroup": group}))
                assert listed.body == b'{"consumerIdList":["one","two"]}'
            gone = one.read()
            assert gone.code == 40

            def left() -> bytes:
                return one.call(Frame(38, {"consumerGroup": group})).body

            assert until(lambda: left() == b'{"consumerIdList":["one"]}')

    def test_a_heartbeat_creates_the_retry_topic(self, mq: Standalone) -> None:
        topic = mq.topic()
        with Probe(mq.broker_address) as probe:
            probe.call(heartbeat(f"new-{topic}", "c", topic))
            reply = probe.call(Frame(202, {"topic": f"%RETRY%new-{topic}"}))
        assert reply.code == 0
        assert reply.body.count(b"maxOffset") == 1

    def test_the_heartbeats_tags_filter(self, mq: Standalone) -> None:
        topic = mq.topic(queues=1)
        group = f"tags-{topic}"
        with Probe(mq.broker_address) as probe:
            for tag in "ABC":
                probe.call(send(topic, tag.encode(), f"TAGS\x01{tag}"))
            probe.call(heartbeat(group, "c", topic, "A || C", version=5))
            request = pull(topic, 0)
            request.fields.update(consumerGroup=group, sysFlag="0", subVersion="5")
            mq.messages(topic)
            found = probe.call(request)
        assert [m.body for m in decode_messages(found.body)] == [b"A", b"C"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_failed_message_comes_again(mq: Standalone, times: int) -> None:
    topic = mq.topic(queues=1)
    group = f"again-{topic}-{times}"
    seen: list[tuple[str, int]] = []
    done = threading.Event()

    def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        seen.extend((message.topic, message.reconsume_times) for message in messages)
        if len(seen) <= times:
            context.delay_level = 1
            return ConsumeResult.RECONSUME_LATER
        done.set()
        return ConsumeResult.SUCCESS

    with (
        Producer(mq.namesrv, group="again") as producer,
        PushConsumer(group, mq.namesrv, consume_from="earliest") as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        producer.send(Message(topic, b"stubborn", keys="k"))
        assert done.wait(60), seen
    assert seen == [(topic, count) for count in range(times + 1)]


def test_a_message_given_up_is_a_dead_letter(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    group = f"dead-{topic}"
    seen = threading.Event()

    def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        context.delay_level = -1
        seen.set()
        return ConsumeResult.RECONSUME_LATER

    with (
        Producer(mq.namesrv, group="dead") as producer,
        PushConsumer(group, mq.namesrv, consume_from="earliest") as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        producer.send(Message(topic, b"hopeless"))
        assert seen.wait(60)
        mq.wait_consumed(group, topic, timeout=60)
    (dead,) = mq.messages(f"%DLQ%{group}")
    assert dead.body == b"hopeless"
    assert dead.reconsume_times == 1
    assert dead.properties["RETRY_TOPIC"] == topic
    assert dead.properties["ORIGIN_MESSAGE_ID"] == mq.messages(topic)[0].offset_msg_id
