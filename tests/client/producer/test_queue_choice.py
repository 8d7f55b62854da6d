"""Sends to a chosen queue: by order key, by selector; and batches that are sent in parts."""

from __future__ import annotations

import pickle

import pytest

from mqclient import BrokerError, Message, PartialSendError, Producer, SendResult, aio
from mqclient.producer.queue_choice import chosen_queue, queue_choice
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import NAMESRV, Cluster
from tests.waiting import until

QUEUES = [MessageQueue("T", "broker-a", i) for i in range(7)]


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        ("Aa", 2112),
        ("polygenelubricants", -(1 << 31)),
        (42, 42),
        (-3, -3),
        (1 << 40, 256),  # Long.hashCode(1L << 40)
        (-(1 << 40), -256),
    ],
)
def test_an_order_key_takes_the_queue_of_javas_hash(key, java_hash) -> None:
    choice = queue_choice(None, key, None)
    assert choice is not None
    assert chosen_queue(choice, QUEUES, Message("T", b"x")) == QUEUES[abs(java_hash) % 7]


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ((QUEUES[0], "k", None), ValueError, "only one of queue, order_key and selector"),
        (("T:0", None, None), TypeError, "queue must be a MessageQueue, not str"),
        ((None, b"k", None), TypeError, "order_key must be str or int, not bytes"),
        ((None, True, None), TypeError, "order_key must be str or int, not bool"),
        ((None, None, 3), TypeError, "selector must be a function, not int"),
    ],
)
def test_bad_choices(arguments, error, why) -> None:
    with pytest.raises(error, match=why):
        queue_choice(*arguments)


async def test_bad_choices_send_nothing() -> None:
    cluster = Cluster(T=2)
    async with aio.Producer(NAMESRV, transport=cluster.transport) as sender:
        with pytest.raises(ValueError, match="selector returned None; it must return one"):
            await sender.send(Message("T", b"x"), selector=lambda _queues, _message: None)
        with pytest.raises(ZeroDivisionError):
            await sender.send(Message("T", b"x"), selector=lambda _queues, _message: 1 // 0)
        with pytest.raises(ValueError, match="must fit 64 bits"):
            await sender.send(Message("T", b"x"), order_key=1 << 63)
        with pytest.raises(ValueError, match="does not belong"):
            await sender.send(Message("Other", b"x"), queue=QUEUES[0])
    assert not cluster.requests(RequestCode.SEND_MESSAGE_V2)


def test_the_blocking_face_sends_a_key_to_one_queue(mq) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv) as sender:
        sender.send(Message(topic, b"creates the topic"))
        until(lambda: len(sender.queues(topic)) == 4)
        queues = sender.queues(topic)
        ordered = [sender.send(Message(topic, b"x"), order_key="order-7") for _ in range(3)]
        assert len({result.message_queue for result in ordered}) == 1
        assert ordered[2].queue_offset == ordered[0].queue_offset + 2
        assert sender.send(Message(topic, b"x"), order_key=5).message_queue == queues[1]
        later = sender.send_async(Message(topic, b"x"), order_key=-6)
        assert later.result(30).message_queue == queues[2]
        batch = sender.send([Message(topic, b"1"), Message(topic, b"2")], order_key=3)
        assert batch.message_queue == queues[3]
        seen = []

        def last(found: list[MessageQueue], message: Message) -> MessageQueue:
            seen.append((found, message.body))
            return found[-1]

        assert sender.send(Message(topic, b"s"), selector=last).message_queue == queues[3]
        assert seen == [(queues, b"s")]
        sender.send_oneway(Message(topic, b"o"), selector=last)


async def test_the_asyncio_face_sends_a_key_to_one_queue(mq) -> None:
    topic = mq.topic()
    async with aio.Producer(mq.namesrv) as sender:
        results = [await sender.send(Message(topic, b"x"), order_key=9) for _ in range(4)]
        assert {result.message_queue.queue_id for result in results} == {1}
        chosen = await sender.send(Message(topic, b"x"), selector=lambda queues, _m: queues[2])
        assert chosen.message_queue.queue_id == 2


def test_a_batch_over_the_limit_is_sent_in_parts(mq) -> None:
    topic = mq.topic()
    messages = [Message(topic, b"%03d" % i + b"x" * 997) for i in range(50)]
    with Producer(mq.namesrv, body_bytes_max=20_000) as sender:
        result = sender.send(messages, order_key="k")
        assert len(result.parts) > 2
        ids = result.msg_ids
        assert len(ids) == len(set(ids)) == len(result.offset_msg_ids) == 50
        assert [one.msg_id for one in result.messages] == [*ids]
        assert [one.queue_offset for one in result.messages] == [*range(50)]
        offsets = [part.queue_offset for part in result.parts]
        counts = [len(part.msg_ids) for part in result.parts]
        assert offsets == [sum(counts[:i]) for i in range(len(counts))]
        assert result.raise_for_status() is result
        assert pickle.loads(pickle.dumps(result)) == result
        in_turn = sender.send(messages)
        assert len({part.message_queue for part in in_turn.parts}) > 1
        small = sender.send(messages[:2])
        assert small.parts == (small,)
        with pytest.raises(ValueError, match="body has 20001 bytes"):
            sender.send([*messages, Message(topic, b"x" * 20_001)])


async def test_a_part_that_fails_says_what_is_stored() -> None:
    cluster = Cluster(T=1)
    store, count = cluster.send, []

    def send(address: str, request: Frame) -> Frame:
        count.append(1)
        return store(address, request) if len(count) < 3 else Frame(13, remark="too large")

    cluster.transport.scripts[int(RequestCode.SEND_BATCH_MESSAGE)] = send
    messages = [Message("T", b"x" * 1000) for _ in range(10)]
    async with aio.Producer(NAMESRV, transport=cluster.transport, body_bytes_max=4000) as sender:
        with pytest.raises(PartialSendError, match="the first 2 of 4 parts") as caught:
            await sender.send(messages)
    assert all(isinstance(part, SendResult) for part in caught.value.results)
    assert len(caught.value.results) == 2
    assert isinstance(caught.value.__cause__, BrokerError)
