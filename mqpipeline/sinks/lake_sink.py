"""The sink of the jobs: writes Spark's Arrow batches to Parquet files in a staging folder.

It is a data source because `mapInArrow` would need pandas. The commit writes a list of the files
next to them, and only files of this list are moved to the lake: it does not contain files of failed
or superseded task attempts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from mqpipeline.lake.lake_writer import LakeWriter, WrittenFile
from mqpipeline.lake.storage import Lake

__all__ = ["LakeSink", "write"]

FORMAT = "mqpipeline-lake"
LISTING = "written.json"


@dataclass
class _Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed for us
    """The files of one task attempt. attempt: their folder in the staging folder."""

    attempt: str
    files: list[WrittenFile] = field(default_factory=list)


class LakeSink(DataSource):  # type: ignore[misc]
    """format("mqpipeline-lake") with the options lake, staging, by, and store or ranges."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """A writer of messages."""
        return _Writer(dict(self.options))


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task attempt."""
        options, attempt = self._options, uuid4().hex[:12]
        staging = f"{options['staging']}/{attempt}"
        ranges = json.loads(options.get("ranges", "{}"))
        place = (Lake(options["lake"]), staging, options["by"])
        writer = LakeWriter(*place, options.get("store"), ranges)
        for batch in iterator:
            writer.add(batch)
        return _Written(attempt, writer.close())

    def commit(self, messages: list[Any]) -> None:
        """Write the list of the files of the successful attempts."""
        listed = [
            {"staged": f"{message.attempt}/{file.path}", **file.to_json()}
            for message in messages
            for file in message.files
        ]
        path = f"{self._options['staging']}/{LISTING}"
        Lake(self._options["lake"]).replace(path, json.dumps(listed).encode())

    def abort(self, messages: list[Any]) -> None:
        """Do nothing: the next run deletes the staging folder."""


def write(
    frame: Any,
    lake: Lake,
    staging: str,
    by: str,
    store: str | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> list[tuple[str, WrittenFile]]:
    """Write the messages of a DataFrame to a staging folder; returns each file with its path there.

    store: the store that the messages were read from; None for messages of queues. ranges: offset
    ranges of the queues; messages outside them are dropped.
    """
    frame.sparkSession.dataSource.register(LakeSink)
    options = {"lake": lake.where, "staging": staging, "by": by}
    if store is not None:
        options["store"] = store
    if ranges is not None:
        options["ranges"] = json.dumps(ranges)
    frame.write.format(FORMAT).options(**options).mode("append").save()
    listed = lake.report(f"{staging}/{LISTING}")
    return [(entry.pop("staged"), WrittenFile(**entry)) for entry in listed]
