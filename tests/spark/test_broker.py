"""Spark reads messages from our broker, and consumers read the messages that Spark writes."""

import threading

import pytest

import mqserver
from mqclient import Message, Producer, PushConsumer

TOPIC = "TopicTest"


@pytest.fixture(scope="module")
def mq():
    with mqserver.Standalone() as mq:
        yield mq


@pytest.fixture(scope="module")
def hello(mq):
    """The ten messages of RocketMQ's walk-through; returns their unique ids."""
    mq.topic(TOPIC, queues=4)
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        sent = [
            producer.send(Message(TOPIC, f"Hello RocketMQ {i}".encode(), tags="TagA")).msg_id
            for i in range(10)
        ]
    mq.wait_dispatched()
    return sent


def source(spark, mq, **options):
    reader = spark.read.format("rocketmq").option("namesrv", mq.namesrv)
    return reader.options(**options)


def test_spark_reads_what_the_ten_sends_wrote(spark, mq, hello):
    rows = source(spark, mq, topic=TOPIC).load().orderBy("commit_log_offset").collect()
    assert [bytes(row.body) for row in rows] == [f"Hello RocketMQ {i}".encode() for i in range(10)]
    assert [row.msg_id for row in rows] == hello
    assert [row.queue_id for row in rows] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert {(row.topic, row.tags, row.broker_name) for row in rows} == {(TOPIC, "TagA", "broker-a")}
    assert rows[0].properties["UNIQ_KEY"] == hello[0]
    assert rows[0].store_host == mq.broker_address


def test_a_subset_of_columns_and_options(spark, mq, hello):
    schema = "queue_offset long, body binary"
    rows = source(spark, mq, topic=TOPIC, queues="0,2").schema(schema).load().collect()
    assert sorted(row.asDict()["queue_offset"] for row in rows) == [0, 0, 1, 1, 2]
    assert source(spark, mq, topic=TOPIC, tags="TagB").load().count() == 0
    assert source(spark, mq, topic=TOPIC, startingOffsets="latest").load().count() == 0
    starts = f'{{"broker-a|{TOPIC}|0": 2, "broker-a|{TOPIC}|1": 1}}'
    assert source(spark, mq, topic=TOPIC, startingOffsets=starts).load().count() == 7


def test_filters_of_one_frame_do_not_disturb_each_other(spark, mq, hello):
    df = source(spark, mq, topic=TOPIC).load()
    both = df.filter("queue_id = 0").union(df.filter("queue_id = 3"))
    assert sorted(row.queue_id for row in both.collect()) == [0, 0, 0, 3, 3]
    assert df.count() == 10


def test_an_unknown_topic_is_named(spark, mq):
    with pytest.raises(Exception, match="no route for topic 'Missing'"):
        source(spark, mq, topic="Missing").load().count()


def test_what_spark_writes_is_consumed(spark, mq):
    topic = mq.topic("SparkSink")
    rows = [(b"row %d" % i, "TagS", f"key-{i}", {"color": "red"}) for i in range(1000)]
    df = spark.createDataFrame(
        rows, "body binary, tags string, keys string, properties map<string,string>"
    )
    sink = df.write.format("rocketmq").option("namesrv", mq.namesrv)
    sink.option("topic", topic).mode("append").save()

    got = []
    done = threading.Event()

    def handle(messages, context):
        got.extend(messages)
        if len(got) >= 1000:
            done.set()

    with PushConsumer("spark_readers", mq.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic, "TagS", handle)
        assert done.wait(60)
    assert {m.body for m in got} == {b"row %d" % i for i in range(1000)}
    assert {m.properties["color"] for m in got} == {"red"}
    assert {m.keys[0] for m in got} == {f"key-{i}" for i in range(1000)}


def test_a_stream_in_three_micro_batches_and_on_from_there(spark, mq, tmp_path):
    topic = mq.topic("SparkStream", queues=2)
    target = mq.topic("SparkCopy", queues=2)
    with Producer(mq.namesrv) as producer:
        producer.send([Message(topic, b"first %d" % i) for i in range(500)])
    mq.wait_dispatched()

    def run():
        frame = (
            spark.readStream.format("rocketmq")
            .option("namesrv", mq.namesrv)
            .options(topic=topic, startingOffsets="earliest", maxRowsPerTrigger="200")
            .schema("body binary, keys string")
            .load()
        )
        sink = frame.writeStream.format("rocketmq").option("namesrv", mq.namesrv)
        query = (
            sink.option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return [progress["numInputRows"] for progress in query.recentProgress]

    assert run() == [200, 200, 100]
    with Producer(mq.namesrv) as producer:
        producer.send([Message(topic, b"second %d" % i) for i in range(50)])
    mq.wait_dispatched()
    assert sum(run()) == 50
    copied = mq.messages(target)
    assert len(copied) == 550
    assert len({m.body for m in copied}) == 550
    assert len({m.properties["sparkRowId"] for m in copied}) == 550


@pytest.mark.parametrize("streaming", [False, True])
def test_a_tag_among_three_gives_each_message_once(spark, mq, tmp_path, streaming):
    topic = mq.topic(f"SparkTags{streaming}", queues=2)
    with Producer(mq.namesrv) as producer:
        for start in range(0, 1500, 300):
            messages = [
                Message(topic, b"%d" % i, tags=f"Tag{'ABC'[i % 3]}")
                for i in range(start, start + 300)
            ]
            producer.send(messages)
    mq.wait_dispatched()
    wanted = {"topic": topic, "tags": "TagB", "startingOffsets": "earliest"}
    if streaming:
        reader = spark.readStream.format("rocketmq").option("namesrv", mq.namesrv)
        query = (
            reader.options(**wanted, maxRowsPerTrigger="400")
            .load()
            .writeStream.format("memory")
            .queryName("tagged")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        rows = spark.table("tagged").collect()
    else:
        rows = source(spark, mq, **wanted).load().collect()
    assert sorted(int(row.body) for row in rows) == list(range(1, 1500, 3))


def test_unknown_options_are_refused(spark, mq, hello, tmp_path):
    with pytest.raises(Exception, match="no option 'tagz'; did you mean tag"):
        source(spark, mq, topic=TOPIC, tagz="TagA").load().count()
    frame = spark.createDataFrame([(b"x",)], "body binary")
    sink = frame.write.format("rocketmq").option("namesrv", mq.namesrv).mode("append")
    with pytest.raises(Exception, match="option topics is for batch reads and streaming reads"):
        sink.options(topics=TOPIC).save()
    store = spark.read.format("rocketmq-store").option("tagz", "TagA")
    with pytest.raises(Exception, match="no option 'tagz'; did you mean tag"):
        store.load(str(tmp_path)).count()
