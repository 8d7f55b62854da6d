"""Batch and streaming writes: rows in Arrow batches become messages, sent in batches.

At least once: a task that Spark runs again sends its messages again. Messages of a streaming
write carry the property `sparkRowId` ("query/batch/partition/row", the same each time a row is
sent), by which a consumer can recognise them.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mqclient.results import SendResult
from mqclient.spark.options import Options
from mqclient.sync import Producer
from mqstore.message import SYSTEM_PROPERTIES, Message
from mqstore.spark import message_schema

__all__ = ["BatchWriter", "StreamWriter"]

BATCH_MESSAGES = 500
"""Most messages of one send ..."""
BATCH_BYTES = 512 << 10
"""... and most bytes of their bodies, whichever comes first."""
SENDS_IN_FLIGHT = 8
"""Sends of one task that are under way at a time."""
ROW_ID = "sparkRowId"
"""Property that names a row of a streaming write."""

_COLUMNS = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "flag": ("int",),
    "delay_level": ("int",),
}


@dataclass
class _Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed for us
    """What one task wrote."""

    messages: int


class _Rows:
    """Turns Arrow batches into lists of messages that can be sent together."""

    def __init__(self, schema: StructType, options: Options) -> None:
        known = {field.name for field in message_schema()} | {"broker_name"}
        for field in schema:
            kinds = _COLUMNS.get(field.name)
            kind = field.dataType.simpleString()
            if kinds is None and field.name not in known:
                raise ValueError(f"no column {field.name!r}; there are: {', '.join(_COLUMNS)}")
            if kinds is not None and kind not in kinds:
                raise ValueError(f"column {field.name!r} must be {' or '.join(kinds)}, not {kind}")
        if "body" not in schema.names:
            raise ValueError('a write needs a column "body", binary or string')
        if "topic" not in schema.names and options.topic is None:
            raise ValueError('say where to write: .option("topic", ...) or a column "topic"')
        self._names = [name for name in schema.names if name in _COLUMNS]
        self._topic = options.topic

    def messages(self, batch: pa.RecordBatch) -> Iterator[Message]:
        """One message per row, in order; ValueError for a row that cannot be sent."""
        columns = [self._values(batch, name) for name in self._names]
        for row in zip(*columns, strict=True):
            yield self._message(dict(zip(self._names, row, strict=True)))

    @staticmethod
    def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
        column = batch.column(name)
        if name == "body" and not pa.types.is_binary(column.type):
            column = column.cast(pa.binary())
        values: list[Any] = column.to_pylist()
        return values

    def _message(self, row: Mapping[str, Any]) -> Message:
        topic, body, keys = row.get("topic") or self._topic, row["body"], row.get("keys")
        if not topic or not body:
            raise ValueError(f"a row has no {'body' if topic else 'topic'}: {row}")
        own = dict(row.get("properties") or {})
        return Message(
            topic,
            body,
            tags=row.get("tags") or None,
            keys=(keys.split() if isinstance(keys, str) else keys) or None,
            flag=row.get("flag") or 0,
            properties={k: v for k, v in own.items() if v and k not in SYSTEM_PROPERTIES},
            delay_level=row.get("delay_level") or 0,
        )


def _sendable(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Batches of one topic, within the limits; a delayed message travels alone."""
    open_batches: dict[str, tuple[list[Message], int]] = {}
    for message in messages:
        if message.delay_level:
            yield [message]
            continue
        batch, size = open_batches.pop(message.topic, ([], 0))
        if size and size + len(message.body) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(message)
        if len(batch) == BATCH_MESSAGES:
            yield batch
        else:
            open_batches[message.topic] = (batch, size + len(message.body))
    yield from (batch for batch, _ in open_batches.values())


def _send_all(producer: Producer, batches: Iterable[list[Message]], timeout: float) -> int:
    """Send, a few batches at a time; returns how many messages are stored."""
    pending: deque[tuple[Future[SendResult], int]] = deque()
    stored = 0
    for batch in batches:
        message = batch[0] if len(batch) == 1 else batch
        pending.append((producer.send_async(message, timeout=timeout), len(batch)))
        if len(pending) >= SENDS_IN_FLIGHT:
            future, count = pending.popleft()
            future.result()
            stored += count
    for future, count in pending:
        future.result()
        stored += count
    return stored


_producers: dict[tuple[object, ...], Producer] = {}


def _producer(options: Options) -> Producer:
    """This worker's producer; Spark reuses workers, so it is kept until the process ends."""
    addresses = tuple(sorted(options.address_map.items()))
    account = tuple(sorted(options.account.items()))
    here = (account, options.tls, os.getpid())
    key = (options.nameserver, options.producer_group, addresses, *here)
    if key not in _producers:
        producer = Producer(
            options.nameserver,
            group=options.producer_group,
            address_map=options.address_map,
            timeout=options.timeout,
            tls=options.tls,
            **options.account,
        )
        producer.start()
        atexit.register(producer.close)
        _producers[key] = producer
    return _producers[key]


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends the rows of a DataFrame."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._rows = _Rows(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task; returns when all are stored."""
        messages = (m for batch in iterator for m in self._rows.messages(batch))
        producer = _producer(self._options)
        return _Written(_send_all(producer, _sendable(messages), self._options.timeout))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: what is sent is sent."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: what is sent cannot be taken back."""


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Appends the rows of each micro-batch."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._rows = _Rows(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task, each with its `sparkRowId`."""
        messages = (m for batch in iterator for m in self._rows.messages(batch))
        producer = _producer(self._options)
        sendable = _sendable(_stamped(messages))
        return _Written(_send_all(producer, sendable, self._options.timeout))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what is sent is sent."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what is sent cannot be taken back."""


def _stamped(messages: Iterable[Message]) -> Iterator[Message]:
    """Name each row by query, batch, partition and number, as far as Spark tells them."""
    from pyspark import TaskContext

    context = TaskContext.get()
    local = context.getLocalProperty if context is not None else (lambda _: None)
    query = local("sql.streaming.queryId") or ""
    batch = local("streaming.sql.batchId") or ""
    partition = context.partitionId() if context is not None else 0
    for row, message in enumerate(messages):
        message.properties[ROW_ID] = f"{query}/{batch}/{partition}/{row}"
        yield message
