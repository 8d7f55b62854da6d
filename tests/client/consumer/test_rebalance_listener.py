"""Functions that a program gives to follow its queues: when they run, and what they cannot harm."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

import mqclient
from mqclient import ClientId, Connection, aio
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.offsets import LockBatchResponseBody, ResetOffsetBody
from mqcommon.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from tests.client.cluster import BROKER, NAME, NAMESRV, Cluster
from tests.client.reading import Q0
from tests.waiting import until, until_async

Q1 = MessageQueue("T", NAME, 1)
KINDS = pytest.mark.parametrize("kind", ["concurrent", "orderly", "lite"])
FIRST_MEMBER = "0.0.0.0@first"


class Heard:
    """Notes the calls of a listener, with what the broker knew at that time."""

    def __init__(self, cluster: Cluster) -> None:
        self.calls: list[tuple[str, list[MessageQueue]]] = []
        self.committed: dict[MessageQueue, int] = {}
        self._cluster = cluster

    async def assigned(self, queues):
        self.calls.append(("assigned", queues))

    async def revoked(self, queues):
        self.committed = dict(self._cluster.committed)
        self.calls.append(("revoked", queues))

    async def lost(self, queues):
        self.calls.append(("lost", queues))

    def all_of(self, name: str) -> list[MessageQueue]:
        return sorted(queue for what, queues in self.calls if what == name for queue in queues)


def made(kind: str, cluster: Cluster, seen: list[bytes], **options):
    options = {"consume_from": "earliest", "transport": cluster.transport, **options}
    if kind == "lite":
        consumer = aio.LitePullConsumer("g", NAMESRV, **options)
        consumer.subscribe("T")
        return consumer
    consumer = aio.PushConsumer("g", NAMESRV, orderly=kind == "orderly", **options)
    consumer.on_message("T")(lambda message: seen.append(message.body))
    return consumer


async def a_member_joins(cluster: Cluster) -> None:
    """Another member, the first in order, takes queue 0."""
    cluster.members.append(FIRST_MEMBER)
    await cluster.transport.push(BROKER, Frame(40, {"consumerGroup": "g"}, flag=2))


@KINDS
async def test_revoked_runs_before_the_commit_and_the_give_up(kind):
    cluster, seen = Cluster(T=2), []
    cluster.put("T", b"0", b"1")
    heard = Heard(cluster)
    consumer = made(kind, cluster, seen, commit_interval=60.0)
    consumer.on_rebalance(assigned=heard.assigned, revoked=heard.revoked, lost=heard.lost)
    async with consumer:
        await consumer.wait_assigned(60)
        assert heard.all_of("assigned") == [Q0, Q1], "wait_assigned returns after `assigned`"
        while kind == "lite" and len(seen) < 2:
            seen += [message.body for message in await consumer.poll(10, timeout=60)]
        await until_async(lambda: len(seen) == 2)
        await until_async(lambda: kind == "lite" or not len(consumer._assignment.held[Q0]))
        if kind == "lite":
            await consumer.poll(1, timeout=0.01)
        await a_member_joins(cluster)
        await until_async(lambda: ("revoked", [Q0]) in heard.calls)
        assert Q0 not in heard.committed
        await until_async(lambda: cluster.committed.get(Q0) == 2)
        await until_async(lambda: consumer.assignment() == [Q1])
    assert heard.all_of("revoked") == [Q0, Q1], "close() calls it too"
    assert not heard.all_of("lost")


@KINDS
async def test_a_seek_in_assigned_misses_and_repeats_nothing(kind):
    cluster, seen = Cluster(T=1), []
    cluster.put("T", *(b"%d" % n for n in range(6)))
    consumer = made(kind, cluster, seen)

    async def assigned(queues):
        await consumer.seek(queues[0], 4)

    consumer.on_rebalance(assigned=assigned)
    async with consumer:
        await consumer.wait_assigned(60)
        while kind == "lite" and len(seen) < 2:
            seen += [message.body for message in await consumer.poll(10, timeout=60)]
        await until_async(lambda: len(seen) == 2)
    assert seen == [b"4", b"5"]
    pulls = cluster.requests(RequestCode.PULL_MESSAGE)
    offsets = [int(r.fields["queueOffset"]) for r in pulls if r.fields["topic"] == "T"]
    assert min(offsets) == 4


async def test_a_commit_in_revoked_is_written():
    cluster = Cluster(T=2)
    cluster.put("T", b"0", b"1")
    consumer = made("lite", cluster, [], commit_interval=None)

    async def revoked(queues):
        if Q0 in queues:
            await consumer.commit({Q0: 2})

    consumer.on_rebalance(revoked=revoked)
    async with consumer:
        await consumer.wait_assigned(60)
        assert len(await consumer.poll(10, timeout=60)) == 2
        await a_member_joins(cluster)
        await until_async(lambda: consumer.assignment() == [Q1])
        assert cluster.committed == {Q0: 2}


@KINDS
async def test_queues_of_a_broker_that_left_the_route_are_lost(kind):
    cluster, seen = Cluster(T=2), []
    two = {NAME: BROKER, "broker-b": "127.0.0.1:10921"}

    def route(_address, request):
        if request.fields["topic"] != "T":
            return Frame(17, remark="No topic route info")
        data = TopicRouteData(
            [BrokerData(name, "DefaultCluster", {0: at}) for name, at in two.items()],
            [QueueData(name, 1, 1) for name in two],
        )
        return Frame(0, body=data.to_json())

    cluster.transport.scripts[int(RequestCode.GET_ROUTEINFO_BY_TOPIC)] = route
    heard, gone = Heard(cluster), MessageQueue("T", "broker-b", 0)
    options = {"connection": Connection(route_poll_interval=0.05), "rebalance_interval": 0.05}
    consumer = made(kind, cluster, seen, **options)
    consumer.on_rebalance(revoked=heard.revoked, lost=heard.lost)
    async with consumer:
        await until_async(lambda: consumer.assignment() == [Q0, gone])
        del two["broker-b"]
        await until_async(lambda: heard.calls)
        assert heard.calls == [("lost", [gone])]
        assert consumer.assignment() == [Q0]
    assert heard.calls[1:] == [("revoked", [Q0])]


@pytest.mark.parametrize("named", [True, False])
async def test_a_queue_whose_lock_another_member_has_is_lost(named, monkeypatch):
    monkeypatch.setattr("mqclient.consumer.push.orderly_assignment.LOCK_INTERVAL", 0.02)
    cluster = Cluster(T=1)
    heard = Heard(cluster)
    consumer = made("orderly", cluster, [])
    lost = heard.lost if named else None
    consumer.on_rebalance(assigned=heard.assigned, revoked=heard.revoked, lost=lost)
    async with consumer:
        await consumer.wait_assigned(60)
        nothing = Frame(0, body=LockBatchResponseBody([]).to_json())
        lock = int(RequestCode.LOCK_BATCH_MQ)
        cluster.transport.scripts[lock] = lambda _address, _request: nothing
        await until_async(lambda: len(heard.calls) == 2)
        assert heard.calls == [("assigned", [Q0]), ("lost" if named else "revoked", [Q0])]
        assert consumer.assignment() == []


async def test_a_close_after_a_failure_tells_that_queues_are_lost():
    cluster = Cluster(T=1)
    heard = Heard(cluster)
    consumer = made("concurrent", cluster, [])
    consumer.on_rebalance(revoked=heard.revoked, lost=heard.lost)
    async with consumer:
        await consumer.wait_assigned(60)
        consumer._client.failure = RuntimeError("a task of the consumer died")
    assert heard.calls == [("lost", [Q0])]


@KINDS
@pytest.mark.parametrize("error", [RuntimeError("boo"), SystemExit(3), asyncio.CancelledError()])
async def test_a_failing_function_is_logged_and_harms_nothing(kind, error, caplog):
    cluster, seen = Cluster(T=1), []
    cluster.put("T", b"0")
    consumer = made(kind, cluster, seen)

    async def fail(_queues):
        raise error

    consumer.on_rebalance(assigned=fail, revoked=fail)
    async with consumer:
        await consumer.wait_assigned(60)
        if kind == "lite":
            seen += [message.body for message in await consumer.poll(10, timeout=60)]
            await consumer.poll(1, timeout=0.01)
        await until_async(lambda: seen == [b"0"])
    assert cluster.committed[Q0] == 1
    assert "the function 'assigned' for 1 queues failed" in caplog.text
    assert "the function 'revoked' for 1 queues failed" in caplog.text


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_a_function_that_does_not_end_holds_nothing_up(way, caplog):
    cluster, seen = Cluster(T=1), []
    cluster.put("T", b"0")
    release = threading.Event()
    consumer = made("concurrent", cluster, seen)

    async def forever(_queues):
        await asyncio.Event().wait()

    endless = forever if way == "async" else lambda _queues: release.wait(60)
    consumer.on_rebalance(assigned=endless, revoked=endless, timeout=0.05)
    with contextlib.closing(_Setter(release)):
        async with consumer:
            await until_async(lambda: seen == [b"0"])
    assert "the function 'assigned' for 1 queues has not ended after 0.05 s" in caplog.text


@KINDS
async def test_close_waits_no_longer_than_asked(kind, caplog):
    consumer = made(kind, Cluster(T=1), [])

    async def forever(_queues):
        await asyncio.Event().wait()

    consumer.on_rebalance(revoked=forever, timeout=600)
    await consumer.start()
    await consumer.wait_assigned(60)
    async with asyncio.timeout(60):
        await consumer.close(timeout=0.05)
    assert consumer.state == "closed"
    assert "close() waits no longer for a function of on_rebalance" in caplog.text


class _Setter:
    """Sets an event when it is closed."""

    def __init__(self, event: threading.Event) -> None:
        self.close = event.set


@KINDS
async def test_close_in_a_function_returns_and_closes_after_it(kind):
    cluster, ended = Cluster(T=1), []
    consumer = made(kind, cluster, [])

    async def assigned(queues):
        await consumer.close()
        ended.append(queues)

    consumer.on_rebalance(assigned=assigned)
    await consumer.start()
    await until_async(lambda: consumer.state == "closed")
    assert ended == [[Q0]]


@pytest.mark.parametrize("kind", ["push", "lite"])
def test_a_blocking_close_in_a_function_ends_in_order(mq, kind):
    topic, group = mq.topic(queues=1), f"g_close_{kind}"
    with mqclient.Producer(mq.namesrv) as producer:
        producer.send(mqclient.Message(topic, b"x"))
    calls: list[str] = []
    options = {"consume_from": "earliest"}
    if kind == "lite":
        consumer = mqclient.LitePullConsumer(group, mq.namesrv, **options)
        consumer.subscribe(topic)
    else:
        consumer = mqclient.PushConsumer(group, mq.namesrv, **options)
        consumer.on_message(topic)(lambda _message: None)

    def assigned(_queues):
        consumer.close()
        calls.append("assigned")

    consumer.on_rebalance(assigned=assigned, revoked=lambda _queues: calls.append("revoked"))
    consumer.start()
    assert until(lambda: consumer.state == "closed")
    assert calls == ["assigned", "revoked"]


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_reset_by_an_operator_revokes_and_assigns_again(orderly):
    cluster, seen = Cluster(T=1), []
    cluster.put("T", b"0", b"1", b"2")
    heard = Heard(cluster)
    consumer = made("orderly" if orderly else "concurrent", cluster, seen)

    async def assigned(queues):
        heard.calls.append(("assigned", [await consumer.position(queue) for queue in queues]))

    consumer.on_rebalance(assigned=assigned, revoked=heard.revoked)
    async with consumer:
        await until_async(lambda: len(seen) == 3)
        body = ResetOffsetBody({Q0: 1}).to_json()
        await cluster.transport.push(BROKER, Frame(220, {"group": "g"}, body=body))
        await until_async(lambda: seen[3:] == [b"1", b"2"])
        assert heard.calls == [("assigned", [0]), ("revoked", [Q0]), ("assigned", [1])]


@KINDS
def test_plain_functions_follow_members_of_a_real_group(mq, kind):
    """Two blocking members; the functions use the consumer, whose calls wait for the loop."""
    topic, group = mq.topic(queues=2), f"g_listen_{kind}"
    calls: list[tuple[str, int]] = []
    options = {"consume_from": "earliest"}
    handled = threading.Event()

    def member(name: str):
        client_id = ClientId(instance=name)
        if kind == "lite":
            made = mqclient.LitePullConsumer(group, mq.namesrv, client_id=client_id, **options)
            made.subscribe(topic)
            return made
        made = mqclient.PushConsumer(
            group, mq.namesrv, orderly=kind == "orderly", client_id=client_id, **options
        )
        made.on_message(topic)(lambda _message: handled.set())
        return made

    first = member("a")

    def assigned(queues):
        calls.extend(("assigned", first.position(queue)) for queue in queues)

    def revoked(queues):
        calls.extend(("revoked", first.position(queue)) for queue in queues)

    first.on_rebalance(assigned=assigned, revoked=revoked)
    with first:
        first.wait_assigned(60)
        assert calls == [("assigned", 0)] * 2
        with mqclient.Producer(mq.namesrv) as producer:
            for queue in producer.queues(topic):
                producer.send(mqclient.Message(topic, b"x"), queue=queue)
        if kind == "lite":
            for _ in range(2):
                next(first)
            first.poll(1, timeout=0.01)
        assert until(lambda: all(first.position(queue) == 1 for queue in first.assignment()))
        with member("b") as second:
            second.wait_assigned(60)
            assert until(lambda: len(second.assignment()) == 1)
            assert until(lambda: ("revoked", 1) in calls)
            (moved,) = second.assignment()
            assert kind != "orderly" or second.position(moved) == 1, "nothing is repeated"
        assert until(lambda: len(first.assignment()) == 2)
    assert [name for name, _ in calls[2:]] == ["revoked", "assigned", "revoked", "revoked"]
    assert kind != "orderly" or all(position == 1 for _, position in calls[2:])
