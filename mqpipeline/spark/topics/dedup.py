"""Drops messages that a retried Spark task sent again, over all queues of a DataFrame."""

from __future__ import annotations

from typing import Any

from mqpipeline.spark.topics.rows import ROW_ID

__all__ = ["deduplicated"]

_IDENTITY = ("broker_name", "topic", "queue_id", "queue_offset")
_KEY = "__sparkRow"


def deduplicated(frame: Any, within: str = "10 minutes") -> Any:
    """Keep one message of each topic and property `sparkRowId`; messages without it all stay.

    frame: of format("rocketmq"), with the columns broker_name, topic, queue_id, queue_offset and
    properties; a stream needs store_timestamp too. within: how much later a repeat of a stream
    may be stored; Spark remembers the rows for this time. A batch does not need it.
    Raises ValueError naming a missing column.
    """
    from pyspark.sql import functions as sql

    needed = [*_IDENTITY, "properties", *(["store_timestamp"] if frame.isStreaming else [])]
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise ValueError(f"deduplicated needs the columns {', '.join(missing)}")
    row_id = sql.col("properties")[ROW_ID]
    named = sql.concat_ws("|", sql.lit("row"), "topic", row_id)
    alone = sql.concat_ws("|", sql.lit("message"), *_IDENTITY)
    keyed = frame.withColumn(_KEY, sql.when(row_id.isNull(), alone).otherwise(named))
    if frame.isStreaming:
        kept = keyed.withWatermark("store_timestamp", within)
        return kept.dropDuplicatesWithinWatermark([_KEY]).drop(_KEY)
    return keyed.dropDuplicates([_KEY]).drop(_KEY)
