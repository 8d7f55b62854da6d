"""format("rocketmq"): the data source that Spark asks for readers and writers."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from mqpipeline.spark.files import message_schema, wanted_schema
from mqpipeline.spark.topics.batch import BatchReader
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.pushdown import PushdownReader
from mqpipeline.spark.topics.stream import StreamReader
from mqpipeline.spark.topics.writer import BatchWriter, StreamWriter

__all__ = ["RocketMQDataSource", "register"]

CONSTANTS = ("broker_name",)
"""Columns that are the same in every row of one broker."""


class RocketMQDataSource(DataSource):  # type: ignore[misc]  # pyspark is not typed for us
    """Messages of topics, read and written over the network; options: see Options.

    Reading gives the columns of `message_schema`; name a subset by `.schema(...)` and only
    that is decoded. Writing takes the columns topic (or the option), body (binary or string),
    tags, keys, properties (map), flag, delay_level; all but the body may be missing.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Every column of a message."""
        return message_schema(CONSTANTS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read of the columns in `schema`."""
        options = Options.parse(self.options, "batch")
        kind = PushdownReader if options.pushdown else BatchReader
        return kind(wanted_schema(schema, CONSTANTS), options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming read of the columns in `schema`."""
        return StreamReader(wanted_schema(schema, CONSTANTS), Options.parse(self.options, "stream"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write: mode("append"); topics cannot be overwritten."""
        if overwrite:
            raise ValueError('messages are only ever appended: use .mode("append")')
        return BatchWriter(schema, Options.parse(self.options, "write"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A streaming write, at least once."""
        return StreamWriter(schema, Options.parse(self.options, "write"))


def register(spark: Any) -> None:
    """Make format("rocketmq") known to a session that does not discover it by itself."""
    spark.dataSource.register(RocketMQDataSource)
