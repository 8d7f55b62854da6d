"""format("rocketmq") as a sink that keeps a pace: messages a second, or the original one."""

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

from mqclient.spark.source import RocketMQDataSource
from mqpipeline.storage import Lake

__all__ = ["Pace", "PacedSink", "send"]

FORMAT = "mqpipeline-paced"
STORED = "store_timestamp"
SLICE_S = 0.5
"""Messages of about this time are sent together."""


@dataclass(frozen=True, slots=True)
class Pace:
    """rate: messages a second, 0 for no limit. speed: times the original pace, 0 to ignore it.

    started_s, first_us: the wall clock, and the store time of the first message, when the replay
    began; they are the same for all tasks.
    """

    rate: float = 0.0
    speed: float = 0.0
    started_s: float = 0.0
    first_us: int = 0

    @property
    def is_set(self) -> bool:
        """Whether there is a pace to keep; then one task sends everything, in order."""
        return bool(self.rate or self.speed)

    def slices(self, batch: pa.RecordBatch) -> Iterator[tuple[float, pa.RecordBatch]]:
        """Parts of a batch, and for each the wall clock before which it may not be sent.

        With `rate` alone this is 0, and the caller waits after each part.
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
    """What one task sent."""

    messages: int


class PacedSink(DataSource):  # type: ignore[misc]
    """format("mqpipeline-paced"): options lake, listing, rate, ..., and `to` for the topic's."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer of messages; the column `store_timestamp` gives the pace and is not sent."""
        target = _options(json.loads(self.options["to"]))
        sent = StructType([field for field in schema if field.name != STORED])
        inner = RocketMQDataSource(target).writer(sent, overwrite)
        where = (self.options["lake"], self.options["listing"])
        return PacedWriter(inner, Pace(**json.loads(self.options["pace"])), where)


def _options(given: Mapping[str, str]) -> Any:
    from pyspark.sql.datasource import CaseInsensitiveDict

    return CaseInsensitiveDict(given)


class PacedWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Gives the writer of format("rocketmq") its rows when they are due."""

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
        """Say how many messages were sent."""
        lake, listing = self._where
        total = sum(message.messages for message in messages)
        Lake(lake).replace(listing, json.dumps({"messages": total}).encode())

    def abort(self, messages: list[Any]) -> None:
        """Nothing: what is sent cannot be taken back."""


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
    """Send the rows of a DataFrame; returns how many. to: options of format("rocketmq")."""
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
