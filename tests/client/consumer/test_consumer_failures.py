"""A push consumer copes with failing handlers, brokers and messages."""

import asyncio
import logging

import pytest

from mqclient import RocketMQError, UnreachableError
from mqclient.aio import ConsumeResult, PushConsumer
from mqclient.consumer.push import concurrent as concurrent_module
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import NAME, NAMESRV, Cluster, record
from tests.client.reading import Q0, RETRY, Seen, reading
from tests.waiting import until_async


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (RuntimeError("boo"), "RuntimeError('boo')"),
        ("yes", "returned 'yes'"),
        (ConsumeResult.RECONSUME_LATER, None),
    ],
)
async def test_failures_are_given_back_and_logged_once(caplog, outcome, line):
    cluster = Cluster(T=1)
    cluster.put("T", b"x", UNIQ_KEY="ID1")

    async def fail(_messages, context):
        context.delay_level = 3
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with reading(cluster, fail, consume_from="earliest"):
        await until_async(lambda: cluster.given_back)
    (fields,) = cluster.given_back
    assert fields["group"] == "g"
    assert fields["delayLevel"] == "3"
    assert fields["originMsgId"] == "ID1"
    assert fields["originTopic"] == "T"
    assert "maxReconsumeTimes" not in fields, "the group's retryMaxTimes counts"
    assert cluster.committed[Q0] == 1
    lines = [r for r in caplog.records if "ID1" in r.getMessage()]
    assert len(lines) == (1 if line else 0)
    if line:
        assert line in lines[0].getMessage()


@pytest.mark.parametrize(
    ("times", "delay_level", "max_retries", "fate"),
    [
        (15, 3, 16, "it will be delivered again"),
        (16, 3, 16, "it goes to the dead-letter queue %DLQ%g"),
        (16, 3, None, "it will be delivered again, up to the group's retryMaxTimes"),
        (0, -1, None, "it goes to the dead-letter queue %DLQ%g"),
    ],
)
async def test_the_log_says_what_becomes_of_a_message_that_failed(
    caplog, times, delay_level, max_retries, fate
):
    cluster = Cluster(T=1)
    cluster.put("T", b"x", UNIQ_KEY="ID1", reconsume_times=str(times))

    async def fail(_messages, context):
        context.delay_level = delay_level
        raise RuntimeError("boo")

    async with reading(cluster, fail, consume_from="earliest", max_retries=max_retries):
        await until_async(lambda: cluster.given_back)
    (line,) = [r.getMessage() for r in caplog.records if "ID1" in r.getMessage()]
    assert line.endswith(f"for message ID1; {fate}")


async def test_messages_after_ack_index_are_given_back():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2")

    def handle(messages, context):
        context.ack_index = 0

    async with reading(cluster, handle, consume_from="earliest", batch_size=3):
        await until_async(lambda: len(cluster.given_back) == 2)
    assert [fields["offset"] for fields in cluster.given_back] == ["1000", "2000"]


async def test_if_send_back_fails_a_copy_goes_to_the_retry_topic():
    cluster = Cluster(**{"T": 1, RETRY: 1})
    cluster.put("T", b"x", TAGS="A", UNIQ_KEY="ID1", reconsume_times="2")
    cluster.transport.scripts[36] = lambda _a, _r: Frame(1, remark="no")

    async def fail(messages, _context):
        if messages[0].reconsume_times == 2:
            raise RuntimeError

    async with reading(cluster, fail, consume_from="earliest"):
        await until_async(lambda: cluster.requests(RequestCode.SEND_MESSAGE_V2))
    (copy,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert copy.fields["b"] == RETRY
    assert copy.fields["j"] == "3"
    assert "l" not in copy.fields, "the group's retryMaxTimes count"
    properties = dict(pair.split("\x01") for pair in copy.fields["i"].split("\x02"))
    assert properties["RETRY_TOPIC"] == "T"
    assert properties["DELAY"] == "5"
    assert properties["UNIQ_KEY"] == "ID1"


async def test_what_no_broker_takes_is_handled_here_again(monkeypatch):
    monkeypatch.setattr(concurrent_module, "REDELIVER_HERE_DELAY", 0.01)
    cluster = Cluster(T=1)
    cluster.put("T", b"x")
    cluster.transport.scripts[36] = lambda _a, _r: Frame(1, remark="no")
    tries = []

    async def handle(messages, _context):
        tries.append(messages)
        if len(tries) == 1:
            raise RuntimeError

    async with reading(cluster, handle, consume_from="earliest"):
        await until_async(lambda: len(tries) == 2)
    assert cluster.committed[Q0] == 1


async def test_retried_messages_reach_the_handler_of_their_topic():
    cluster = Cluster(**{"T": 1, RETRY: 1})
    cluster.put(RETRY, b"again", RETRY_TOPIC="T", UNIQ_KEY="ID1")
    topics = []

    async def handle(messages, _context):
        topics.append(messages[0].topic)

    async with reading(cluster, handle, consume_from="earliest"):
        await until_async(lambda: topics)
    assert topics == ["T"]
    assert cluster.committed[MessageQueue(RETRY, NAME, 0)] == 1


async def test_a_moved_offset_is_followed(caplog):
    cluster = Cluster(T=1)
    cluster.put("T", b"0")
    cluster.committed[Q0] = 99
    seen = Seen()
    async with reading(cluster, seen):
        await until_async(lambda: "continuing at 1" in caplog.text)
        cluster.put("T", b"1")
        assert await seen.until(1) == [b"1"]
    assert cluster.committed[Q0] == 2


async def test_a_pull_error_is_logged_once_and_resubscribes_when_told(caplog, monkeypatch):
    monkeypatch.setattr("mqclient.consumer.pull.ERROR_DELAY", 0.01)
    cluster = Cluster(T=1)
    cluster.pull_code = 24
    async with reading(cluster, Seen()):
        await until_async(lambda: len(cluster.requests(RequestCode.PULL_MESSAGE)) > 5)
        await until_async(lambda: len(cluster.heartbeats) > 2)
    lines = [r for r in caplog.records if "pulling" in r.getMessage()]
    assert len([r for r in lines if r.levelno == logging.WARNING]) == 1


async def test_no_nameserver_is_an_error_at_the_start():
    cluster = Cluster()
    cluster.transport.scripts[105] = lambda address, _r: UnreachableError("refused", address)
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport)
    consumer.subscribe("T", "*", Seen())
    with pytest.raises(UnreachableError, match="no NameServer answers"):
        await consumer.start()


async def test_run_raises_when_the_consumer_can_no_longer_work(monkeypatch):
    cluster = Cluster(T=1)
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport)
    consumer.subscribe("T", "*", Seen())

    async def broken():
        raise KeyError("bug")

    monkeypatch.setattr(consumer._assignment, "rebalance", broken)
    with pytest.raises(RocketMQError, match="can no longer work: KeyError"):
        await consumer.run()


async def test_a_handler_that_is_cancelled_counts_as_failed():
    cluster = Cluster(T=1)
    cluster.put("T", b"1", b"2")

    async def handle(messages, _context):
        if messages[0].body == b"1":
            raise asyncio.CancelledError

    async with reading(cluster, handle, consume_from="earliest", threads=1):
        await until_async(lambda: cluster.given_back)
    assert cluster.committed[Q0] == 2


async def test_undecodable_messages_are_pulled_once_more_and_skipped(caplog):
    cluster = Cluster(T=1)
    cluster.stored[Q0] = [b"\0\0\0\7garbage", record(0, 1, "T", b"good", {})]
    seen = Seen()
    async with reading(cluster, seen, consume_from="earliest"):
        assert await seen.until(1) == [b"good"]
    pulls = [frame.fields for frame in cluster.requests(RequestCode.PULL_MESSAGE)]
    asked = [(pull["queueOffset"], pull["maxMsgNums"]) for pull in pulls]
    assert asked[:3] == [("0", "32"), ("0", "1"), ("1", "32")]
    assert cluster.committed[Q0] == 2
    assert not cluster.given_back
    lines = [r for r in caplog.records if "a damaged message" in r.getMessage()]
    assert [line.levelno for line in lines] == [logging.WARNING, logging.ERROR]


async def test_a_stuck_handler_does_not_keep_back_the_queue_for_ever():
    cluster = Cluster(T=1)
    cluster.put("T", b"stuck", b"fine")
    release = asyncio.Event()

    async def handle(messages, _context):
        if messages[0].body == b"stuck":
            await release.wait()

    options = {"consume_timeout": 0.02, "commit_interval": 0.01}
    async with reading(cluster, handle, consume_from="earliest", **options):
        await until_async(lambda: cluster.given_back)
        await until_async(lambda: cluster.committed.get(Q0) == 2)
        release.set()
    assert [fields["delayLevel"] for fields in cluster.given_back] == ["3"]
    assert cluster.committed[Q0] == 2


@pytest.mark.parametrize("batch_size", [1, 2])
async def test_a_handler_that_fails_after_its_timeout_makes_one_copy(batch_size):
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1")
    release = asyncio.Event()

    async def fail(_messages, _context):
        await release.wait()
        raise RuntimeError

    options = {"consume_timeout": 0.02, "commit_interval": 0.01, "batch_size": batch_size}
    async with reading(cluster, fail, consume_from="earliest", **options):
        await until_async(lambda: cluster.committed.get(Q0) == 2)
        release.set()
    assert sorted(fields["offset"] for fields in cluster.given_back) == ["0", "1000"]


@pytest.mark.parametrize("first", ["timeout", "failure"])
async def test_a_copy_on_its_way_is_not_sent_twice(first):
    cluster = Cluster(T=1)
    cluster.put("T", b"0")
    fail, taken = asyncio.Event(), asyncio.Event()

    async def send_back(_address, request):
        cluster.given_back.append(request.fields)
        await taken.wait()
        return Frame(0)

    cluster.transport.scripts[int(RequestCode.CONSUMER_SEND_MSG_BACK)] = send_back

    async def handle(_messages, _context):
        if first == "timeout":
            await fail.wait()
        raise RuntimeError

    options = {"consume_timeout": 0.02, "commit_interval": 0.01}
    async with reading(cluster, handle, consume_from="earliest", **options) as consumer:
        await until_async(lambda: cluster.given_back)
        fail.set()
        sweeps = consumer._give_back_stuck
        for _ in range(3):
            await asyncio.sleep(0.03)
            await asyncio.wait([asyncio.create_task(sweeps())], timeout=0.01)
        assert Q0 not in cluster.committed or cluster.committed[Q0] == 0
        taken.set()
        await until_async(lambda: cluster.committed.get(Q0) == 1)
    assert len(cluster.given_back) == 1
