"""lake -> topic: the messages, their times, and the position at which a killed run continues."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from mqclient import Message, Producer
from mqpipeline.cli.main import main
from mqpipeline.errors import UsageError
from mqpipeline.jobs.replay import ORIGIN, Selection, _first_us, plan_replay, replay
from mqpipeline.jobs.to_lake import to_lake
from mqpipeline.lake.storage import Lake
from mqpipeline.sinks.paced_sink import Pace, PacedWriter
from tests.pipeline.test_to_lake import Killed, killed_at, no_session

START = datetime(2026, 11, 25, 7, tzinfo=UTC)


@pytest.fixture(scope="session")
def lake(mq, tmp_path_factory):
    """A lake with 12 messages of a topic in two queues, in four files of two rounds."""
    from tests.pipeline.in_process import InProcess

    folder = tmp_path_factory.mktemp("lake")
    topic = mq.topic("Old", queues=2)
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        for i in range(12):
            message = Message(topic, b"%d" % i, tags="AB"[i % 2], keys=f"k{i}")
            message.properties["color"] = "red"
            producer.send(message)
    mq.wait_dispatched()
    to_lake(str(folder), [topic], namesrv=mq.namesrv, spark=InProcess, rows_max=3)
    return str(folder)


def test_messages_are_sent_again_with_their_origin(mq, lake, spark, monkeypatch):
    monkeypatch.setattr("mqpipeline.jobs.replay.UNIT_BYTES", 1)
    target = mq.topic("New", queues=1)
    job = {"namesrv": mq.namesrv, "spark": lambda: spark}
    with pytest.raises(Killed):
        replay(lake, target, **job, on_step=killed_at("staged", 2))
    report = replay(lake, target, **job)
    assert (report.messages, report.files, report.units) == (9, 3, 3)
    seen = mq.messages(target)
    origins = Counter(message.properties[ORIGIN] for message in seen)
    whole = {f"broker-a|Old|{queue}|{offset}" for queue in (0, 1) for offset in range(6)}
    assert set(origins) == whole and sum(origins.values()) == 15
    once = {message.properties[ORIGIN]: message for message in seen}
    last = once["broker-a|Old|1|5"]
    assert (last.body, last.tags, last.keys) == (b"11", "B", ("k11",))
    assert last.properties["color"] == "red"
    assert replay(lake, target, namesrv=mq.namesrv, spark=no_session).messages == 0


def test_a_part_of_a_lake_at_a_rate(mq, lake, spark, monkeypatch, capsys):
    target = mq.topic("Part", queues=1)
    monkeypatch.setattr("mqpipeline.cli.options.open_session", lambda *_: spark)
    words = ["replay", lake, "--topic", target, "--tags", "A", "--name", "part", "--rate", "1000"]
    assert main([*words, "-n", mq.namesrv]) == 0
    assert capsys.readouterr().out == '{"topic": "Part", "messages": 6, "files": 4, "units": 1}\n'
    sent = [message.properties[ORIGIN] for message in mq.messages(target)]
    assert sent == [f"broker-a|Old|0|{offset}" for offset in range(6)]


def test_the_plan_is_made_of_whole_hours(lake):
    (unit,) = plan_replay(lake, "T", Selection(), name="plan").units
    assert [(file.source, file.first) for file in unit] == [
        ("broker-a.0", 0), ("broker-a.0", 3), ("broker-a.1", 0), ("broker-a.1", 3)
    ]  # fmt: skip
    assert plan_replay(lake, "T", Selection(end_ms=1_000_000), name="plan").units == []
    assert plan_replay(lake, "T", Selection(start_ms=4_000_000_000_000), name="plan").units == []
    with pytest.raises(UsageError, match="has no topic 'X'; it has Old"):
        plan_replay(lake, "T", Selection(topics=("X",)), name="plan")


def test_the_original_pace_begins_with_the_first_message(mq, lake):
    units = plan_replay(lake, "T", Selection(), name="plan").units
    stored_ms = min(message.store_timestamp_ms for message in mq.messages("Old"))
    assert _first_us(Lake(lake), units, None) == stored_ms * 1000
    assert _first_us(Lake(lake), units, stored_ms + 5) == (stored_ms + 5) * 1000
    assert _first_us(Lake(lake), [], None) == 0


def test_a_target_that_is_missing_is_said_before_spark_starts(mq, lake):
    with pytest.raises(Exception, match="no route for topic 'Missing'"):
        replay(lake, "Missing", namesrv=mq.namesrv, spark=no_session)


class FakeClock:
    now = 100.0

    def sleep(self, seconds):
        self.now += seconds


class Inner:
    """A writer that notes when it gets how many rows."""

    def __init__(self, clock):
        self.clock, self.sent = clock, []

    def write(self, batches):
        for batch in batches:
            assert batch.schema.names == ["body"]
            self.sent.append((self.clock.now, batch.num_rows))


def batch(*seconds):
    at = [START + timedelta(seconds=second) for second in seconds]
    stored = pa.array(at, pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([pa.array([b"x"] * len(at)), stored],
                                      ["body", "store_timestamp"])  # fmt: skip


def paced(pace, *batches):
    clock = FakeClock()
    inner = Inner(clock)
    writer = PacedWriter(inner, pace, ("", ""), lambda: clock.now, clock.sleep)
    assert writer.write(iter(batches)).messages == sum(batch.num_rows for batch in batches)
    return inner.sent


def test_a_rate_is_kept():
    assert paced(Pace(rate=4), batch(*range(5)), batch(0)) == [
        (100.0, 2), (100.5, 2), (101.0, 1), (101.25, 1)
    ]  # fmt: skip


def test_the_original_pace_is_kept_times_a_speed():
    first_us = int(START.timestamp() * 1_000_000)
    pace = Pace(speed=10, started_s=100.0, first_us=first_us)
    assert paced(pace, batch(0, 1, 4, 20, 100), batch(101)) == [
        (100.0, 3), (102.0, 1), (110.0, 1), (110.0, 1)
    ]  # fmt: skip
