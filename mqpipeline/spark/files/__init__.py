"""Spark's batch source over store directories: format("rocketmq-store").

    spark.read.format("rocketmq-store").option("topic", "TopicTest").load("/var/lib/store")

Driver and executors must see the same paths. A read is a snapshot: the end of each file is fixed
when the read is planned. With `.schema("queue_offset long, ...")` only these columns are decoded.
For the options see `mqpipeline.spark.files.options.StoreOptions`.
"""

from mqpipeline.spark.files.columns import message_schema, wanted_schema
from mqpipeline.spark.files.source import StoreDataSource, register

__all__ = ["StoreDataSource", "message_schema", "register", "wanted_schema"]
