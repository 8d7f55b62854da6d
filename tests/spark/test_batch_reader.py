"""Which rows a read gives, against a scripted broker: each matching message once."""

from itertools import pairwise

import pytest

pytest.importorskip("pyspark")
from hypothesis import given, settings
from hypothesis import strategies as st

from mqclient.spark.batch import BatchReader
from mqclient.spark.cluster import DataLossError
from mqclient.spark.options import Options
from mqclient.spark.plan import QueueRange
from mqclient.spark.task import Task, read_task
from mqclient.wire import Frame
from mqclient.wire.codes import RequestCode, ResponseCode
from mqstore.arrow import arrow_schema
from mqstore.message import MessageQueue, decode_messages
from tests.spark.scripted import RECORD, Broker, record, use

TAG = decode_messages(RECORD)[0].tags
QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in (0, 1)]


class FilteringBroker(Broker):
    """Gives up to as many matches as asked for, from a scan of `scan` offsets at most."""

    def __init__(self, end, matches, scan):
        super().__init__(0, end)
        self.matches, self.scan = matches, scan

    def pull(self, address, request):
        offset, count = (int(request.fields[name]) for name in ("queueOffset", "maxMsgNums"))
        if offset >= self.end:
            return self.answer(ResponseCode.PULL_NOT_FOUND, offset)
        found = []
        stop = min(offset + self.scan, self.end)
        for at in range(offset, stop):
            if self.matches(at):
                found.append(at)
            if len(found) == count:
                stop = at + 1
                break
        if not found:
            return self.answer(ResponseCode.PULL_RETRY_IMMEDIATELY, stop)
        return self.answer(0, stop, b"".join(map(record, found)))


def options(**given):
    return Options.parse({"nameserver": "ns:9876", "topic": "T", **given})


def offsets(ranges, parsed):
    schema = arrow_schema(["queue_offset"])
    batches = read_task(Task(tuple(ranges)), schema, parsed)
    return [at for batch in batches for at in batch.column("queue_offset").to_pylist()]


@settings(max_examples=60, deadline=None)
@given(
    end=st.integers(0, 400),
    cuts=st.lists(st.lists(st.integers(0, 400), max_size=6), min_size=2, max_size=2),
    every=st.integers(1, 90),
    scan=st.integers(1, 300),
)
def test_any_split_gives_each_match_once(end, cuts, every, scan):
    broker = FilteringBroker(end, lambda at: at % every == 0, scan)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, broker)
        for queue, inner in zip(QUEUES, cuts, strict=True):
            edges = [0, *sorted(min(cut, end) for cut in inner), end]
            pieces = [QueueRange(queue, a, b) for a, b in pairwise(edges) if a < b]
            read = [at for piece in pieces for at in offsets([piece], options(tag=TAG))]
            assert read == list(range(0, end, every))


@pytest.mark.parametrize("at", [5, 201])
def test_a_start_that_cannot_be_read_is_an_error(monkeypatch, caplog, at):
    use(monkeypatch, Broker(100, 200))
    start = f'{{"broker-a|T|1": {at}}}'
    schema = arrow_schema(["body"])
    with pytest.raises(DataLossError, match=f"topic T, .*queue 1: offset {at} .*100 to 200"):
        BatchReader(schema, options(startingOffsets=start)).partitions()
    lenient = options(startingOffsets=start, failOnDataLoss="false")
    tasks = BatchReader(schema, lenient).partitions()
    assert sum(piece.rows for task in tasks for piece in task.ranges) == (200 if at == 5 else 100)
    assert f"offset {at} cannot be read" in caplog.text


def stamped(offset):
    """Ten messages a millisecond: offset 40 is the first of time 1004."""
    plain = record(offset)
    return plain[:56] + (1000 + offset // 10).to_bytes(8, "big") + plain[64:]


class TimedBroker(Broker):
    """Searches as RocketMQ does: any one of equal times, else the nearest message."""

    def search(self, address, request):
        wanted = int(request.fields["timestamp"])
        low, high, left = self.first, self.end - 1, -1
        while low <= high:
            middle = (low + high) // 2
            time = 1000 + middle // 10
            if time == wanted:
                return Frame(0, {"offset": str(middle)})
            low, high = (middle + 1, high) if time < wanted else (low, middle - 1)
            left = middle if time < wanted else left
        return Frame(0, {"offset": str(self.first if left < 0 else left)})

    def pull(self, address, request):
        reply = super().pull(address, request)
        if reply.code != ResponseCode.SUCCESS:
            return reply
        messages = decode_messages(reply.body)
        body = b"".join(stamped(message.queue_offset) for message in messages)
        return self.answer(0, messages[-1].queue_offset + 1, body)


@pytest.mark.parametrize(
    ("time", "first"), [(0, 20), (1002, 20), (1004, 40), (1009, 90), (1010, 95), (9999, 95)]
)
def test_a_starting_time_gives_all_messages_from_it_on(monkeypatch, time, first):
    broker = TimedBroker(20, 95)
    use(monkeypatch, broker, {RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: broker.search})
    parsed = options(startingTimestamp=str(time), queues="0")
    tasks = BatchReader(arrow_schema(["body"]), parsed).partitions()
    assert [piece.first for task in tasks for piece in task.ranges] == (
        [first] if first < 95 else []
    )
    assert offsets([p for task in tasks for p in task.ranges], parsed) == list(range(first, 95))
