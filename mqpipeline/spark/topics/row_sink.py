"""Sends rows from a worker process: the client's routes, and the native writer of rows."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import random
import time
from dataclasses import astuple
from functools import cache

import pyarrow as pa

from mqclient.blocking.loop_thread import LoopThread
from mqclient.engine.client import Client
from mqclient.engine.routes import TopicRoute
from mqclient.errors import (
    BrokerError,
    ClientTimeout,
    NoRouteError,
    RocketMQError,
    UnreachableError,
)
from mqclient.settings.checks import check_sendable
from mqcommon._core import RowWriter, SendFailed
from mqcommon.message import SYSTEM_PROPERTIES, unique_id_origin
from mqcommon.wire.calls import namesrv_calls
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.write_columns import column_buffers

__all__ = ["RowSink", "Sinks", "WriteError", "worker_sinks"]

TOPIC_QUEUES = 4
"""Queues of a topic that a send creates."""
ROUTE_PAUSE_S = 0.5
"""Seconds between two tries to fetch a route while no NameServer answers."""
CLOSE_TIMEOUT_S = 1.0
SINKS_MAX = 8
"""Most sinks that stay open in a worker process, one for each set of options."""


class WriteError(RocketMQError):
    """A task could not write all its rows. The text says why, and which rows are acknowledged."""


class RowSink:
    """Writes the rows of one task after the other; its connections stay open between them.

    Belongs to one thread and one process. The client's engine provides routes, accounts, TLS and
    addresses, and sends the producer group to brokers.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        settings = options.client_settings()
        self._client = Client(settings)
        self._client.add_producer(options.producer_group)
        self._thread = LoopThread()
        self._thread.run(self._client.start())
        plan = {
            "group": options.producer_group,
            "topic": options.topic,
            "request_timeout": options.timeout,
            "retry_timeout": options.retry_timeout,
            "message_bytes_max": options.max_message_size,
            "rate": options.max_rate,
            "reserved": SYSTEM_PROPERTIES,
            "first_queue": random.randrange(1 << 30),
        }
        self._writer = RowWriter(settings.transport_arguments(), plan, self._queues)

    def close(self) -> None:
        """Close the connections; twice is fine."""
        self._writer.close(CLOSE_TIMEOUT_S)
        if self._thread.usable:
            self._thread.run(self._client.close(CLOSE_TIMEOUT_S))
            self._thread.stop()

    def start(self, row_id: str) -> None:
        """Begin a task. row_id: the property `sparkRowId` up to the number of the row."""
        self._writer.start(row_id, *unique_id_origin())

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; returns once most of them are sent. Raises WriteError."""
        try:
            self._writer.write(batch.num_rows, column_buffers(batch))
        except (SendFailed, RocketMQError, ValueError) as error:
            raise self._failure(error) from error

    def finish(self) -> int:
        """Wait until brokers have acknowledged every row; returns their number."""
        try:
            self._writer.finish()
        except (SendFailed, RocketMQError, ValueError) as error:
            raise self._failure(error) from error
        return self._writer.progress()[1]

    # --- routes

    def _queues(self, topic: str, is_again: bool) -> list[tuple[str, str, int]]:
        """The queues of a topic that take sends: broker's name, address to connect, queue id.

        is_again: a send failed, so ask the NameServer, once.
        """
        check_sendable(topic)
        wait = 0.0 if is_again else self._options.retry_timeout
        route = self._thread.run(self._route(topic, is_again, time.monotonic() + wait))
        address_of, mapped = self._client.routes.address, self._client.mapped
        masters = [(queue, address_of(queue, only_this=True)) for queue in route.publish]
        return [
            (queue.broker_name, mapped(address), queue.queue_id)
            for queue, address in masters
            if address is not None
        ]

    async def _route(self, topic: str, is_again: bool, deadline: float) -> TopicRoute:
        while True:
            try:
                if is_again:
                    await self._client.routes.refresh(topic)
                return await self._client.routes.for_sending(topic, TOPIC_QUEUES)
            except (UnreachableError, ClientTimeout, NoRouteError) as error:
                is_final = isinstance(error, NoRouteError) and await self._has_brokers()
                if is_final or time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(ROUTE_PAUSE_S)

    async def _has_brokers(self) -> bool:
        """Whether a NameServer knows any broker; it knows none while the only one restarts."""
        info = await self._client.invoke_namesrv(namesrv_calls.cluster_info())
        return bool(info.broker_addr_table)

    # --- failures

    def _failure(self, error: Exception) -> WriteError:
        cause = self._cause(error) if isinstance(error, SendFailed) else error
        rows, stored, first = self._writer.progress()
        return WriteError(
            f"{cause}; brokers have acknowledged {stored} of the {rows} rows that this task has "
            f"read so far, the first row without an acknowledgement is row {first}, and such rows "
            f"may be stored nevertheless"
        )

    def _cause(self, error: SendFailed) -> Exception:
        category, broker, address, code, text = error.args
        if category == "refused":
            return BrokerError(code, text, f"broker {broker}")
        if category == "unreachable":
            mapped = self._options.address_map.items()
            advertised = next((known for known, used in mapped if used == address), address)
            return self._client.explain(advertised, UnreachableError(text, address))
        return ClientTimeout(text) if category == "timeout" else RocketMQError(text)


class Sinks:
    """The sinks of a worker process, which Spark uses for one task after the other.

    A sink stays open between tasks. Of more than `SINKS_MAX`, the one that was used longest ago is
    closed; `close` closes all. Belongs to one thread.
    """

    def __init__(self) -> None:
        self._open: dict[bytes, RowSink] = {}
        self._process = os.getpid()

    def sink(self, options: Options) -> RowSink:
        """The sink for these options."""
        if self._process != os.getpid():
            self._open = {}  # a fork has the parent's sinks, which work in the parent only
            self._process = os.getpid()
        key = _digest(options)
        sink = self._open.pop(key, None) or RowSink(options)
        self._open[key] = sink
        while len(self._open) > SINKS_MAX:
            self._open.pop(next(iter(self._open))).close()
        return sink

    def close(self) -> None:
        """Close all sinks of this process."""
        if self._process == os.getpid():
            while self._open:
                self._open.popitem()[1].close()


def _digest(options: Options) -> bytes:
    """Equal for equal options of a sink. It contains no secret, so it may stay in memory."""
    facts = (
        *(options.namesrv, options.producer_group, options.topic),
        *(options.timeout, options.retry_timeout, options.max_rate, options.max_message_size),
        options.tls and astuple(options.tls),
        sorted(options.address_map.items()),
        options.account and astuple(options.account),
    )
    return hashlib.sha256(repr(facts).encode()).digest()


@cache
def worker_sinks() -> Sinks:
    """The sinks of this worker process. The process closes them when it ends."""
    sinks = Sinks()
    atexit.register(sinks.close)
    return sinks
