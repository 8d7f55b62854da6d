"""What clients of one process share: a loop thread, a client id and connections to brokers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from mqclient import (
    Admin,
    BrokerError,
    ClientId,
    ClosedError,
    Connection,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
    aio,
    reply,
)
from mqserver.embedded.standalone import Standalone
from tests.client.blocking.test_sync import in_child
from tests.waiting import until

MANY = 200
DESCRIPTORS_MAX = 40
"""Limit for MANY clients that share one loop and one connection to each server."""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_many_producers_share_their_connections(mq: Standalone) -> None:
    topic = mq.topic()
    before, threads = descriptors(), threading.active_count()
    producers = [Producer(mq.namesrv) for _ in range(MANY)]
    for one in producers:
        one.start()
        one.send(Message(topic, b"x"))
    assert descriptors() - before < DESCRIPTORS_MAX
    assert threading.active_count() - threads <= 2
    assert len({one.client_id for one in producers}) == 1
    for one in producers[1:]:
        one.close()
    assert producers[0].send(Message(topic, b"x")).queue_offset >= 0
    with Admin(mq.namesrv) as admin:
        assert admin.client_id == producers[0].client_id

        def members() -> list[str]:
            try:
                found = admin.producers.connection("PYTHON_PRODUCER", topic).connection_set
            except BrokerError:  # before the first heartbeat
                return []
            return [member.client_id for member in found]

        assert until(lambda: members() == [admin.client_id])
    producers[0].close()
    assert "mqclient-loop" not in {thread.name for thread in threading.enumerate()}


def collecting(into: list[bytes]):
    def handle(messages, _context) -> None:
        into.extend(message.body for message in messages)

    return handle


def test_consumers_of_one_group_have_an_id_each_and_others_share(mq: Standalone) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv) as producer:
        for _ in range(8):
            producer.send(Message(topic, b"first"))
        seen: list[list[bytes]] = [[], [], []]
        options = {"consume_from": "earliest"}
        consumers = [
            PushConsumer(group, mq.namesrv, **options)
            for group in ("shared_a", "shared_b", "shared_a")
        ]
        for one, into in zip(consumers, seen, strict=True):
            one.subscribe(topic, "*", collecting(into))
            one.start()
        first, other, second = consumers
        assert producer.client_id == first.client_id == other.client_id != second.client_id
        assert until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
        assert until(lambda: len(seen[0] + seen[2]) >= 8 and len(seen[1]) == 8)
        first.close()
        assert until(lambda: len(second.assignment()) == 4), "its group is unregistered"
        assert len(other.assignment()) == 4, "other groups of the same id stay"
        with Admin(mq.namesrv) as admin:
            members = admin.groups.connection("shared_a").connection_set
            assert [member.client_id for member in members] == [second.client_id]
            assert admin.groups.running_info("shared_b", other.client_id)
        for one in (other, second):
            one.close()
        producer.send(Message(topic, b"last"))


def test_a_reply_finds_the_producer_that_asked(mq: Standalone) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv) as first, Producer(mq.namesrv) as second:
        first.send(Message(topic, b"creates the topic"))
        consumer = LitePullConsumer("replies", mq.namesrv, consume_from="earliest")
        with consumer:
            consumer.subscribe(topic)
            futures = [
                one.request_async(Message(topic, body), timeout=60)
                for one, body in ((first, b"1"), (second, b"2"))
            ]
            for message in consumer:
                if message.body in (b"1", b"2"):
                    first.send(reply(message, b"re " + message.body))
                if all(future.done() for future in futures) or message.body == b"2":
                    break
            answered = futures[1].result(60).body
        assert answered == b"re 2"


def test_producers_of_two_groups_and_checkers_have_own_ids(mq: Standalone) -> None:
    def check(_message) -> TransactionState:
        return TransactionState.COMMIT

    with (
        Producer(mq.namesrv) as plain,
        Producer(mq.namesrv, group="another") as other,
        TransactionProducer("another", mq.namesrv, check=check) as checker,
        TransactionProducer("another", mq.namesrv, check=check) as second,
        Producer(mq.namesrv, connection=Connection(request_timeout=4.0)) as slower,
    ):
        assert checker.client_id == other.client_id, "the same group, and one answers checks"
        assert len({plain.client_id, other.client_id, second.client_id, slower.client_id}) == 4


def test_a_forked_child_gets_connections_of_its_own(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    with Producer(mq.namesrv) as parent:
        parent.send(Message(topic, b"parent"))

        def child() -> int:
            with pytest.raises(ClosedError, match="make a new one after the fork"):
                parent.send(Message(topic, b"x"))
            parent.close()
            with Producer(mq.namesrv) as own:
                own.send(Message(topic, b"child"))
            return 0

        assert in_child(child) == 0
        parent.send(Message(topic, b"parent again"))
    bodies = [message.body for message in mq.messages(topic)]
    assert bodies == [b"parent", b"child", b"parent again"]


async def test_clients_of_a_loop_share_and_refuse_another_loop(mq: Standalone) -> None:
    topic = mq.topic()
    async with aio.Producer(mq.namesrv) as first, aio.Producer(mq.namesrv) as second:
        assert first.client_id == second.client_id
        await first.send(Message(topic, b"x"))

        def elsewhere() -> None:
            with pytest.raises(ClosedError, match="another event loop"):
                asyncio.run(first.send(Message(topic, b"x")))
            asyncio.run(own())

        async def own() -> None:
            async with aio.Producer(mq.namesrv) as third:
                assert third.client_id != first.client_id
                await third.send(Message(topic, b"x"))

        await asyncio.to_thread(elsewhere)
        await first.close()
        await second.send(Message(topic, b"x"))
        with pytest.raises(ClosedError, match="closed"):
            await first.send(Message(topic, b"x"))


def test_loops_of_many_threads_share_nothing_and_disturb_none():
    errors: list[BaseException] = []

    async def start_and_close():
        for number in range(60):
            producers = [
                aio.Producer("127.0.0.1:1", client_id=ClientId(unit=f"{number}-{n}"))
                for n in range(5)
            ]
            for producer in producers:
                await producer.start()
            for producer in producers:
                await producer.close()

    def run():
        try:
            asyncio.run(start_and_close())
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors
