"""Spark's source and sink over brokers: format("rocketmq"), in Arrow both ways.

    df = spark.read.format("rocketmq").option("namesrv", "127.0.0.1:9876") \
        .option("topic", "TopicTest").load()
"""

from typing import Any

__all__ = ["deduplicated", "register"]


def register(spark: Any) -> None:
    """Make the format known to a session that does not discover it, as after newSession()."""
    from mqpipeline.spark.topics import source

    source.register(spark)


def deduplicated(frame: Any, within: str = "10 minutes") -> Any:
    """Drop messages that a retried task sent again; see mqpipeline.spark.topics.dedup."""
    from mqpipeline.spark.topics import dedup

    return dedup.deduplicated(frame, within)
