"""Spark's formats: "rocketmq" for topics, "rocketmq-store" for the files of a store.

    df = spark.read.format("rocketmq").option("namesrv", "127.0.0.1:9876") \
        .option("topic", "TopicTest").load()

Nothing of PySpark is imported before a function is called.
"""

from typing import Any

__all__ = ["deduplicated", "register"]


def register(spark: Any) -> None:
    """Make both formats known to a session that does not discover them, as after newSession()."""
    from mqpipeline.spark import files, topics

    topics.register(spark)
    files.register(spark)


def deduplicated(frame: Any, within: str = "10 minutes") -> Any:
    """Drop messages that a retried task sent again; see mqpipeline.spark.topics.dedup."""
    from mqpipeline.spark.topics import dedup

    return dedup.deduplicated(frame, within)
