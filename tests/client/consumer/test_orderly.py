"""Orderly consumption against our own broker: order, failures, rebalance, locks."""

import asyncio
import threading
from collections import Counter, defaultdict

import pytest

from mqclient import ClientId, ConsumeResult, Message, Orderly, Producer, PushConsumer
from mqclient import aio as mqaio
from mqclient.consumer.push import orderly_assignment
from mqcommon.message import MessageQueue, offset_msg_id
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.offsets import LockBatchRequestBody, ResetOffsetBody
from mqcommon.wire.calls import offset_calls
from mqcommon.wire.codes import PullSysFlag
from mqserver.embedded.testing import Probe
from tests.client.cluster import BROKER, NAMESRV, Cluster
from tests.client.reading import Q0, RETRY, Seen, reading
from tests.waiting import until, until_async

DEADLINE = 60
OPTIONS = {"consume_from": "earliest", "orderly": Orderly(retry_delay=0.01)}


class Orders:
    """A handler for threads; records the messages and the parallel batches of each queue."""

    def __init__(self) -> None:
        self.of_queue: dict[int, list[int]] = defaultdict(list)
        self.together = 0
        self._running: Counter[int] = Counter()
        self._changed = threading.Condition()

    def __call__(self, messages, context) -> None:
        queue_id = context.message_queue.queue_id
        with self._changed:
            self._running[queue_id] += 1
            self.together = max(self.together, self._running[queue_id])
        with self._changed:
            self.of_queue[queue_id] += [message.queue_offset for message in messages]
            self._running[queue_id] -= 1
            self._changed.notify_all()

    @property
    def count(self) -> int:
        return sum(map(len, self.of_queue.values()))

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, DEADLINE), self.of_queue


def send(mq, topic: str, count: int, *, first: int = 0, queues: int = 1) -> None:
    """Spread messages 0, 1, ... over the queues in rotation; one batch per queue."""
    with Producer(mq.namesrv) as producer:
        for queue in producer.queues(topic)[:queues]:
            numbers = range(first + queue.queue_id, first + count, queues)
            producer.send([Message(topic, b"%d" % n) for n in numbers], queue=queue)


@pytest.mark.parametrize("batch_size", [1, 7])
def test_each_queue_is_consumed_in_order_one_batch_at_a_time(mq, batch_size):
    topic, group = mq.topic(queues=4), f"g_order_{batch_size}"
    send(mq, topic, 400, queues=4)
    seen = Orders()
    with PushConsumer(group, mq.namesrv, batch_size=batch_size, **OPTIONS) as consumer:
        consumer.subscribe(topic, "*", seen)
        seen.wait(400)
    assert seen.of_queue == {queue: list(range(100)) for queue in range(4)}
    assert seen.together == 1
    mq.wait_consumed(group, topic)


async def test_a_message_that_failed_comes_again_before_the_next(mq):
    topic = mq.topic(queues=1)
    send(mq, topic, 4)
    tries = []
    outcomes = [
        RuntimeError("boo"),
        ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT,
        ConsumeResult.RECONSUME_LATER,
        "yes",
    ]

    async def handle(messages, context):
        context.retry_delay = 0
        tries.append((messages[0].body, messages[0].reconsume_times))
        if messages[0].body == b"1" and outcomes:
            outcome = outcomes.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        return None

    async with mqaio.PushConsumer("g_again", mq.namesrv, **OPTIONS) as consumer:
        consumer.subscribe(topic, "*", handle)
        await until_async(lambda: len(tries) == 8)
    again = [(b"1", times) for times in range(5)]
    assert tries == [(b"0", 0), *again, (b"2", 0), (b"3", 0)]
    mq.wait_consumed("g_again", topic)


def test_a_message_that_keeps_failing_becomes_a_dead_letter(mq):
    topic = mq.topic(queues=1)
    send(mq, topic, 3)
    tries, done = [], threading.Event()

    def handle(messages, _context):
        tries.append((messages[0].body, messages[0].reconsume_times))
        if messages[0].body == b"1":
            raise RuntimeError("boo")
        if messages[0].body == b"2":
            done.set()

    with PushConsumer("g_dead", mq.namesrv, max_retries=2, **OPTIONS) as consumer:
        consumer.subscribe(topic, "*", handle)
        assert done.wait(DEADLINE)
    assert tries == [(b"0", 0), (b"1", 0), (b"1", 1), (b"1", 2), (b"2", 0)]
    mq.wait_consumed("g_dead", topic)
    mq.wait_dispatched()
    (dead,) = mq.messages("%DLQ%g_dead")
    assert dead.body == b"1"
    assert dead.properties["RETRY_TOPIC"] == topic
    assert dead.reconsume_times == 2


def to_dead_letters(_address: str, request: Frame) -> Frame:
    """The answer of a broker that puts a message of the retry topic into the dead-letter queue."""
    stored = {"msgId": offset_msg_id("127.0.0.1", 10911, 0), "queueOffset": "0"}
    return Frame(0, {**stored, "queueId": request.fields["e"]})


async def test_of_a_batch_only_what_failed_too_often_is_a_dead_letter():
    cluster = Cluster(**{"T": 1, RETRY: 1})
    cluster.put("T", b"0", reconsume_times="1")
    cluster.put("T", b"1")
    cluster.transport.scripts[int(RequestCode.SEND_MESSAGE_V2)] = to_dead_letters
    tries = []

    async def handle(messages, _context):
        tries.append([(message.body, message.reconsume_times) for message in messages])
        return ConsumeResult.RECONSUME_LATER if len(tries) == 1 else None

    async with reading(cluster, handle, max_retries=1, batch_size=4, **OPTIONS):
        await until_async(lambda: len(tries) == 2)
    assert tries == [[(b"0", 1), (b"1", 0)], [(b"1", 1)]]
    (sent,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert (sent.fields["b"], sent.fields["j"], sent.fields["l"]) == (RETRY, "1", "1")
    assert "DELAY" not in sent.fields["i"], "a dead letter is there at once"
    assert cluster.committed[Q0] == 2


async def test_a_queue_waits_until_a_broker_takes_its_dead_letter():
    cluster = Cluster(**{"T": 1, RETRY: 1})
    cluster.put("T", b"0", b"1")
    refused = []

    def refuse_once(address, request):
        refused.append(request)
        return Frame(1, remark="no") if len(refused) <= 3 else to_dead_letters(address, request)

    cluster.transport.scripts[int(RequestCode.SEND_MESSAGE_V2)] = refuse_once
    tries = []

    async def handle(messages, _context):
        tries.append((messages[0].body, messages[0].reconsume_times))
        return ConsumeResult.RECONSUME_LATER if messages[0].body == b"0" else None

    async with reading(cluster, handle, max_retries=0, **OPTIONS):
        await until_async(lambda: (b"1", 0) in tries)
    assert tries == [(b"0", 0), (b"0", 1), (b"1", 0)]
    assert cluster.committed[Q0] == 2


async def test_pulls_commit_nothing():
    """RocketMQ's broker may serve such pulls after the final commit of a lost queue."""
    cluster = Cluster(T=1)
    cluster.put("T", b"0")
    seen = []

    async def handle(messages, _context):
        seen.extend(message.body for message in messages)

    async with reading(cluster, handle, **OPTIONS):
        await until_async(lambda: seen == [b"0"])
        cluster.put("T", b"1")
        await until_async(lambda: seen == [b"0", b"1"])
        pulls = cluster.requests(RequestCode.PULL_MESSAGE)
    assert {int(pull.fields["sysFlag"]) & PullSysFlag.COMMIT_OFFSET for pull in pulls} == {0}
    assert cluster.committed[Q0] == 2


async def test_a_queue_rests_while_its_lock_cannot_be_renewed(monkeypatch):
    monkeypatch.setattr(orderly_assignment, "LOCK_INTERVAL", 0.01)
    monkeypatch.setattr(orderly_assignment, "LOCK_RETRY", 0.01)
    cluster = Cluster(T=1)
    seen = Seen()
    async with reading(cluster, seen, **OPTIONS) as consumer:
        lock, asked = cluster.lock, []

        def no_answer(_address, request):
            asked.append(request)
            return Frame(1, remark="no")

        cluster.transport.scripts[int(RequestCode.LOCK_BATCH_MQ)] = no_answer
        await until_async(lambda: asked)
        for held in consumer._assignment.held.values():
            held.locked_until = 0.0  # as after 30 s
        cluster.put("T", b"0")
        await until_async(lambda: len(consumer._assignment.held[Q0]) == 1)
        assert seen.bodies == []
        cluster.transport.scripts[int(RequestCode.LOCK_BATCH_MQ)] = lock
        assert await seen.until(1) == [b"0"]


async def test_without_auto_commit_the_handler_commits_and_rolls_back(mq):
    topic = mq.topic(queues=1)
    send(mq, topic, 4)
    tries = []

    async def handle(messages, context):
        context.auto_commit = False
        tries.append(messages[0].body)
        if len(tries) == 2:
            return ConsumeResult.ROLLBACK
        if len(tries) == 5:
            return ConsumeResult.COMMIT
        return None

    async with mqaio.PushConsumer("g_commit", mq.namesrv, **OPTIONS) as consumer:
        consumer.subscribe(topic, "*", handle)
        await until_async(lambda: len(tries) == 6)
    assert tries == [b"0", b"1", b"0", b"1", b"2", b"3"]
    with Probe(mq.broker_address) as broker:
        queue = MessageQueue(topic, "broker-a", 0)
        reply = broker.call(offset_calls.query_consumer_offset("g_commit", queue).request)
    assert reply.fields["offset"] == "3", "what is not committed comes again"


def test_a_queue_changes_hands_only_after_its_handler_has_ended(mq):
    topic = mq.topic(queues=2)
    send(mq, topic, 8, queues=2)
    first, second = Orders(), Orders()
    begun, go_on = threading.Event(), threading.Event()

    def slow(messages, context):
        if context.message_queue.queue_id == 1 and messages[0].queue_offset == 1:
            begun.set()
            assert go_on.wait(DEADLINE)
        first(messages, context)

    with PushConsumer("g_hands", mq.namesrv, client_id=ClientId(instance="a"), **OPTIONS) as one:
        one.subscribe(topic, "*", slow)
        assert begun.wait(DEADLINE)
        with PushConsumer(
            "g_hands", mq.namesrv, client_id=ClientId(instance="b"), **OPTIONS
        ) as two:
            two.subscribe(topic, "*", second)
            assert until(lambda: [queue.queue_id for queue in one.assignment()] == [0])
            first.wait(5)
            assert not two.assignment()
            assert second.count == 0, "the first member still handles a message of the queue"
            go_on.set()
            second.wait(2)
            assert [queue.queue_id for queue in two.assignment()] == [1]
    assert first.of_queue == {0: [0, 1, 2, 3], 1: [0, 1]}
    assert second.of_queue == {1: [2, 3]}


async def test_locks_are_held_and_given_back(mq):
    topic = mq.topic(queues=2)
    queues = [MessageQueue(topic, "broker-a", i) for i in range(2)]

    def free_for_another() -> list[MessageQueue]:
        with Probe(mq.broker_address) as broker:
            call = offset_calls.lock_queues("g_locks", "another", queues)
            granted = call.result(broker.call(call.request), mq.broker_address)
            broker.call(offset_calls.unlock_queues("g_locks", "another", granted).request)
        return granted

    async with mqaio.PushConsumer("g_locks", mq.namesrv, **OPTIONS) as consumer:
        consumer.subscribe(topic, "*", print)
        await consumer.wait_assigned()
        assert free_for_another() == []
    assert sorted(free_for_another()) == queues


async def test_a_failed_commit_is_retried_before_the_unlock():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1")
    failures = [Frame(1, remark="no")] * 2

    def update(address, request):
        return failures.pop() if failures else cluster.update_offset(address, request)

    seen = Seen()
    async with reading(cluster, seen, commit_interval=60, **OPTIONS) as consumer:
        await seen.until(2)
        cluster.transport.scripts[int(RequestCode.UPDATE_CONSUMER_OFFSET)] = update
        consumer.unsubscribe("T")
        await until_async(lambda: cluster.requests(RequestCode.UNLOCK_BATCH_MQ))
        assert cluster.committed[Q0] == 2


async def test_a_lock_that_is_granted_during_the_close_is_given_back():
    cluster = Cluster(T=1)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def lock(address, request):
        asked.set()
        await go_on.wait()
        return cluster.lock(address, request)

    cluster.transport.scripts[int(RequestCode.LOCK_BATCH_MQ)] = lock
    consumer = mqaio.PushConsumer("g", NAMESRV, transport=cluster.transport, **OPTIONS)
    consumer.subscribe("T", "*", print)
    await consumer.start()
    await asyncio.wait_for(asked.wait(), DEADLINE)
    closing = asyncio.create_task(consumer.close())
    await until_async(lambda: consumer._assignment._stopped)
    go_on.set()
    await closing
    (unlocked,) = cluster.requests(RequestCode.UNLOCK_BATCH_MQ)
    assert LockBatchRequestBody.from_json(unlocked.body).mq_set == [Q0]


async def test_a_queue_locked_by_another_is_read_again_once_free(mq, monkeypatch, caplog):
    monkeypatch.setattr(orderly_assignment, "LOCK_INTERVAL", 0.02)
    topic = mq.topic(queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    bodies: list[bytes] = []

    async def handle(messages, _context):
        bodies.append(messages[0].body)

    async with mqaio.PushConsumer("g_lost", mq.namesrv, **OPTIONS) as consumer:
        consumer.subscribe(topic, "*", handle)
        await consumer.wait_assigned()
        with Probe(mq.broker_address) as broker:
            broker.call(offset_calls.unlock_queues("g_lost", consumer.client_id, [queue]).request)
            call = offset_calls.lock_queues("g_lost", "another", [queue])
            while not call.result(broker.call(call.request), ""):  # renewed meanwhile
                broker.call(
                    offset_calls.unlock_queues("g_lost", consumer.client_id, [queue]).request
                )
            await until_async(lambda: not consumer.assignment())
            await asyncio.to_thread(send, mq, topic, 1)
            assert bodies == []
            broker.call(offset_calls.unlock_queues("g_lost", "another", [queue]).request)
        await until_async(lambda: bodies == [b"0"])
    assert "another member of the group has locked it" in caplog.text


def test_broadcasting_is_orderly_too_and_needs_no_lock(mq):
    topic = mq.topic(queues=1)
    send(mq, topic, 3)
    for name in ("a", "b"):
        seen = Orders()
        options = {**OPTIONS, "model": "broadcasting", "client_id": ClientId(instance=name)}
        with PushConsumer("g_wide", mq.namesrv, **options) as consumer:
            consumer.subscribe(topic, "*", seen)
            seen.wait(3)
        assert seen.of_queue == {0: [0, 1, 2]}


@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
async def test_a_reset_drops_what_waits_for_the_handler(model):
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2")
    bodies, go_on = [], asyncio.Event()

    async def handle(messages, _context):
        bodies.append(messages.pop().body)  # the list is the handler's own
        await go_on.wait()

    async with reading(cluster, handle, model=model, **OPTIONS):
        await until_async(lambda: bodies == [b"0"])
        fields = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
        reset = Frame(220, fields, ResetOffsetBody({Q0: 1}).to_json(), flag=2)
        await cluster.transport.push(BROKER, reset)
        if model == "broadcasting":
            await until_async(lambda: bodies == [b"0", b"1"])
        go_on.set()
        await until_async(lambda: len(bodies) == 3)
        cluster.put("T", b"3")
        await until_async(lambda: len(bodies) == 4)
    assert bodies == [b"0", b"1", b"2", b"3"]
