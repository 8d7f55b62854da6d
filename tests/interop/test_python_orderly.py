"""Our orderly and broadcasting consumers at our servers and Java's, and beside Java's clients."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from mqclient import (
    ClientId,
    ConsumeContext,
    LitePullConsumer,
    Message,
    Orderly,
    Producer,
    PushConsumer,
    aio,
)
from mqcommon.message import MessageQueue, ReceivedMessage
from mqcommon.wire.calls import group_calls, offset_calls
from mqserver.embedded.raw_client import Probe
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster
from tests.interop.java_driver import JavaDriver
from tests.waiting import until

pytestmark = pytest.mark.parametrize("cluster", OUR_CLIENTS_AT, indirect=True)
QUEUES = 4
DEADLINE = 90
BLOCKED = 150
"""Seconds: longer than a broker's timeout for heartbeats plus the interval of its checks."""
KILLED = """
import sys, threading
from mqclient import PushConsumer

def handle(messages, context):
    for message in messages:
        sys.stdout.write(f"{message.queue_id} {message.queue_offset}\\n")
        sys.stdout.flush()

namesrv, group, topic = sys.argv[1:]
with PushConsumer(group, namesrv, orderly=True, consume_from="earliest") as consumer:
    consumer.subscribe(topic, "*", handle)
    consumer.wait_assigned(90)
    sys.stdout.write(f"assigned {consumer.client_id}\\n")
    sys.stdout.flush()
    threading.Event().wait()
"""
"""A member that prints each handled message, until it is killed."""


class Log:
    """What all members of a group handled, in the order in which they did."""

    def __init__(self) -> None:
        self.offsets: dict[int, list[int]] = defaultdict(list)
        self.by: dict[str, int] = defaultdict(int)
        self._changed = threading.Condition()

    def add(self, member: str, queue_id: int, offset: int) -> None:
        with self._changed:
            self.offsets[queue_id].append(offset)
            self.by[member] += 1
            self._changed.notify_all()

    def wait(self, of_each: int) -> None:
        """Wait until `of_each` messages of each queue have been handled."""

        def is_there() -> bool:
            ends = [self.offsets[queue_id][-1:] for queue_id in range(QUEUES)]
            return ends == [[of_each - 1]] * QUEUES

        with self._changed:
            assert self._changed.wait_for(is_there, DEADLINE), dict(self.offsets)

    def member(self, cluster: Cluster, group: str, topic: str, name: str) -> PushConsumer:
        """A consumer that records each handled message under its name."""

        def handle(messages: list[ReceivedMessage], _context: ConsumeContext) -> None:
            for message in messages:
                self.add(name, message.queue_id, message.queue_offset)

        options = {"client_id": ClientId(instance=name), "orderly": True, "batch_size": 4}
        consumer = PushConsumer(group, cluster.namesrv, consume_from="earliest", **options)
        consumer.subscribe(topic, "*", handle)
        return consumer


def send(cluster: Cluster, topic: str, count: int, first: int = 0) -> None:
    """Messages first, first + 1, ... to each queue."""
    with Producer(cluster.namesrv, timeout=DEADLINE) as producer:
        for queue in producer.queues(topic):
            bodies = [b"%d" % i for i in range(first, first + count)]
            producer.send([Message(topic, body) for body in bodies], queue=queue)


def unlock(cluster: Cluster, group: str, client_id: str, topic: str) -> None:
    """Free the locks of a client, as the broker does 60 s after its end."""
    with Probe(cluster.broker) as broker:
        queues = [MessageQueue(topic, "broker-a", queue_id) for queue_id in range(QUEUES)]
        reply = broker.call(offset_calls.unlock_queues(group, client_id, queues).request)
    assert reply.code == 0, reply.remark


def test_order_is_kept_while_members_come_and_go(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"InOrder_{cluster.broker_port}", QUEUES)
    group = f"in_order_{cluster.broker_port}"
    log = Log()
    send(cluster, topic, 200)
    with log.member(cluster, group, topic, "first") as first:
        with log.member(cluster, group, topic, "second") as second:
            assert until(lambda: len(second.assignment()) == len(first.assignment()) == 2)
            send(cluster, topic, 200, 200)
            log.wait(400)
            send(cluster, topic, 200, 400)
        assert until(lambda: len(first.assignment()) == QUEUES)
        send(cluster, topic, 100, 600)
        log.wait(700)
    assert log.offsets == {queue_id: list(range(700)) for queue_id in range(QUEUES)}
    assert log.by["second"] >= 400


def test_after_a_kill_each_queue_continues_in_order_without_loss(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    topic = cluster.create_topic(java_driver, f"Killed_{cluster.broker_port}", QUEUES)
    group = f"killed_{cluster.broker_port}"
    log = Log()
    send(cluster, topic, 50)
    command = [sys.executable, "-c", KILLED, cluster.namesrv, group, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        client_id = ""
        for line in victim.stdout:
            words = line.split()
            if words[0] == "assigned":
                client_id = words[1]
            else:
                log.add("victim", int(words[0]), int(words[1]))
            if client_id and log.by["victim"] == QUEUES * 50:
                break
        victim.kill()
    with log.member(cluster, group, topic, "heir"):
        send(cluster, topic, 50, 50)
        unlock(cluster, group, client_id, topic)
        log.wait(100)
    for offsets in log.offsets.values():
        committed = offsets[50]
        assert committed <= 50
        assert offsets == [*range(50), *range(committed, 100)]


def test_java_and_ours_consume_a_topic_in_order(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"OrderOfBoth_{cluster.broker_port}", QUEUES)
    group = f"order_of_both_{cluster.broker_port}"
    log = Log()
    send(cluster, topic, 20)
    java = java_driver.consume(cluster.namesrv, group, topic, orderly=True)
    java.await_messages(QUEUES * 20)
    with log.member(cluster, group, topic, "ours") as ours:
        assert until(lambda: len(ours.assignment()) == 2)
        send(cluster, topic, 20, 20)
        java.await_messages(QUEUES * 20 + 2 * 20)
        assert until(lambda: log.by["ours"] == 2 * 20)
        java.stop()
        assert until(lambda: len(ours.assignment()) == QUEUES)
        send(cluster, topic, 20, 40)
        log.wait(60)
    of_java: dict[int, list[int]] = defaultdict(list)
    for message in java.messages:
        of_java[message["queueId"]].append(message["queueOffset"])
    for queue_id in range(QUEUES):
        assert of_java[queue_id] + log.offsets[queue_id] == list(range(60))


def test_a_message_that_fails_too_often_is_one_dead_letter(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    topic = cluster.create_topic(java_driver, f"OrderDead_{cluster.broker_port}", queues=1)
    group = f"order_dead_{cluster.broker_port}"
    tries: list[tuple[bytes, int]] = []
    options = {"orderly": Orderly(retry_delay=0.01), "max_retries": 2}
    with PushConsumer(group, cluster.namesrv, consume_from="earliest", **options) as consumer:

        @consumer.on_message(topic)
        def handle(message: ReceivedMessage) -> None:
            tries.append((message.body, message.reconsume_times))
            if message.body in (b"1", b"2"):
                raise RuntimeError("not this one")

        send(cluster, topic, 4)
        assert until(lambda: tries[-1:] == [(b"3", 0)])
    failed = [(body, times) for body in (b"1", b"2") for times in range(3)]
    assert tries == [(b"0", 0), *failed, (b"3", 0)]
    cluster.await_stored(f"%DLQ%{group}", 2)
    with LitePullConsumer(None, cluster.namesrv) as reader:
        queues = reader.queues(f"%DLQ%{group}")
        reader.assign(queues)
        for queue in queues:
            reader.seek_to_begin(queue)
        dead: list[ReceivedMessage] = []
        while len(dead) < 2:
            batch = reader.poll(timeout=DEADLINE)
            assert batch, dead
            dead += batch
    assert [(message.body, message.properties["RETRY_TOPIC"]) for message in dead] == [
        (b"1", topic),
        (b"2", topic),
    ]


def test_a_broadcasting_consumer_goes_on_after_a_restart(
    cluster: Cluster, java_driver: JavaDriver, tmp_path: Path
) -> None:
    topic = cluster.create_topic(java_driver, f"Wide_{cluster.broker_port}", QUEUES)
    group = f"wide_{cluster.broker_port}"
    options = {"model": "broadcasting", "offset_store": tmp_path / "offsets.json"}
    seen: list[list[int]] = []
    for turn in range(2):
        offsets: list[int] = []
        seen.append(offsets)
        send(cluster, topic, 10, 10 * turn)
        with PushConsumer(group, cluster.namesrv, consume_from="earliest", **options) as consumer:
            consumer.on_message(topic)(lambda m, to=offsets: to.append(m.queue_offset))
            assert until(lambda to=offsets: len(to) >= QUEUES * 10)
    assert [sorted(offsets) for offsets in seen] == [
        sorted([*range(10 * turn, 10 * turn + 10)] * QUEUES) for turn in range(2)
    ]


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_member_whose_loop_is_blocked_keeps_its_queues(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    """A broker forgets a member after 120 s without a heartbeat, and a lock after 60 s."""
    topic = cluster.create_topic(java_driver, f"Blocked_{cluster.broker_port}", QUEUES)
    group = f"blocked_{cluster.broker_port}"
    queues = [MessageQueue(topic, "broker-a", queue_id) for queue_id in range(QUEUES)]

    async def member() -> None:
        async with aio.PushConsumer(group, cluster.namesrv, orderly=True) as consumer:
            consumer.subscribe(topic, "*", lambda _messages, _context: None)
            await consumer.wait_assigned(DEADLINE)
            threading.Event().wait(BLOCKED)  # it blocks: no `await`
            with Probe(cluster.broker) as broker:
                asked = group_calls.consumer_ids(group)
                members = asked.result(broker.call(asked.request), cluster.broker)
                taken = offset_calls.lock_queues(group, "another", queues)
                locked = taken.result(broker.call(taken.request), cluster.broker)
            assert (members, locked) == ([consumer.client_id], [])

    asyncio.run(member())
