"""A data source that yields the same Arrow batch from memory: the best rate of PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

__all__ = ["MemorySource"]


@dataclass
class Share(InputPartition):  # type: ignore[misc]  # pyspark is not typed for us
    """The share of one task. times: how often it yields the batch."""

    times: int


class MemorySource(DataSource):  # type: ignore[misc]
    """Options: path of an Arrow file with one batch, times to yield it, tasks."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bench-memory"

    def schema(self) -> StructType:
        """The schema of the file."""
        with pa.OSFile(self.options["path"]) as file:
            return from_arrow_schema(pa.ipc.open_file(file).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader that splits the batches over the tasks."""
        times, tasks = int(self.options["times"]), int(self.options["tasks"])
        return MemoryReader(self.options["path"], times, tasks)


class MemoryReader(DataSourceReader):  # type: ignore[misc]
    """Yields the batch of a file repeatedly."""

    def __init__(self, path: str, times: int, tasks: int) -> None:
        self._path = path
        self._times = times
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """One share for each task, all of about the same size."""
        return [
            Share(self._times * (task + 1) // self._tasks - self._times * task // self._tasks)
            for task in range(self._tasks)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batch `partition.times` times."""
        with pa.OSFile(self._path) as file:
            batch = pa.ipc.open_file(file).get_batch(0)
        for _ in range(partition.times):
            yield batch
