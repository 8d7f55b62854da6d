"""Which offsets a batch read plans, against a scripted broker."""

import pytest

pytest.importorskip("pyspark")
from mqclient.mock import MockTransport
from mqclient.spark import reader as reader_module
from mqclient.spark.cluster import Cluster, DataLossError
from mqclient.spark.options import Options
from mqclient.spark.reader import BatchReader
from mqclient.wire import Frame
from mqclient.wire.codes import RequestCode, ResponseCode
from mqstore.arrow import arrow_schema
from mqstore.message import decode_messages
from tests.spark.scripted import Broker, record


def options(**given):
    return Options.parse({"nameserver": "ns:9876", "topic": "T", **given})


def use(monkeypatch, broker, changes=None):
    def open_cluster(parsed):
        return Cluster(parsed, MockTransport(broker.scripts() | (changes or {})))

    monkeypatch.setattr(reader_module, "Cluster", open_cluster)


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
