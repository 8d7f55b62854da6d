"""A sink that sends to format("rocketmq") at a rate or at the original speed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mqpipeline.lake.storage import Lake
from mqpipeline.spark.topics.source import RocketMQDataSource

__all__ = ["Pace", "PacedSink", "send"]

FORMAT = "mqpipeline-paced"
STORED = "store_timestamp"
SLICE_S = 0.5
"""Seconds of messages that are sent together, about."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A sending speed.

    rate: messages per second, 0 for no limit. speed: multiple of the original speed, 0 to ignore
    it. started_s: wall clock time at the start of the replay. first_us: store time of the first
    message. The last two are the same for all tasks.
    """

    rate: float = 0.0
    speed: float = 0.0
    started_s: float = 0.0
    first_us: int = 0

    @property
    def is_set(self) -> bool:
        """Whether there is a rate or a speed; then one task sends all messages in order."""
        return bool(self.rate or self.speed)

    def slices(self, batch: pa.RecordBatch) -> Iterator[tuple[float, pa.RecordBatch]]:
        """Split a batch into parts, each with the wall clock time before which it must not be sent.

        With only a `rate` this time is 0, and the caller waits after each part.
        """
        if not self.speed:
            most = max(int(self.rate * SLICE_S), 1)
            for at in range(0, batch.num_rows, most):
                yield 0.0, batch.slice(at, most)
            return
        stored = batch.column(STORED).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        slot_us = max(int(SLICE_S * self.speed * 1_000_000), 1)
        slots = pc.divide(pc.subtract(stored, self.first_us), slot_us).to_pylist()
        start = 0
        for at in range(1, len(slots) + 1):
            if at == len(slots) or slots[at] != slots[start]:
                yield self.started_s + slots[start] * SLICE_S, batch.slice(start, at - start)
                start = at


@dataclass
class _Sent(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed for us
    """The number of messages that one task sent."""

    messages: int


class PacedSink(DataSource):  # type: ignore[misc]
    """format("mqpipeline-paced"). Options: lake, listing, pace, and `to` for format("rocketmq")."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer of messages; the column `store_timestamp` is used for the speed and is not
        sent."""
        target = _options(json.loads(self.options["to"]))
        sent = StructType([field for field in schema if field.name != STORED])
        inner = RocketMQDataSource(target).writer(sent, overwrite)
        where = (self.options["lake"], self.options["listing"])
        return PacedWriter(inner, Pace(**json.loads(self.options["pace"])), where)


def _options(given: Mapping[str, str]) -> Any:
    from pyspark.sql.datasource import CaseInsensitiveDict

    return CaseInsensitiveDict(given)


class PacedWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Passes rows to the writer of format("rocketmq") when they are due."""

    def __init__(
        self,
        inner: Any,
        pace: Pace,
        where: tuple[str, str],
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner, self._pace, self._where = inner, pace, where
        self._clock, self._sleep = clock, sleep

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task."""
        if not self._pace.is_set:
            counted = _Counted(iterator)
            self._inner.write(iter(counted))
            return _Sent(counted.rows)
        sent = 0
        for batch in iterator:
            for due_s, part in self._pace.slices(batch):
                if part.num_rows:
                    self._wait_until(due_s)
                    began_s = self._clock()
                    self._inner.write(iter([_without_time(part)]))
                    sent += part.num_rows
                    if self._pace.rate:
                        self._wait_until(began_s + part.num_rows / self._pace.rate)
        return _Sent(sent)

    def _wait_until(self, due_s: float) -> None:
        left_s = due_s - self._clock()
        if left_s > 0:
            self._sleep(left_s)

    def commit(self, messages: list[Any]) -> None:
        """Write the number of sent messages to the listing."""
        lake, listing = self._where
        total = sum(message.messages for message in messages)
        Lake(lake).replace(listing, json.dumps({"messages": total}).encode())

    def abort(self, messages: list[Any]) -> None:
        """Do nothing: sent messages cannot be taken back."""


class _Counted:
    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield _without_time(batch)


def _without_time(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name != STORED])


def send(frame: Any, lake: Lake, listing: str, pace: Pace, to: Mapping[str, str]) -> int:
    """Send the rows of a DataFrame; returns their number. to: options of format("rocketmq")."""
    frame.sparkSession.dataSource.register(PacedSink)
    options = {
        "lake": lake.where,
        "listing": listing,
        "to": json.dumps(dict(to)),
        "pace": json.dumps(
            {"rate": pace.rate, "speed": pace.speed, "started_s": pace.started_s,
             "first_us": pace.first_us}
        ),
    }  # fmt: skip
    frame.write.format(FORMAT).options(**options).mode("append").save()
    count: int = lake.report(listing)["messages"]
    return count
