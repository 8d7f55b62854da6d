"""The push consumer against a scripted cluster."""

import asyncio
import logging

import pytest

from mqclient import ClientTimeout, Connection
from mqclient.aio import PushConsumer
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from mqcommon.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from tests.client.cluster import BROKER, NAME, NAMESRV, Cluster, record
from tests.client.reading import Q0, RETRY, Seen, reading
from tests.waiting import until_async


async def test_messages_are_consumed_and_committed_at_close():
    cluster = Cluster(T=2)
    cluster.put("T", b"1", b"2", b"3")
    cluster.put("T", b"4", queue_id=1)
    seen = Seen()
    async with reading(cluster, seen, consume_from="earliest") as consumer:
        assert consumer.assignment() == [MessageQueue("T", NAME, i) for i in range(2)]
        assert sorted(await seen.until(4)) == [b"1", b"2", b"3", b"4"]
        cluster.put("T", b"5")
        await seen.until(5)
    assert cluster.committed[Q0] == 4
    assert cluster.committed[MessageQueue("T", NAME, 1)] == 1
    (farewell,) = cluster.requests(RequestCode.UNREGISTER_CLIENT)
    assert farewell.fields["consumerGroup"] == "g"


async def test_at_the_end_of_a_queue_handlers_come_before_the_pull():
    cluster = Cluster(T=1)
    cluster.put("T", b"1")
    asked, handled = [], asyncio.Event()

    async def handle(_messages, _context):
        pulls = cluster.requests(RequestCode.PULL_MESSAGE)
        asked.extend(pull.fields["queueOffset"] for pull in pulls if pull.fields["topic"] == "T")
        handled.set()

    async with reading(cluster, handle, consume_from="earliest"):
        await asyncio.wait_for(handled.wait(), 60)
    assert asked == ["0"]


async def test_heartbeat_tells_the_subscription():
    cluster = Cluster(T=1)
    async with reading(cluster, Seen(), "TagA || TagB"):
        (data,) = cluster.heartbeats[0].consumer_data_set
    assert data.group_name == "g"
    assert data.consume_type == "CONSUME_PASSIVELY"
    assert data.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert {item.topic for item in data.subscription_data_set} == {"T", RETRY}


@pytest.mark.parametrize(
    ("start", "stored", "wanted"),
    [
        ("latest", None, [b"new"]),
        ("earliest", None, [b"0", b"1", b"2", b"new"]),
        ("latest", 1, [b"1", b"2", b"new"]),
        ("earliest", 3, [b"new"]),
    ],
)
async def test_start_of_a_group(start, stored, wanted):
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2")
    if stored is not None:
        cluster.committed[Q0] = stored
    seen = Seen()
    async with reading(cluster, seen, consume_from=start):
        cluster.put("T", b"new")
        assert await seen.until(len(wanted)) == wanted


async def test_a_latest_start_turned_into_zero_by_the_broker_is_logged(caplog):
    cluster = Cluster(T=1)
    cluster.put("T", b"0")
    cluster.committed[Q0] = 0
    seen = Seen()
    with caplog.at_level(logging.INFO, "mqclient"):
        async with reading(cluster, seen):
            await seen.until(1)
    assert "1 old messages may be delivered although consume_from is 'latest'" in caplog.text


async def test_a_committed_zero_is_no_reason_for_a_warning(caplog):
    cluster = Cluster(T=1)
    cluster.put("T", b"0")

    def query(_address, request):
        assert request.fields["setZeroIfNotFound"] == "false"
        return cluster.offset(0) if request.fields["consumerGroup"] == "g" else Frame(22)

    cluster.transport.scripts[int(RequestCode.QUERY_CONSUMER_OFFSET)] = query
    seen = Seen()
    async with reading(cluster, seen):
        await seen.until(1)
    assert "old messages" not in caplog.text


async def test_a_topic_that_appears_later_is_read_from_its_beginning():
    cluster = Cluster(Other=1)
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport)
    seen = Seen()
    consumer.subscribe("T", "*", seen)
    async with consumer:
        with pytest.raises(ClientTimeout, match="no queue of T was assigned"):
            await consumer.wait_assigned(0.05)
        cluster.put("T", b"first")
        cluster.topics["T"] = 1
        assert await seen.until(1) == [b"first"]


async def test_queues_that_are_added_later_begin_at_their_minimum():
    cluster = Cluster(T=1)
    cluster.put("T", b"old")
    seen = Seen()
    async with reading(cluster, seen, connection=Connection(route_poll_interval=0.02)) as consumer:
        cluster.put("T", b"in the new queue", queue_id=1)
        cluster.topics["T"] = 2
        assert await seen.until(1) == [b"in the new queue"]
        assert len(consumer.assignment()) == 2


async def test_tags_are_filtered_again_here():
    cluster = Cluster(T=1)
    cluster.put("T", b"no", TAGS="Other")
    cluster.put("T", b"yes", TAGS="TagB")
    seen = Seen()
    async with reading(cluster, seen, "TagA||TagB", consume_from="earliest"):
        assert await seen.until(1) == [b"yes"]
    assert cluster.committed[Q0] == 2


async def test_members_share_and_a_leaver_is_replaced():
    cluster = Cluster(T=4)
    cluster.members = ["192.0.2.1@0"]
    async with reading(cluster, Seen()) as consumer:
        await until_async(lambda: len(consumer.assignment()) == 2)
        cluster.members.remove("192.0.2.1@0")
        notice = Frame(40, {"consumerGroup": "g"}, flag=2)
        assert await cluster.transport.push(BROKER, notice) is None
        await until_async(lambda: len(consumer.assignment()) == 4)
        cluster.members.append("192.0.2.1@0")
        await cluster.transport.push(BROKER, notice)
        await until_async(lambda: len(consumer.assignment()) == 2)


async def test_a_list_or_a_function_says_which_queues_are_read(caplog):
    cluster = Cluster(**{"T": 4, RETRY: 1})
    queues = [MessageQueue("T", NAME, i) for i in range(4)]
    async with reading(cluster, Seen(), allocate=queues[2:]) as consumer:
        assert consumer.assignment() == queues[2:]
    share, asked = [queues[1]], []

    def choose(client_id, queues, client_ids):
        asked.append((client_id in client_ids, len(queues)))
        return [queue for queue in queues if queue in share] if share else 1 / 0

    async with reading(cluster, Seen(), allocate=choose) as consumer:
        assert consumer.assignment() == [queues[1]]
        assert set(asked) == {(True, 4), (True, 1)}, "the retry topic's queue is shared too"
        share.clear()
        consumer._assignment.rebalance_soon()
        await until_async(lambda: "allocation strategy failed" in caplog.text)
        assert consumer.assignment() == [queues[1]], "it keeps what it has"


async def test_remote_control():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1")
    seen = Seen()
    async with reading(cluster, seen, consume_from="earliest"):
        await seen.until(2)
        push = cluster.transport.push
        status = await push(BROKER, Frame(221, {"topic": "T", "group": "g"}))
        assert GetConsumerStatusBody.from_json(status.body).message_queue_table == {Q0: 2}
        info = await push(BROKER, Frame(307, {"consumerGroup": "g", "clientId": "c"}))
        assert Q0 in ConsumerRunningInfo.from_json(info.body).mq_table
        body = record(0, 7, "T", b"directly", {})
        asked = Frame(309, {"consumerGroup": "g", "brokerName": NAME}, body)
        done = ConsumeMessageDirectlyResult.from_json((await push(BROKER, asked)).body)
        assert done.consume_result == "CR_SUCCESS"
        reset = ResetOffsetBody({Q0: 1}).to_json()
        fields = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
        await push(BROKER, Frame(220, fields, reset, flag=2))
        assert (await seen.until(4))[-1] == b"1"
        unknown = await push(BROKER, Frame(999, {}))
        assert unknown.code == 3


async def test_plain_handlers_run_in_threads_and_close_waits_for_them():
    cluster = Cluster(T=1)
    cluster.put("T", *[str(i).encode() for i in range(50)])
    loop = asyncio.get_running_loop()
    begun = asyncio.Event()
    done = []

    def handle(messages, _context):
        loop.call_soon_threadsafe(begun.set)
        done.extend(message.queue_offset for message in messages)

    async with reading(cluster, handle, consume_from="earliest", threads=3):
        await begun.wait()
        await until_async(lambda: len(done) == 50)
    assert cluster.committed[Q0] == 50


async def test_broadcasting_reads_every_queue_and_commits_nothing():
    cluster = Cluster(T=2)
    cluster.members = ["192.0.2.1@0", "192.0.2.1@1"]
    cluster.put("T", b"x")
    seen = Seen()
    options = {"consume_from": "earliest", "model": "broadcasting"}
    async with reading(cluster, seen, **options) as consumer:
        await seen.until(1)
        assert len(consumer.assignment()) == 2
    assert cluster.committed == {}
