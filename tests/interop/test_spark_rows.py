"""Rows that the Spark sink writes to a Java broker: clients of both kinds read them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa

from mqclient import PushConsumer
from mqcommon.names import java_hash
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.row_sink import RowSink
from tests.interop.clusters import Cluster
from tests.interop.java_driver import JavaDriver
from tests.interop.test_python_clients import Inbox

ROWS = 2000


def test_rows_at_a_java_broker(java_cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = java_cluster.create_topic(java_driver, "SparkRows")
    java = java_driver.consume(java_cluster.namesrv, "spark_rows_java", topic)
    keys = [f"order-{i % 7}" for i in range(ROWS)]
    batch = pa.record_batch(
        {
            "body": [f"row {i}" for i in range(ROWS)],
            "tags": [f"Tag{i % 3}" for i in range(ROWS)],
            "keys": [["all", f"k{i}"] for i in range(ROWS)],
            "properties": pa.array(
                [[("color", "grün"), ("i", str(i))] for i in range(ROWS)],
                pa.map_(pa.string(), pa.string()),
            ),
            "flag": pa.array(range(ROWS), pa.int32()),
            "delay_level": pa.array([1 if i == 5 else 0 for i in range(ROWS)], pa.int32()),
            "order_key": keys,
        }
    )
    # A Java broker loses batches that are larger than a file of its log; here they have 64 KiB.
    options = {"namesrv": java_cluster.namesrv, "topic": topic, "maxMessageSize": "30000"}
    sink = RowSink(Options.parse(options))
    sink.start("job/0/")
    sink.write(batch)
    assert sink.finish() == ROWS
    sink.close()
    inbox = Inbox()
    with PushConsumer("spark_rows", java_cluster.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic, "*", inbox.handle)
        messages = inbox.await_messages(ROWS)
    java.await_bodies({f"row {i}" for i in range(ROWS)})
    java.stop()
    assert len(messages) == ROWS
    last: dict[str, int] = {}
    for message in sorted(messages, key=lambda message: (message.queue_id, message.queue_offset)):
        row = message.flag
        assert message.body == f"row {row}".encode()
        assert (message.tags, message.keys) == (f"Tag{row % 3}", ("all", f"k{row}"))
        assert message.properties["color"] == "grün"
        assert message.properties["i"] == str(row)
        assert message.properties["sparkRowId"] == f"job/0/{row}"
        assert message.queue_id == abs(java_hash(keys[row])) % 4
        if row != 5:  # delayed, so it came later
            assert last.get(keys[row], -1) < row
            last[keys[row]] = row
