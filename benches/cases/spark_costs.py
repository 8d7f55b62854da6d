"""Costs of Spark's reads other than rates: planning, micro-batches, memory, number of cores.

Planning asks the broker for the offsets of 10,000 queues. A micro-batch of one message shows the
fixed cost of a micro-batch. Memory is the growth of an idle Python worker. Batch reads run on one
core and on two.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benches.cases.spark import session
from benches.lib.harness import Mode, Report, mode_of, verdict
from benches.lib.loads import BACKLOG_TOPIC, make_backlog
from benches.lib.servers import Ours
from mqclient import Message, Producer
from mqclient.blocking.admin import Admin
from mqcommon.wire.bodies.topics import TopicConfig

MESSAGES = {"smoke": 2_000, "large": 400_000}
TOPICS = {"smoke": 2, "large": 40}
QUEUES_OF_A_TOPIC = 250
MICRO_BATCHES = {"smoke": 2, "large": 20}
MICRO_BATCH_TOPIC = "BenchMicroBatch"
TASKS = 4
GOALS = {"plan_s": 1.0, "micro_batch_s": 0.35, "memory_mb": 64.0}
"""Upper limits: seconds of planning, seconds of a micro-batch with one message, megabytes."""
METHOD = "1 KiB, broker and Spark on the same cores, medians of {} rounds"

MEMORY_OF_A_TASK = """
import resource, sys
from mqpipeline.spark.topics.source import RocketMQDataSource
options = {"namesrv": sys.argv[1], "topic": sys.argv[2], "partitions": sys.argv[3]}
source = RocketMQDataSource(options)
reader = source.reader(source.schema())
task = reader.partitions()[0]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(batch.num_rows for batch in reader.read(task))
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
"""Prints the memory that reading one task adds to a worker that has imported and planned."""


def main(smoke: bool = False) -> None:
    """Run all rows, and print them with their goals."""
    mode = mode_of(smoke)
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as scratch,
        Ours(Path(scratch) / "ours", {}) as cluster,
    ):
        make_backlog(cluster, MESSAGES[mode.name])
        report = Report("spark_costs", mode, METHOD.format(mode.rounds))
        report.rows.append(_goal("planning", "plan_s", _planning(cluster, mode)))
        report.rows.append(_goal("task, all columns", "memory_mb", _memory(cluster, mode)))
        rates = {}
        for cores in (1, 2):
            with session(Path(scratch) / f"spark-{cores}", cores) as spark:
                rates[cores] = _batch_rate(spark, cluster, mode)
                if cores == 2:
                    seconds = _micro_batch(spark, cluster, mode, Path(scratch))
        report.rows.append(_goal("micro-batch of one message", "micro_batch_s", seconds))
        for cores, rate in rates.items():
            case = f"batch read, {cores} core{'s' * (cores > 1)}"
            report.rows.append({"case": case, "rows_per_s": rate, "of_one": rate / rates[1]})
        report.finish()


def _goal(case: str, figure: str, value: float) -> dict[str, Any]:
    met = verdict(value <= GOALS[figure])
    return {"case": case, figure: value, "goal": f"<= {GOALS[figure]:g}", "met": met}


def _planning(cluster: Ours, mode: Mode) -> float:
    """Seconds that the driver takes to plan a batch read of many queues."""
    from mqpipeline.spark.topics.source import RocketMQDataSource

    count = TOPICS[mode.name]
    topics = [f"BenchPlan{number}" for number in range(count)]
    _create(cluster, topics, QUEUES_OF_A_TOPIC)
    taken = []
    for _ in range(mode.rounds):
        source = RocketMQDataSource(
            {"namesrv": cluster.namesrv, "topics": ",".join(topics), "partitions": str(TASKS)}
        )
        started = time.monotonic()
        source.reader(source.schema()).partitions()
        taken.append(time.monotonic() - started)
    return statistics.median(taken)


def _memory(cluster: Ours, mode: Mode) -> float:
    """Megabytes that reading one task adds to a Python worker."""
    words = [sys.executable, "-c", MEMORY_OF_A_TASK, cluster.namesrv, BACKLOG_TOPIC, str(TASKS)]
    taken = []
    for _ in range(mode.rounds):
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        rows, megabytes = done.stdout.split()
        assert int(rows) >= MESSAGES[mode.name] // TASKS // 2
        taken.append(float(megabytes))
    return statistics.median(taken)


def _batch_rate(spark: Any, cluster: Ours, mode: Mode) -> float:
    """Messages per second of a batch read with all columns; the first read does not count."""
    reader = spark.read.format("rocketmq").option("namesrv", cluster.namesrv)
    frame = reader.options(topic=BACKLOG_TOPIC, partitions=str(TASKS)).load()
    taken = []
    for _ in range(mode.rounds + 1):
        started = time.monotonic()
        frame.write.format("noop").mode("overwrite").save()
        taken.append(time.monotonic() - started)
    return MESSAGES[mode.name] / statistics.median(taken[1:])


def _micro_batch(spark: Any, cluster: Ours, mode: Mode, scratch: Path) -> float:
    """Seconds of a micro-batch of one message, from its trigger to its commit."""
    count = MICRO_BATCHES[mode.name]
    _create(cluster, [MICRO_BATCH_TOPIC], 1)
    with Producer(cluster.namesrv) as producer:
        for number in range(count):
            producer.send(Message(MICRO_BATCH_TOPIC, b"%d" % number))
    reader = spark.readStream.format("rocketmq").option("namesrv", cluster.namesrv)
    reader = reader.options(topic=MICRO_BATCH_TOPIC, startingOffsets="earliest")
    with tempfile.TemporaryDirectory(dir=scratch) as checkpoint:
        writer = reader.option("maxRowsPerTrigger", "1").load().writeStream.format("noop")
        query = (
            writer.option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            query.processAllAvailable()
            progress = [entry for entry in query.recentProgress if entry["numInputRows"] == 1]
        finally:
            query.stop()
    assert len(progress) == count
    return statistics.median(entry["durationMs"]["triggerExecution"] for entry in progress) / 1e3


def _create(cluster: Ours, topics: list[str], queues: int) -> None:
    """Create topics, and wait until the NameServer knows them."""
    with Admin(cluster.namesrv) as admin:
        (name,) = admin.brokers.clusters().cluster_addr_table
        for topic in topics:
            config = TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)
            admin.topics.update(config, cluster=name)
    for topic in topics:
        cluster.route(topic)
