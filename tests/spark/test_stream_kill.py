"""A streaming query whose driver is killed again and again: each message comes once."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mqclient import Message, Producer
from mqserver import Standalone
from tests.spark.test_streams import ROWS
from tests.waiting import until

ROWS_PER_CYCLE = 3000
KILL_TIMEOUT_S = 240

QUERY = """
import json, sys
from pyspark.sql import SparkSession
namesrv, topic, folder, mode = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
reader = spark.readStream.format("rocketmq").option("namesrv", namesrv).option("topic", topic)
reader = reader.options(startingOffsets="earliest", maxRowsPerTrigger="300").schema(ROWS)
sink = reader.load().writeStream.format("parquet").option("path", folder + "/rows")
sink.option("checkpointLocation", folder + "/checkpoint")
if mode == "to the end":
    sink.trigger(availableNow=True)
sink.start().awaitTermination()
rows = spark.read.parquet(folder + "/rows").collect()
print(json.dumps([(int(bytes(row.body)), row.queue_id, row.queue_offset) for row in rows]))
""".replace("ROWS", repr(ROWS))
"""Runs in its own process. `to the end`: stops after the stored messages and prints the rows."""


def send(mq, topic, first):
    with Producer(mq.namesrv) as producer:
        for start in range(first, first + ROWS_PER_CYCLE, 300):
            producer.send([Message(topic, b"%d" % n) for n in range(start, start + 300)])
    mq.wait_dispatched()


def committed(folder):
    """How many micro-batches the checkpoint has committed."""
    commits = folder / "checkpoint" / "commits"
    return len([path for path in commits.glob("*") if path.name.isdigit()])


def run_and_kill(mq, topic, folder, environment):
    """Start the query, and kill its processes once it has committed two micro-batches more."""
    wanted = committed(folder) + 2
    with (folder / "query.log").open("wb") as log:
        query = subprocess.Popen(
            [sys.executable, "-c", QUERY, mq.namesrv, topic, str(folder), "until killed"],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        assert until(lambda: committed(folder) >= wanted or query.poll(), KILL_TIMEOUT_S)
        assert query.poll() is None, (folder / "query.log").read_text()[-3000:]
    finally:
        os.killpg(query.pid, signal.SIGKILL)
        query.wait()


def rows_in_the_end(mq, topic, folder, environment):
    """Body, queue and offset of each row, once the query has read all messages."""
    words = [sys.executable, "-c", QUERY, mq.namesrv, topic, str(folder), "to the end"]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]


@pytest.mark.parametrize("cycles", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_kills_of_the_driver_cost_nothing(spark_environment, tmp_path, cycles):
    with Standalone() as mq:
        topic = mq.topic("SparkKilled", queues=3)
        for cycle in range(cycles):
            send(mq, topic, cycle * ROWS_PER_CYCLE)
            run_and_kill(mq, topic, tmp_path, spark_environment)
        rows = rows_in_the_end(mq, topic, tmp_path, spark_environment)
        assert sorted(body for body, _, _ in rows) == list(range(cycles * ROWS_PER_CYCLE))
        stored = {(m.queue_id, m.queue_offset) for m in mq.messages(topic)}
        assert {(queue_id, queue_offset) for _, queue_id, queue_offset in rows} == stored
