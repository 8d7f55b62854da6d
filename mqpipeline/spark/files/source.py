"""The Spark data source of format("rocketmq-store")."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from mqpipeline.spark.files import audit
from mqpipeline.spark.files.columns import arrow_of, message_schema, wanted_schema
from mqpipeline.spark.files.messages import STORE, MessageReader
from mqpipeline.spark.files.options import StoreOptions

__all__ = ["StoreDataSource", "register"]


class StoreDataSource(DataSource):  # type: ignore[misc]  # pyspark is not typed for us
    """The stored messages of store directories; for the options see StoreOptions."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "rocketmq-store"

    def schema(self) -> StructType:
        """Every column of the table; with several stores also the column `store`."""
        options = StoreOptions.parse(self.options)
        if options.table == "messages":
            return message_schema((STORE,) if len(options.paths) > 1 else ())
        schema = StructType()
        for name, kind in audit.COLUMNS[options.table].items():
            schema.add(name, kind)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in `schema`."""
        options = StoreOptions.parse(self.options)
        if options.table == "messages":
            return MessageReader(wanted_schema(schema, (STORE,)), options)
        return audit.AuditReader(arrow_of(schema, audit.COLUMNS[options.table]), options)


def register(spark: Any) -> None:
    """Register format("rocketmq-store") with a session that does not discover it itself."""
    spark.dataSource.register(StoreDataSource)
