"""The rows that one task reads, against scripted servers on loopback: no Spark session."""

from itertools import pairwise

import pytest

pytest.importorskip("pyspark")
from hypothesis import given, settings
from hypothesis import strategies as st

from mqclient.errors import BrokerError, ClientTimeout, UnreachableError
from mqcommon.message import MessageQueue, decode_messages
from mqcommon.wire import Frame
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqpipeline.spark.topics.cluster import DataLossError
from mqpipeline.spark.topics.plan import QueueRange
from mqpipeline.spark.topics.task import Task, read_task
from mqstore.arrow import arrow_schema
from tests.spark.scripted import QUEUE, RECORD, Broker, Served

TAG = decode_messages(RECORD)[0].tags
QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in (0, 1)]


def batches(served, *pieces, columns=("queue_offset",), **options):
    task = Task(tuple(QueueRange(*piece) for piece in pieces))
    schema = arrow_schema([name for name in columns if name != "broker_name"])
    return read_task(task, schema, served.options(**options))


def offsets(served, *pieces, **options):
    found = batches(served, *pieces, **options)
    return [at for batch in found for at in batch.column("queue_offset").to_pylist()]


def read(broker, first, end, **options):
    with Served(broker) as served:
        return offsets(served, (QUEUE, first, end), **options)


@pytest.mark.parametrize("at_once", [1, 7, 32])
def test_a_range_is_read_whole_and_in_order(at_once):
    with Served(Broker(10, 1000, at_once)) as served:
        assert offsets(served, (QUEUE, 10, 1000)) == list(range(10, 1000))
        assert offsets(served, (QUEUE, 500, 501)) == [500]
        assert offsets(served, (QUEUE, 5, 5)) == []


def test_many_small_ranges_become_one_batch():
    with Served(Broker(0, 600)) as served:
        pieces = [(QUEUE, at, at + 3) for at in range(0, 600, 3)]
        (batch,) = batches(served, *pieces, columns=("queue_offset", "body"))
    assert batch.column("queue_offset").to_pylist() == list(range(600))
    assert {bytes(body) for body in batch.column("body").to_pylist()} == {
        decode_messages(RECORD)[0].body
    }


def test_lost_offsets_are_an_error_unless_allowed(caplog):
    with pytest.raises(DataLossError, match="offset 40 is gone, the broker goes on at 100; set"):
        read(Broker(100, 200), 40, 150)
    lenient = {"failOnDataLoss": "false"}
    assert read(Broker(100, 200), 40, 150, **lenient) == list(range(100, 150))
    (warning,) = caplog.messages
    assert "60 messages were left out, first at offset 40" in warning
    assert read(Broker(100, 200), 190, 300, **lenient) == list(range(190, 200))


class Damaging(Broker):
    """Some of its records come with a flipped bit, each this number of times."""

    def __init__(self, end, at, times=99, byte=100):
        super().__init__(0, end)
        self.left, self.byte = dict.fromkeys(at, times), byte

    def pull(self, address, request):
        reply = super().pull(address, request)
        first = int(request.fields["queueOffset"])
        body = bytearray(reply.body)
        for offset in range(first, first + len(body) // len(RECORD)):
            if self.left.get(offset, 0) > 0:
                self.left[offset] -= 1
                body[(offset - first) * len(RECORD) + self.byte] ^= 1
        reply.body = bytes(body)
        return reply


class Skipping(Broker):
    """Like our broker, it leaves damaged messages out itself."""

    def __init__(self, end, at):
        super().__init__(0, end)
        self.at = at

    def pull(self, address, request):
        reply = super().pull(address, request)
        first = int(request.fields["queueOffset"])
        stop = int(reply.fields["nextBeginOffset"])
        left = [at for at in range(first, stop) if at not in self.at]
        reply.body = self.records(request, left)
        reply.code = reply.code if reply.body else ResponseCode.PULL_RETRY_IMMEDIATELY
        return reply


@pytest.mark.parametrize(
    "broker",
    [
        lambda: Damaging(100, {40, 41, 99}),
        lambda: Damaging(100, {40, 41, 99}, byte=3),  # the size: what follows is not found
        lambda: Skipping(100, {40, 41, 99}),
    ],
    ids=["body", "size", "left out by the broker"],
)
def test_damaged_messages_fail_or_are_skipped_with_one_warning(broker, caplog):
    with pytest.raises(DataLossError, match=r"offset \d+ is damaged or lost"):
        read(broker(), 0, 100)
    whole = [at for at in range(100) if at not in (40, 41, 99)]
    assert read(broker(), 0, 100, failOnDataLoss="false") == whole
    (warning,) = caplog.messages
    assert "3 messages were left out, first at offset" in warning


def test_the_error_names_the_offset_of_the_damaged_message():
    with pytest.raises(DataLossError, match="offset 41 is damaged or lost"):
        read(Damaging(100, {41}), 0, 100)


def test_what_is_whole_the_second_time_is_read(caplog):
    assert read(Damaging(100, {40, 41}, times=1), 0, 100) == list(range(100))
    assert not caplog.messages


def test_a_reader_may_stop_early():
    broker = Broker(0, 1_000_000)
    with Served(broker) as served:
        found = batches(served, (QUEUE, 0, 1_000_000))
        assert next(found).column("queue_offset").to_pylist()[:2] == [0, 1]
        found.close()
    assert broker.pulls < 4000


def test_passing_failures_are_tried_again():
    broker = Broker(0, 10)
    failures = [UnreachableError("gone"), Frame(ResponseCode.SYSTEM_BUSY), ClientTimeout("slow")]
    pull = broker.pull
    broker.pull = lambda *asked: failures.pop() if failures else pull(*asked)
    assert read(broker, 0, 10, timeout="2") == list(range(10))


def test_a_refusal_is_raised_with_its_words_and_place():
    broker = Broker(0, 10)
    broker.pull = lambda *_: Frame(ResponseCode.NO_PERMISSION, remark="not readable")
    with pytest.raises(BrokerError, match=r"NO_PERMISSION \(16\): not readable") as caught:
        read(broker, 0, 10)
    assert (caught.value.code, caught.value.broker) == (16, broker.address)
    place = "T of broker-a, queue 0: the pull at offset 0 from 127.0.0.1:"
    assert any(note.startswith(place) for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        (UnreachableError("gone"), UnreachableError, "the address that NameServer .* advertises"),
        (ClientTimeout("slow"), ClientTimeout, "no reply from"),
        (Frame(ResponseCode.SYSTEM_BUSY, remark="later"), BrokerError, r"SYSTEM_BUSY \(2\): later"),
    ],
)
def test_what_does_not_pass_is_raised_when_the_retries_run_out(fault, kind, text):
    broker = Broker(0, 10)
    broker.pull = lambda *_: fault
    with pytest.raises(kind, match=text):
        read(broker, 0, 10, timeout="0.5", retryTimeout="0.3")


def test_a_slave_is_read_while_the_master_is_away():
    broker = Broker(0, 500)
    away = {RequestCode.PULL_MESSAGE: lambda *_: UnreachableError("gone")}
    with Served(Broker(0, 500)) as slave, Served(broker, away) as served:
        broker.slave = slave.address
        assert offsets(served, (QUEUE, 0, 500)) == list(range(500))


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
            if len(found) == min(count, self.at_once):
                stop = at + 1
                break
        if not found:
            return self.answer(ResponseCode.PULL_RETRY_IMMEDIATELY, stop)
        return self.answer(0, stop, self.records(request, found))


@settings(max_examples=40, deadline=None)
@given(
    end=st.integers(0, 400),
    cuts=st.lists(st.lists(st.integers(0, 400), max_size=6), min_size=2, max_size=2),
    every=st.integers(1, 90),
    scan=st.integers(1, 300),
)
def test_any_split_gives_each_match_once(end, cuts, every, scan):
    with Served(FilteringBroker(end, lambda at: at % every == 0, scan)) as served:
        for queue, inner in zip(QUEUES, cuts, strict=True):
            edges = [0, *sorted(min(cut, end) for cut in inner), end]
            pieces = [(queue, a, b) for a, b in pairwise(edges) if a < b]
            assert offsets(served, *pieces, tags=TAG) == list(range(0, end, every))


def test_an_empty_plan_has_no_batches():
    assert list(read_task(None, arrow_schema(["body"]), None)) == []
