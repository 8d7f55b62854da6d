"""Spark's batch source over store directories: format("rocketmq-store").

    spark.read.format("rocketmq-store").option("topic", "TopicTest").load("/var/lib/store")

Driver and executors must see the same paths. A read is a snapshot: where each file ends is
fixed when it is planned. Name a subset of the columns by `.schema("queue_offset long, ...")`
and only that is decoded. For the options see `mqstore.spark.options.StoreOptions`.
"""

from mqstore.spark.columns import message_schema, wanted_schema
from mqstore.spark.source import StoreDataSource, register

__all__ = ["StoreDataSource", "message_schema", "register", "wanted_schema"]
