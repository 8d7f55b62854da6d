"""Spark writes: the stored messages, and the errors before and after a failed write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mqserver
from tests.spark.conftest import ROOT

ALL = (
    "topic string, body string, tags string, keys array<string>, properties map<string,string>, "
    "flag int, delay_level int, order_key string"
)


@pytest.fixture(scope="module")
def mq():
    with mqserver.Standalone() as mq:
        yield mq


def sink(frame, mq, **options):
    writer = frame.write.format("rocketmq").option("namesrv", mq.namesrv)
    return writer.options(**options).mode("append")


def test_every_column_is_written(spark, mq):
    topics = [mq.topic("WriterOne", queues=4), mq.topic("WriterTwo", queues=4)]
    rows = [
        (topics[i % 2], f"row {i}", "T", ["k", f"k{i}"], {"i": str(i)}, i, 0, f"o{i % 5}")
        for i in range(2000)
    ]
    sink(spark.createDataFrame(rows, ALL), mq).save()
    mq.wait_dispatched()
    stored = [message for topic in topics for message in mq.messages(topic)]
    got = {message.body.decode(): message for message in stored}
    assert len(got) == len(stored) == 2000
    for topic, body, tags, keys, properties, flag, _, _ in rows:
        message = got[body]
        found = (message.topic, message.tags, message.keys, message.properties["i"], message.flag)
        assert found == (topic, tags, tuple(keys), properties["i"], flag)
    ids = [message.properties["sparkRowId"].split("/") for message in stored]
    assert len({job for job, _, _ in ids}) == 1
    assert len({tuple(row) for row in ids}) == 2000


def test_a_retried_task_repeats_rows_under_the_same_ids(mq, tmp_path):
    pytest.importorskip("pyspark")
    topic = mq.topic("WriterRetried")
    program = Path(__file__).with_name("retried_write.py")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    arguments = [mq.namesrv, topic, "6000", str(tmp_path / "killed")]
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "killed").exists()
    mq.wait_dispatched()
    messages = mq.messages(topic)
    by_id = {}
    for message in messages:
        assert by_id.setdefault(message.properties["sparkRowId"], message.body) == message.body
    assert len(by_id) == len(set(by_id.values())) == 6000
    assert len(messages) > 6000


@pytest.mark.parametrize(
    ("columns", "rows", "options", "words"),
    [
        ("value string", [("x",)], {"topic": "T"}, "no column 'value'; there are: topic, body"),
        ("body string, tag string", [("x", "t")], {"topic": "T"}, "did you mean tags"),
        ("tags string", [("x",)], {"topic": "T"}, 'needs a column "body"'),
        ("body int", [(1,)], {"topic": "T"}, "'body' must be binary or string, not int"),
        ("body string, order_key int", [("x", 1)], {"topic": "T"}, "must be string, not int"),
        ("body string", [("x",)], {}, "say where to write"),
        ("body string", [("x",)], {"topic": "T", "maxRate": "0"}, "maxRate = '0'"),
        ("body string", [("x",)], {"topic": "T", "maxMessageSize": "4m"}, "maxMessageSize = '4m'"),
        ("body string", [("x",)], {"topic": "T", "retryTimeout": "-1"}, "retryTimeout = '-1'"),
    ],
)
def test_what_cannot_be_written_is_refused_on_the_driver(spark, mq, columns, rows, options, words):
    with pytest.raises(Exception, match=words) as caught:
        sink(spark.createDataFrame(rows, columns), mq, **options).save()
    assert "Job aborted" not in str(caught.value)


def test_a_failed_task_says_which_rows_are_acknowledged(spark, mq):
    topic = mq.topic("WriterFailed")
    frame = spark.range(0, 3000, 1, 1)
    frame = frame.selectExpr("if(id = 2500, null, repeat('x', 1000)) as body")
    words = r"partition 0: row 2500: its body is null; brokers have acknowledged \d+ of the 2500"
    with pytest.raises(Exception, match=words) as caught:
        sink(frame, mq, topic=topic).save()
    said = str(caught.value)
    mq.wait_dispatched()
    stored = int(said.split("brokers have acknowledged ")[1].split()[0])
    assert len(mq.messages(topic)) == stored
    first = int(said.split("without an acknowledgement is row ")[1].split(",")[0])
    assert first == stored
