"""Streaming queries through what happens to brokers: restarts, new queues, lost messages."""

import json
import os
import threading

import pytest

from mqadmin import main as mqadmin
from mqclient import Message, Producer, PushConsumer
from mqcommon.wire import Frame
from mqcommon.wire.codes import RequestCode
from mqserver import Standalone
from mqserver.embedded.raw_client import Probe
from mqstore import Settings
from tests.inside import store_of
from tests.waiting import until

ROWS = "queue_id int, queue_offset long, body binary"


@pytest.fixture(scope="module")
def mq():
    with Standalone(process=True) as mq:
        yield mq


def send(mq, topic, bodies, **more):
    with Producer(mq.namesrv) as producer:
        for start in range(0, len(bodies), 200):
            producer.send([Message(topic, body, **more) for body in bodies[start : start + 200]])
    mq.wait_dispatched()


def numbered(first, end):
    return [b"%d" % number for number in range(first, end)]


def start_query(spark, mq, folder, trigger=None, schema=ROWS, **options):
    """A query of a topic into Parquet files below `folder`."""
    reader = spark.readStream.format("rocketmq").option("namesrv", mq.namesrv)
    reader = reader.options(**{"startingOffsets": "earliest", **options}).schema(schema)
    sink = reader.load().writeStream.format("parquet").option("path", str(folder / "rows"))
    sink = sink.option("checkpointLocation", str(folder / "checkpoint"))
    return sink.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def run_once(spark, mq, folder, **options):
    query = start_query(spark, mq, folder, {"availableNow": True}, **options)
    assert query.awaitTermination(240)
    return [progress["numInputRows"] for progress in query.recentProgress]


def rows_of(spark, folder):
    return spark.read.schema(ROWS).parquet(str(folder / "rows")).collect()


def numbers_of(spark, folder):
    return sorted(int(bytes(row.body)) for row in rows_of(spark, folder))


@pytest.fixture
def ended():
    """Queries that are stopped at the end of a test."""
    queries = []
    yield queries.append
    for query in queries:
        query.stop()


def test_a_batch_that_dies_while_queues_are_added_is_replayed(spark, mq, tmp_path):
    topic = mq.topic("SparkDies", queues=1)
    send(mq, topic, numbered(0, 10))
    tries: dict[int, list[list[tuple[int, int, int]]]] = {}

    def write(frame, batch_id):
        rows = sorted(
            (row.queue_id, row.queue_offset, int(bytes(row.body))) for row in frame.collect()
        )
        tries.setdefault(batch_id, []).append(rows)
        if len(tries[batch_id]) == 1 and batch_id < 2:
            first = 10 * (1 + batch_id)
            mq.topic(topic, queues=2 + batch_id)
            with Producer(mq.namesrv, queue_index_start=0) as producer:
                for number in range(first, first + 10):
                    producer.send(Message(topic, b"%d" % number))
            mq.wait_dispatched()
            raise ConnectionError("died in mid-batch")

    def run():
        reader = spark.readStream.format("rocketmq").option("namesrv", mq.namesrv)
        reader = reader.options(topic=topic, startingOffsets="earliest").schema(ROWS)
        sink = reader.load().writeStream.foreachBatch(write).trigger(availableNow=True)
        sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    for _ in range(2):
        with pytest.raises(Exception, match="died in mid-batch"):
            run()
    run()
    assert len(tries[0]) == len(tries[1]) == 2
    assert all(first == again for first, again in (tries[0], tries[1]))
    last = [row for rows in tries.values() for row in rows[-1]]
    assert sorted(number for _, _, number in last) == list(range(30))
    assert {queue for queue, _, _ in tries[1][0]} == {0, 1}


def test_new_queues_and_new_topics_are_found_while_a_query_runs(spark, mq, tmp_path, ended):
    first = mq.topic("SparkGrow1", queues=1)
    send(mq, first, numbered(0, 10))
    query = start_query(spark, mq, tmp_path, topicPattern="SparkGrow.*")
    ended(query)
    query.processAllAvailable()
    mq.topic("SparkGrow1", queues=3)
    second = mq.topic("SparkGrow2", queues=2)
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        for number in range(10, 19):
            producer.send(Message(first, b"%d" % number))
    send(mq, second, numbered(19, 30))
    query.processAllAvailable()
    assert numbers_of(spark, tmp_path) == list(range(30))
    assert {row.queue_id for row in rows_of(spark, tmp_path)} >= {0, 1, 2}
    progress = query.recentProgress[-1]["sources"][0]
    latest, end = (json.loads(progress[name]) for name in ("latestOffset", "endOffset"))
    assert latest == end and sum(latest.values()) == 30
    assert [key.partition("|")[2] for key in latest] == [
        *(f"{first}|{queue}" for queue in range(3)),
        *(f"{second}|{queue}" for queue in range(2)),
    ]


def test_a_kill_of_the_servers_in_the_middle_costs_nothing(spark, mq, tmp_path, ended):
    topic = mq.topic("SparkRestart", queues=2)
    send(mq, topic, numbered(0, 6000))
    query = start_query(spark, mq, tmp_path, topic=topic, maxRowsPerTrigger="1000")
    ended(query)
    assert until(lambda: query.recentProgress and query.recentProgress[-1]["numInputRows"])
    mq.kill()
    mq.start()
    send(mq, topic, numbered(6000, 7000))
    query.processAllAvailable()
    assert numbers_of(spark, tmp_path) == list(range(7000))


def test_a_kill_of_the_servers_in_the_middle_of_a_batch_read(spark, mq):
    topic = mq.topic("SparkMidBatch", queues=2)
    send(mq, topic, [b"%d" % n + bytes(1000) for n in range(20_000)])
    frame = spark.read.format("rocketmq").option("namesrv", mq.namesrv).option("topic", topic)
    frame = frame.option("partitions", "2").schema("queue_id int, queue_offset long").load()
    frame.rdd.getNumPartitions()
    counted = []
    reading = threading.Thread(target=lambda: counted.append(frame.distinct().count()))
    reading.start()
    mq.kill()
    mq.start()
    reading.join(240)
    assert counted == [20_000]


def test_a_topic_that_is_made_anew(spark, tmp_path):
    before = Standalone(tmp_path / "before")
    with before:
        topic = before.topic("SparkAnew", queues=1)
        send(before, topic, numbered(0, 100))
        assert sum(run_once(spark, before, tmp_path, topic=topic)) == 100
        ports = [int(a.rpartition(":")[2]) for a in (before.namesrv, before.broker_address)]
    with Standalone(tmp_path / "after", namesrv_port=ports[0], port=ports[1]) as after:
        send(after, after.topic(topic, queues=1), numbered(100, 130))
        with pytest.raises(Exception, match="was read up to 100 before: the topic was made anew"):
            run_once(spark, after, tmp_path, topic=topic)
        assert run_once(spark, after, tmp_path, topic=topic, failOnDataLoss="false")[0] == 30
        send(after, topic, numbered(130, 140))
        assert sum(run_once(spark, after, tmp_path, topic=topic)) == 10
        assert numbers_of(spark, tmp_path) == list(range(140))


def test_retention_that_overtakes_a_query_and_a_batch(spark, tmp_path):
    settings = {"mappedFileSizeCommitLog": str(1 << 20)}
    with Standalone(tmp_path / "store", settings=settings) as mq:
        topic = mq.topic("SparkExpired", queues=1)
        send(mq, topic, numbered(0, 10))
        assert sum(run_once(spark, mq, tmp_path, topic=topic)) == 10
        with Producer(mq.namesrv) as producer:
            for _ in range(10, 40):
                producer.send(Message(topic, os.urandom(100_000)))
        mq.wait_dispatched()
        first = _expire(mq, topic)
        start = f'{{"broker-a|{topic}|0": 10}}'
        batch = spark.read.format("rocketmq").option("namesrv", mq.namesrv)
        batch = batch.option("topic", topic).option("startingOffsets", start)
        for read in (
            lambda: batch.load().count(),
            lambda: run_once(spark, mq, tmp_path, topic=topic),
        ):
            with pytest.raises(Exception, match="set failOnDataLoss to false"):
                read()
        assert batch.option("failOnDataLoss", "false").load().count() == 40 - first
        left = run_once(spark, mq, tmp_path, topic=topic, failOnDataLoss="false")
        assert sum(left) == 40 - first


def _expire(mq, topic):
    """Delete all files of the log but the last; returns the first offset that is left."""
    store = store_of(mq)
    store.set_cleaning(Settings(reserved_hours=0).as_dict())
    with Probe(mq.broker_address) as broker:
        assert broker.call(Frame(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
    file_bytes = 1 << 20
    assert until(lambda: store.max_physical_offset() - store.min_physical_offset() < file_bytes)
    assert until(lambda: store.min_offset(topic, 0) > 20)
    return store.min_offset(topic, 0)


def test_a_query_shows_its_progress_as_a_group(spark, mq, tmp_path, capsys):
    topic = mq.topic("SparkProgress", queues=2)
    send(mq, topic, numbered(0, 60))
    options = {"topic": topic, "group": "spark-job", "commitGroup": "true"}
    assert sum(run_once(spark, mq, tmp_path, **options, maxRowsPerTrigger="30")) == 60
    send(mq, topic, numbered(60, 70))
    assert sum(run_once(spark, mq, tmp_path, **options)) == 10
    capsys.readouterr()
    assert mqadmin(["consumerProgress", "-n", mq.namesrv, "-g", "spark-job"]) == 0
    shown = capsys.readouterr().out
    assert topic in shown and "Diff Total: 10" in shown
    with PushConsumer("spark-job", mq.namesrv) as consumer:
        consumer.subscribe(topic, "*", lambda messages, context: None)
        with pytest.raises(Exception, match="group 'spark-job' has 1 live consumers"):
            run_once(spark, mq, tmp_path, **options)


def test_a_query_starts_where_a_group_was(spark, mq, tmp_path):
    topic = mq.topic("SparkMoved", queues=1)
    send(mq, topic, numbered(0, 20))
    with Probe(mq.broker_address) as broker:
        fields = {"consumerGroup": "old-job", "topic": topic, "queueId": "0", "commitOffset": "15"}
        assert broker.call(Frame(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0
    assert sum(run_once(spark, mq, tmp_path, topic=topic, startingOffsets="group:old-job")) == 5
    assert numbers_of(spark, tmp_path) == list(range(15, 20))
