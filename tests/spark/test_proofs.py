"""What batch reads promise, against a broker: filters, many topics, repeats, conditions."""

import json
import os

import pytest

from mqclient import Message, Producer
from mqpipeline.spark.topics import deduplicated
from mqserver import Standalone


@pytest.fixture(scope="module")
def mq():
    with Standalone(settings={"enablePropertyFilter": "true"}) as mq:
        yield mq


@pytest.fixture(scope="module")
def orders(mq):
    """30 messages in 3 queues: tags A and B, a region, a key, in the order of their numbers."""
    topic = mq.topic("SparkOrders", queues=3)
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        for number in range(30):
            message = Message(
                topic,
                b"%d" % number,
                tags="AB"[number % 2],
                keys=[f"order-{number}", f"customer-{number % 5}"],
                properties={"region": "east" if number % 3 else "west", "n": str(number)},
            )
            producer.send(message)
    mq.wait_dispatched()
    return topic


def read(spark, mq, **options):
    return spark.read.format("rocketmq").option("namesrv", mq.namesrv).options(**options).load()


def numbers(frame):
    return sorted(int(bytes(row.body)) for row in frame.select("body").collect())


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"filter": "region = 'west' AND n > 10"}, lambda n: n % 3 == 0 and n > 10),
        ({"filter": "region IS NULL"}, lambda n: False),
        ({"keys": "customer-2 order-10"}, lambda n: n % 5 == 2 or n == 10),
        ({"tags": "A", "queues": "0,1", "keys": "customer-1"}, lambda n: n in (16, 6)),
        ({"minPartitions": "7", "maxRowsPerPartition": "2"}, lambda n: True),
    ],
)
def test_options_give_exactly_the_rows_they_name(spark, mq, orders, options, wanted):
    assert numbers(read(spark, mq, topic=orders, **options)) == [n for n in range(30) if wanted(n)]


def test_a_queue_is_split_into_tasks(spark, mq, orders):
    assert read(spark, mq, topic=orders, minPartitions="7").rdd.getNumPartitions() == 7
    assert read(spark, mq, topic=orders, maxRowsPerPartition="2").rdd.getNumPartitions() == 15


def test_a_bad_filter_is_an_error_before_a_job_starts(spark, mq, orders):
    with pytest.raises(Exception, match="option filter = 'region ='"):
        read(spark, mq, topic=orders, filter="region =").rdd.getNumPartitions()
    with Standalone() as plain, pytest.raises(Exception, match="enablePropertyFilter=true"):
        topic = plain.topic(queues=1)
        read(spark, plain, topic=topic, filter="region = 'west'").rdd.getNumPartitions()


def test_a_read_says_what_is_wrong_before_a_job_starts(spark, mq, orders):
    for options, words in [
        ({}, "say which topic to read"),
        ({"topic": orders, "maxRowsPerTrigger": "5"}, "is for streaming reads, not for batch"),
        ({"topic": orders, "startingOffsets": "{"}, "option startingOffsets = "),
        ({"topic": orders, "startingOffsets": '{"b|T|0": 1}'}, "queues that do not exist"),
        ({"topicPattern": "Nothing.*"}, "no topic matches"),
    ]:
        with pytest.raises(Exception, match=words):
            read(spark, mq, **options).rdd.getNumPartitions()


def test_a_hundred_topics_and_an_empty_one(spark, mq):
    topics = [mq.topic(f"SparkMany{number:03}", queues=1) for number in range(101)]
    with Producer(mq.namesrv) as producer:
        for number, topic in enumerate(topics[:100]):
            producer.send(Message(topic, b"%d" % number))
    mq.wait_dispatched()
    assert numbers(read(spark, mq, topicPattern="SparkMany.*")) == list(range(100))
    assert read(spark, mq, topics=",".join(topics[98:])).count() == 2
    assert read(spark, mq, topic=topics[100]).collect() == []
    some = json.dumps({topics[3]: {"broker-a": {"0": 1}}})
    assert read(spark, mq, topics=",".join(topics[:5]), startingOffsets=some).count() == 4


def test_conditions_are_pushed_down_by_the_option_alone(spark, mq, orders):
    options = {"topic": orders, "pushdown": "true"}
    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        read(spark, mq, **options).count()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        for condition, wanted in [
            ("queue_id = 1 and queue_offset >= 4", lambda n: n % 3 == 1 and n // 3 >= 4),
            ("tags = 'B' and queue_offset < 2", lambda n: n % 2 == 1 and n < 6),
            ("queue_id in (0, 2) and keys like '%customer-3'", lambda n: n % 3 != 1 and n % 5 == 3),
            ("store_timestamp > '2020-01-01' and topic = 'SparkOrders'", lambda n: True),
            ("store_timestamp < '2020-01-01'", lambda n: False),
            ("queue_id = 9 or queue_offset = 0", lambda n: n < 3),
        ]:
            frame = read(spark, mq, **options).where(condition)
            assert numbers(frame) == [n for n in range(30) if wanted(n)], condition
        frame = read(spark, mq, **options).where("queue_id = 1 and queue_offset = 4")
        assert frame.rdd.getNumPartitions() == 1
        twice = read(spark, mq, topic=orders)
        both = twice.where("queue_id = 0").union(twice.where("queue_id = 1"))
        assert both.count() == 20
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_rows_that_a_task_sent_again_are_dropped(spark, mq, tmp_path):
    topic = mq.topic("SparkRepeats", queues=2)
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        for number in (0, 1, 2, 3, 1, 3, 3, 0):
            row = {"sparkRowId": f"query/0/0/{number}"} if number else None
            producer.send(Message(topic, b"%d" % number, properties=row))
    mq.wait_dispatched()
    sent = [0, 0, 1, 1, 2, 3, 3, 3]
    assert numbers(read(spark, mq, topic=topic)) == sent
    assert numbers(read(spark, mq, topic=topic, dedup="true")) == [0, 0, 1, 2, 3]
    many = read(spark, mq, topic=topic, dedup="true", maxRowsPerPartition="1")
    assert numbers(many) == sent
    assert numbers(deduplicated(many)) == [0, 0, 1, 2, 3]
    stream = spark.readStream.format("rocketmq").option("namesrv", mq.namesrv)
    stream = stream.options(topic=topic, startingOffsets="earliest", maxRowsPerTrigger="4").load()
    query = (
        deduplicated(stream)
        .writeStream.format("memory")
        .queryName("once")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert numbers(spark.table("once")) == [0, 0, 1, 2, 3]
    with pytest.raises(ValueError, match="needs the columns topic, queue_id"):
        deduplicated(many.select("broker_name", "queue_offset", "body", "properties"))


def test_a_body_of_ten_megabytes(spark):
    body = os.urandom(10_000_000)
    with Standalone(settings={"maxMessageSize": str(11 << 20)}) as large:
        topic = large.topic(queues=1)
        with Producer(large.namesrv, body_bytes_max=11 << 20) as producer:
            producer.send(Message(topic, b"small"))
            producer.send(Message(topic, body), timeout=30)
        large.wait_dispatched()
        rows = read(spark, large, topic=topic).orderBy("queue_offset").collect()
        assert [bytes(row.body) for row in rows] == [b"small", body]
