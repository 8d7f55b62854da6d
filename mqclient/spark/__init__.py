"""Spark's source and sink over brokers: format("rocketmq"), in Arrow both ways.

    df = spark.read.format("rocketmq").option("nameserver", "127.0.0.1:9876") \
        .option("topic", "TopicTest").load()
"""

from typing import Any

__all__ = ["register"]


def register(spark: Any) -> None:
    """Make the format known to a session that does not discover it, as after newSession()."""
    from mqclient.spark import source

    source.register(spark)
