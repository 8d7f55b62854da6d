"""The lite pull consumer against a scripted cluster."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from mqclient import (
    BrokerError,
    ClientTimeout,
    ClosedError,
    Connection,
    LitePull,
    LitePullLimits,
    NoRouteError,
    UnreachableError,
)
from mqclient.aio import LitePullConsumer, SqlFilter
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.frame import decode
from tests.client.cluster import BROKER, NAME, NAMESRV, Cluster
from tests.common.wire.golden import FOLDER, frames
from tests.waiting import until_async

Q0, Q1 = (MessageQueue("T", NAME, i) for i in range(2))


def make(cluster, group="g", **options):
    options = {"consume_from": "earliest", **options}
    return LitePullConsumer(group, NAMESRV, transport=cluster.transport, **options)


@asynccontextmanager
async def subscribed(cluster, expression="*", **options):
    async with make(cluster, **options) as consumer:
        consumer.subscribe("T", expression)
        await consumer.wait_assigned(60)
        yield consumer


@asynccontextmanager
async def assigned(cluster, *queues, expression="*", **options):
    async with make(cluster, **options) as consumer:
        consumer.assign(queues or [Q0], expression)
        await consumer.wait_assigned(60)
        yield consumer


async def bodies(consumer, count):
    async with asyncio.timeout(60):
        return [(await anext(consumer)).body for _ in range(count)]


async def test_a_subscriber_iterates_and_commits_what_it_asked_past():
    cluster = Cluster(T=2)
    cluster.put("T", b"1", b"2", b"3")
    cluster.put("T", b"4", queue_id=1)
    seen = []
    async with subscribed(cluster) as consumer:
        assert consumer.assignment() == [Q0, Q1]
        async for message in consumer:
            seen.append(message.body)
            if len(seen) == 4:
                cluster.put("T", b"5")
            if len(seen) == 5:
                break
    assert sorted(seen) == [b"1", b"2", b"3", b"4", b"5"]
    assert cluster.committed == {Q0: 3, Q1: 1}, "all but the one in hand"
    (farewell,) = cluster.requests(RequestCode.UNREGISTER_CLIENT)
    assert farewell.fields["consumerGroup"] == "g"


@pytest.mark.parametrize("way", ["exception", "cancellation"])
async def test_the_message_in_hand_is_not_committed(way):
    cluster = Cluster(T=1)
    cluster.put("T", b"1", b"2", b"3")
    in_hand = asyncio.Event()

    async def work():
        async with subscribed(cluster) as consumer:
            async for message in consumer:
                if message.body == b"2":
                    assert await consumer.position(Q0) == 1
                    in_hand.set()
                    if way == "exception":
                        raise RuntimeError("cannot handle this")
                    await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await in_hand.wait()
    if way == "cancellation":
        task.cancel()
    with pytest.raises(RuntimeError if way == "exception" else asyncio.CancelledError):
        await task
    assert cluster.committed == {Q0: 1}
    cluster.members.clear()
    async with subscribed(cluster) as consumer:
        assert await bodies(consumer, 2) == [b"2", b"3"]


async def test_pulls_are_javas():
    """The fields of the first pull of each queue, as DefaultLitePullConsumer 4.9.7 sent them."""
    cluster = Cluster(WireTopic=4)
    async with make(cluster, "wire_lite", pull=LitePull(batch=10)) as consumer:
        consumer.subscribe("WireTopic", "*")
        await consumer.wait_assigned(60)
        await until_async(lambda: len(cluster.requests(RequestCode.PULL_MESSAGE)) >= 4)
        pulls = cluster.requests(RequestCode.PULL_MESSAGE)
    theirs = {}
    for recorded in frames(FOLDER / "lite-pull.jsonl.gz"):
        if recorded.line["from"] != "client":
            continue
        frame = decode(recorded.data)
        if frame.code == RequestCode.PULL_MESSAGE and frame.fields["queueOffset"] == "0":
            theirs[frame.fields["queueId"]] = {**frame.fields, "bname": NAME}
    assert len(theirs) == 4
    for pull in pulls:
        java = theirs[pull.fields["queueId"]]
        java.pop("ReqT", None)  # Java's request type, for its own statistics
        assert pull.fields == java


async def test_heartbeat_tells_that_it_pulls():
    cluster = Cluster(T=1)
    async with subscribed(cluster, "TagA || TagB"):
        (data,) = cluster.heartbeats[-1].consumer_data_set
    assert data.consume_type == "CONSUME_ACTIVELY"
    assert data.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert [item.sub_string for item in data.subscription_data_set] == ["TagA || TagB"]


async def test_without_a_group_nothing_is_joined_or_committed():
    cluster = Cluster(T=1)
    cluster.put("T", b"1", b"2")
    async with assigned(cluster, group=None) as consumer:
        assert await bodies(consumer, 2) == [b"1", b"2"]
        assert await consumer.position(Q0) == 1
        for refused in (consumer.commit(), consumer.committed(Q0)):
            with pytest.raises(ValueError, match=r"no group.*make it with a group"):
                await refused
        with pytest.raises(ValueError, match=r"without a group.*consumer\.assign"):
            consumer.subscribe("T")
    assert not cluster.heartbeats
    assert not cluster.committed
    assert not cluster.requests(RequestCode.UNREGISTER_CLIENT)


async def test_an_assigned_consumer_starts_at_its_offset_alone():
    cluster = Cluster(T=2)
    cluster.members = ["192.0.2.1@0", "192.0.2.2@0"]
    cluster.put("T", b"0", b"1", b"2")
    cluster.committed[Q0] = 2
    async with assigned(cluster, Q0, Q1) as consumer:
        assert consumer.assignment() == [Q0, Q1]
        assert await bodies(consumer, 1) == [b"2"]


async def test_a_new_assignment_keeps_positions_of_queues_that_stay():
    cluster = Cluster(T=2)
    cluster.put("T", b"a0", b"a1", b"a2")
    cluster.put("T", b"b0", queue_id=1)
    async with assigned(cluster, Q0) as consumer:
        assert await bodies(consumer, 2) == [b"a0", b"a1"]
        consumer.assign([Q0, Q1])
        assert await consumer.wait_assigned(60) == [Q0, Q1]
        assert sorted(await bodies(consumer, 2)) == [b"a2", b"b0"]
        consumer.assign([Q1])
        await until_async(lambda: consumer.assignment() == [Q1])
    assert cluster.committed[Q0] >= 2


async def test_poll_returns_held_messages_and_moves_positions_later():
    cluster = Cluster(T=2)
    async with assigned(cluster, Q0, Q1) as consumer:
        assert await consumer.poll(10, timeout=0.01) == []
        cluster.put("T", b"0", b"1", b"2")
        first = await consumer.poll(2, timeout=60)
        assert [message.body for message in first] == [b"0", b"1"]
        assert await consumer.position(Q0) == 0
        assert [message.body for message in await consumer.poll(2, timeout=60)] == [b"2"]
        assert await consumer.position(Q0) == 2
        cluster.put("T", b"b", queue_id=1)
        assert [message.body for message in await consumer.poll(2, timeout=60)] == [b"b"]
        assert await consumer.position(Q0) == 3
        assert await consumer.position(Q1) == 0
    assert cluster.committed == {Q0: 3, Q1: 0}


async def test_poll_takes_several_queues_and_several_pulls():
    cluster = Cluster(T=2)
    cluster.put("T", *(b"a%d" % i for i in range(5)))
    cluster.put("T", *(b"b%d" % i for i in range(5)), queue_id=1)
    async with assigned(cluster, Q0, Q1, pull=LitePull(batch=2)) as consumer:
        taken = []
        while len(taken) < 10:
            taken += [message.body for message in await consumer.poll(4, timeout=60)]
        for letter in (b"a", b"b"):
            mine = [body for body in taken if body.startswith(letter)]
            assert mine == sorted(mine), "a queue's order is kept"
        assert await consumer.poll(1, timeout=0) == []
        assert await consumer.position(Q0) == await consumer.position(Q1) == 5


async def test_polling_and_iterating_mix():
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % i for i in range(9)))
    async with assigned(cluster, pull=LitePull(batch=4)) as consumer:
        seen = await bodies(consumer, 2)
        seen += [message.body for message in await consumer.poll(3, timeout=60)]
        assert await consumer.position(Q0) == 2
        seen += await bodies(consumer, 1)
        assert await consumer.position(Q0) == len(seen) - 1
        while len(seen) < 9:
            seen += await bodies(consumer, 1)
    assert seen == [b"%d" % i for i in range(9)]
    assert cluster.committed == {Q0: 8}


async def test_auto_commit_while_running():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2")
    async with subscribed(cluster, commit_interval=0.01) as consumer:
        await bodies(consumer, 3)
        await until_async(lambda: cluster.committed.get(Q0) == 2)
        sent = len(cluster.requests(RequestCode.UPDATE_CONSUMER_OFFSET))
        consumer.pause()
        assert await consumer.poll(1, timeout=0.05) == []
        await until_async(lambda: cluster.committed[Q0] == 3)
    assert len(cluster.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == sent + 1


async def test_commits_by_hand():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2", b"3")
    async with subscribed(cluster, commit_interval=None) as consumer:
        await bodies(consumer, 2)
        await consumer.commit()
        assert cluster.committed == {Q0: 2}
        (message,) = await consumer.poll(1, timeout=60)
        await consumer.commit(message)
        assert await consumer.committed(Q0) == 3 == await consumer.position(Q0)
        await consumer.commit({Q0: 0})
        assert cluster.committed == {Q0: 0}
        await consumer.commit(await consumer.poll(1, timeout=60))
        assert cluster.committed == {Q0: 4}
        await bodies_none(consumer)
    assert cluster.committed == {Q0: 4}, "close commits nothing without auto_commit"


async def test_a_commit_includes_the_last_poll_and_no_more():
    cluster = Cluster(T=2)
    cluster.put("T", b"0", b"1", b"2")
    cluster.put("T", b"x", b"y", queue_id=1)
    async with assigned(cluster, Q0, Q1) as consumer:
        consumer.pause([Q1])
        assert len(await consumer.poll(2, timeout=60)) == 2
        await consumer.commit()
        assert cluster.committed == {Q0: 2, Q1: 0}
        assert await consumer.position(Q0) == 2
        assert await bodies(consumer, 1) == [b"2"]
    assert cluster.committed == {Q0: 2, Q1: 0}, "close does not set it back"


async def test_a_commit_at_the_close_leaves_what_was_not_polled():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2")
    async with subscribed(cluster, commit_interval=None) as consumer:

        async def commit(_queues):
            await consumer.commit()

        consumer.on_rebalance(revoked=commit)
        await bodies(consumer, 1)
    assert cluster.committed == {Q0: 1}


async def bodies_none(consumer):
    assert await consumer.poll(1, timeout=0.01) == []


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({Q0: -1}, "offset of .* must be at least 0, not -1"),
        ({Q0: "1"}, "an offset must be int, not str"),
        ({"T": 1}, "a queue must be a MessageQueue, not str"),
        (["x"], "commit takes received messages, not str"),
    ],
)
async def test_bad_commits(what, words):
    async with assigned(Cluster(T=1)) as consumer:
        with pytest.raises((TypeError, ValueError), match=words):
            await consumer.commit(what)


async def test_a_refused_commit_raises():
    cluster = Cluster(T=1)
    refusal = Frame(16, remark="no")
    cluster.transport.scripts[int(RequestCode.UPDATE_CONSUMER_OFFSET)] = lambda _a, _r: refusal
    async with assigned(cluster) as consumer:
        with pytest.raises(BrokerError, match="NO_PERMISSION"):
            await consumer.commit()


async def test_seek_forgets_what_was_held():
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % i for i in range(6)))
    cluster.transport.scripts[29] = lambda _a, _r: cluster.offset(4)
    async with assigned(cluster) as consumer:
        assert await bodies(consumer, 4) == [b"0", b"1", b"2", b"3"]
        await consumer.seek(Q0, 1)
        assert await consumer.position(Q0) == 1
        assert await bodies(consumer, 2) == [b"1", b"2"]
        await consumer.seek_to_begin(Q0)
        assert await bodies(consumer, 1) == [b"0"]
        await consumer.seek_to_end(Q0)
        cluster.put("T", b"new")
        assert await bodies(consumer, 1) == [b"new"]
        with pytest.raises(ValueError, match="no offset 8: it holds 0 to 7; seek there"):
            await consumer.seek(Q0, 8)
        with pytest.raises(TypeError, match="offset or a datetime, not str"):
            await consumer.seek(Q0, "begin")
        with pytest.raises(ValueError, match=r"queueId=1\] is not assigned.*queueId=0.*assign it"):
            await consumer.seek(Q1, 0)
        assert await consumer.position(Q0) == 6
        await consumer.commit()
    assert cluster.committed == {Q0: 7}


async def test_seek_waits_for_an_assignment_just_made():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2")
    async with make(cluster, None) as consumer:
        consumer.assign([Q0])
        await consumer.seek(Q0, 2)
        assert await bodies(consumer, 1) == [b"2"]


async def test_a_paused_queue_is_kept_from_the_caller_and_not_pulled():
    cluster = Cluster(T=2)
    cluster.put("T", *(b"a%d" % i for i in range(6)))
    async with assigned(cluster, Q0, Q1, pull=LitePull(batch=4)) as consumer:
        assert await bodies(consumer, 2) == [b"a0", b"a1"]
        consumer.pause([Q0])
        cluster.put("T", b"b0", queue_id=1)
        assert await bodies(consumer, 1) == [b"b0"]
        assert await consumer.position(Q0) == 2, "asking for the next one moved it"
        assert await consumer.poll(9, timeout=0.02) == []
        consumer.resume([Q0])
        assert await bodies(consumer, 4) == [b"a2", b"a3", b"a4", b"a5"]
        with pytest.raises(ValueError, match="not assigned"):
            consumer.pause([MessageQueue("T", NAME, 7)])
        consumer.pause()
        pulls = len(cluster.requests(RequestCode.PULL_MESSAGE))
        cluster.put("T", b"a6")
        await consumer.poll(1, timeout=0.05)
        assert len(cluster.requests(RequestCode.PULL_MESSAGE)) <= pulls, "the held one ends"


@pytest.mark.parametrize(
    "limit", [{"queue_messages": 4}, {"queue_bytes": 400}, {"total_messages": 4}]
)
async def test_pulling_ahead_is_bounded(limit):
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % i for i in range(60)))
    async with assigned(
        cluster, pull=LitePull(batch=2), limits=LitePullLimits(**limit)
    ) as consumer:
        await bodies(consumer, 1)
        await until_async(lambda: len(cluster.requests(RequestCode.PULL_MESSAGE)) >= 3)
        await consumer.position(Q0)
        assert len(cluster.requests(RequestCode.PULL_MESSAGE)) <= 4
        assert await bodies(consumer, 59) == [b"%d" % i for i in range(1, 60)]


async def test_bytes_of_all_queues_are_bounded():
    cluster = Cluster(T=4)
    for queue_id in range(4):
        cluster.put("T", *(bytes(1000) for _ in range(20)), queue_id=queue_id)
    queues = [MessageQueue("T", NAME, i) for i in range(4)]
    async with assigned(
        cluster, *queues, pull=LitePull(batch=1), limits=LitePullLimits(total_bytes=3000)
    ) as consumer:
        await bodies(consumer, 1)
        assert len(cluster.requests(RequestCode.PULL_MESSAGE)) <= 8
        assert len(await bodies(consumer, 79)) == 79


async def test_members_share_and_the_listener_hears_of_it():
    cluster = Cluster(T=2)
    cluster.put("T", b"a0", b"a1")
    cluster.put("T", b"b0", queue_id=1)
    heard = []

    async def revoked(queues):
        heard.append(("revoked", {queue: await consumer.position(queue) for queue in queues}))

    async with make(cluster) as consumer:
        consumer.on_rebalance(
            assigned=lambda queues: heard.append(("assigned", queues)), revoked=revoked
        )
        consumer.subscribe("T")
        await consumer.wait_assigned(60)
        assert sorted(await bodies(consumer, 3)) == [b"a0", b"a1", b"b0"]
        cluster.members.append("0.0.0.0@first")
        await cluster.transport.push(BROKER, Frame(40, {"consumerGroup": "g"}, flag=2))
        await until_async(lambda: len(heard) == 2)
        await until_async(lambda: Q0 in cluster.committed)
        await until_async(lambda: consumer.assignment() == [Q1])
        with pytest.raises(ValueError, match="is not assigned"):
            await consumer.position(Q0)
    assert heard[:2] == [("assigned", [Q0, Q1]), ("revoked", {Q0: cluster.committed[Q0]})]
    assert heard[2:] == [("revoked", {Q1: cluster.committed[Q1]})], "at the close"


async def test_messages_of_a_lost_queue_are_left_to_their_new_owner():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2")
    async with assigned(cluster) as consumer:
        message = await anext(consumer)
        consumer.assign([Q1])
        await until_async(lambda: Q0 not in consumer.assignment())
        await consumer.commit(message)
        assert cluster.committed == {Q0: 0}
        assert await consumer.poll(1, timeout=0.01) == []


async def test_subscribe_and_assign_exclude_each_other():
    async with subscribed(Cluster(T=1)) as consumer:
        with pytest.raises(ValueError, match="subscribes to T, and assign excludes subscribe"):
            consumer.assign([Q0])
    async with assigned(Cluster(T=1)) as consumer:
        with pytest.raises(ValueError, match="reads assigned queues, and subscribe excludes"):
            consumer.subscribe("T")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.subscribe(" "), "topic must not be blank"),
        (lambda c: c.subscribe(5), "topic must be str, not int"),
        (lambda c: c.subscribe("T", "||"), "names no tag"),
        (lambda c: c.subscribe("T", 5), "expression must be str, not int"),
        (lambda c: c.subscribe("T", SqlFilter(" ")), "the filter is empty"),
        (lambda c: c.assign(["T"]), "a queue must be a MessageQueue, not str"),
        (lambda c: c.assign([Q0], "||"), "names no tag"),
    ],
)
def test_bad_arguments_before_the_start(call, words):
    consumer = make(Cluster(T=1))
    with pytest.raises((TypeError, ValueError), match=words):
        call(consumer)
    consumer.subscribe("T")  # the refused call changed nothing


@pytest.mark.parametrize(("count", "words"), [(0, "must be 1 to"), ("1", "must be int")])
async def test_bad_polls(count, words):
    async with assigned(Cluster(T=1)) as consumer:
        with pytest.raises((TypeError, ValueError), match=words):
            await consumer.poll(count)


async def test_tags_are_filtered_again_and_positions_pass_the_others():
    cluster = Cluster(T=1)
    cluster.put("T", b"no", TAGS="Other")
    cluster.put("T", b"yes", TAGS="TagB")
    cluster.put("T", b"no", TAGS="Other")
    async with subscribed(cluster, "TagA||TagB") as consumer:
        assert await bodies(consumer, 1) == [b"yes"]
        assert await consumer.poll(1, timeout=0.01) == []
        assert await consumer.position(Q0) == 3


async def test_before_the_start_and_after_the_close():
    consumer = make(Cluster(T=1))
    consumer.subscribe("T")
    with pytest.raises(ClosedError, match=r"not started; call start\(\)"):
        async for _ in consumer:
            pass
    async with consumer:
        pass
    await consumer.close()
    for call in (consumer.poll(1), consumer.seek(Q0, 0), consumer.position(Q0), consumer.commit()):
        with pytest.raises(ClosedError, match="closed; make a new one"):
            await call
    with pytest.raises(ClosedError, match="closed; make a new one"):
        async for _ in consumer:
            pass


async def test_close_ends_a_loop_that_waits():
    async with subscribed(Cluster(T=1)) as consumer:

        async def read():
            return [message async for message in consumer]

        reading = asyncio.create_task(read())
        await until_async(lambda: consumer._buffer._asking)
        with pytest.raises(RuntimeError, match="another task or thread asks this consumer"):
            await consumer.poll(1)
        await consumer.close()
        assert await reading == []


async def test_a_refusal_reaches_the_caller_who_may_go_on(monkeypatch):
    monkeypatch.setattr("mqclient.consumer.lite.puller.ERROR_DELAY", 0.01)
    cluster = Cluster(T=1)
    cluster.put("T", b"0")
    cluster.pull_code = 16
    async with assigned(cluster) as consumer:
        with pytest.raises(BrokerError, match=r"NO_PERMISSION.*check the topic's perm"):
            await anext(consumer)
        cluster.pull_code = None
        async with asyncio.timeout(60):
            while not (taken := await _or_refused(consumer)):
                pass
    assert taken[0].body == b"0"


async def _or_refused(consumer):
    try:
        return await consumer.poll(1, timeout=1)
    except BrokerError:
        return []


async def test_a_busy_broker_is_asked_again(monkeypatch):
    monkeypatch.setattr("mqclient.consumer.lite.puller.ERROR_DELAY", 0.01)
    cluster = Cluster(T=1)
    cluster.put("T", b"0")
    cluster.pull_code = 2
    async with assigned(cluster) as consumer:
        await until_async(lambda: len(cluster.requests(RequestCode.PULL_MESSAGE)) >= 2)
        cluster.pull_code = None
        assert await bodies(consumer, 1) == [b"0"]


async def test_an_offset_that_is_gone_is_passed(caplog):
    cluster = Cluster(T=1)
    cluster.committed[Q0] = 9
    cluster.put("T", b"0")
    async with assigned(cluster) as consumer:
        await until_async(lambda: "offset 9 does not exist" in caplog.text)
        cluster.put("T", b"1")
        assert await bodies(consumer, 1) == [b"1"]


async def test_a_topic_or_queue_that_does_not_exist():
    cluster = Cluster(Other=1)
    async with make(cluster) as consumer:
        with pytest.raises(NoRouteError, match=r"no route for topic 'T'.*mqadmin updateTopic"):
            await consumer.queues("T")
        consumer.assign([Q0])
        with pytest.raises(ClientTimeout, match=r"no queue of T was assigned within 0\.05 s"):
            await consumer.wait_assigned(0.05)
        with pytest.raises(UnreachableError, match=f"no broker '{NAME}' is known"):
            await consumer.committed(Q0)
    async with make(cluster, connection=Connection(request_timeout=0.05)) as consumer:
        consumer.assign([Q0])
        with pytest.raises(ClientTimeout, match=r"where to start is not known after 0\.05 s"):
            await consumer.position(Q0)
