"""The running info of a consumer, for RocketMQ's `mqadmin consumerStatus` (307).

Rules: RocketMQ 4.9 `DefaultMQPushConsumerImpl.consumerRunningInfo`, `MQClientInstance.
consumerRunningInfo` and `UtilAll.jstack`.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from traceback import StackSummary, extract_stack

from mqclient.consumer.assignment import Assignment
from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.statistics import ConsumerStatistics
from mqclient.settings.clients import ConnectionOptions
from mqclient.settings.consumers import PushOptions
from mqcommon.wire.bodies.heartbeat import ConsumerData
from mqcommon.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo

__all__ = ["RunningInfo"]

STACKS_INTERVAL = 1.0
"""Seconds for which the stacks that were read last are given again. Reading them takes
milliseconds, in which the client does nothing else."""


class RunningInfo:
    """Describes one consumer."""

    def __init__(
        self,
        client: ConnectionOptions,
        settings: PushOptions,
        assignment: Assignment[ProcessQueue],
        offsets: MemoryOffsets,
        statistics: ConsumerStatistics,
        consumer_data: Callable[[], ConsumerData],
    ) -> None:
        self._client = client
        self._settings = settings
        self._assignment = assignment
        self._offsets = offsets
        self._statistics = statistics
        self._consumer_data = consumer_data
        self._started_ms = time.time_ns() // 1_000_000
        self._stacks = ""
        self._stacks_due = 0.0

    def take(self, *, stacks: bool) -> ConsumerRunningInfo:
        """The consumer as it is now. stacks: with what each thread and task is doing."""
        subscriptions = self._consumer_data().subscription_data_set
        topics = [data.topic for data in subscriptions]
        return ConsumerRunningInfo(
            self._properties(),
            subscriptions,
            {queue: self._queue_info(item) for queue, item in self._assignment.held.items()},
            {topic: self._statistics.status(topic) for topic in topics},
            self._recent_stacks() if stacks else None,
        )

    def _recent_stacks(self) -> str:
        now = time.monotonic()
        if now >= self._stacks_due:
            self._stacks = _stacks()
            self._stacks_due = now + STACKS_INTERVAL
        return self._stacks

    def _properties(self) -> dict[str, str]:
        settings = self._settings
        return {
            "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in self._client.servers),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CLIENT_VERSION": "V4_9_7",
            "PROP_CONSUMEORDERLY": str(bool(settings.orderly)).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(settings.threads),
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            **_java_properties(settings, self._consumer_data().consume_from_where),
        }

    def _queue_info(self, held: ProcessQueue) -> ProcessQueueInfo:
        first = held.first_offset if len(held) else 0
        return ProcessQueueInfo(
            commit_offset=self._offsets.get(held.queue),
            cached_msg_min_offset=first,
            cached_msg_max_offset=first + held.span,
            cached_msg_count=len(held),
            cached_msg_size_in_mib=held.bytes_held >> 20,
            locked=time.monotonic() < held.locked_until,
            last_lock_timestamp=held.last_lock_ms,
            droped=held.dropped,
            last_pull_timestamp=held.last_pull_ms,
            last_consume_timestamp=held.last_consume_ms,
        )


def _java_properties(settings: PushOptions, where: str | None) -> dict[str, str]:
    """Settings by the names that they have in RocketMQ's DefaultMQPushConsumer."""
    limits = settings.limits
    size = -1 if limits.total_bytes is None else limits.total_bytes >> 20
    return {
        "consumerGroup": settings.group,
        "messageModel": settings.model.upper(),
        "consumeFromWhere": where or "",
        "consumeMessageBatchMaxSize": str(settings.batch_size),
        "consumeThreadMin": str(settings.threads),
        "consumeThreadMax": str(settings.threads),
        "consumeTimeout": str(round(settings.consume_timeout / 60)),
        "maxReconsumeTimes": str(-1 if settings.max_retries is None else settings.max_retries),
        "pullBatchSize": str(settings.pull.batch),
        "pullInterval": str(round(settings.pull.interval * 1000)),
        "consumeConcurrentlyMaxSpan": str(limits.queue_offset_span),
        "pullThresholdForQueue": str(limits.queue_messages),
        "pullThresholdForTopic": str(limits.total_messages or -1),
        "pullThresholdSizeForQueue": str(limits.queue_bytes >> 20),
        "pullThresholdSizeForTopic": str(size),
        "suspendCurrentQueueTimeMillis": str(round(settings.retry_delay * 1000)),
    }


def _stacks() -> str:
    """Each thread, and each task of the running loop, with its stack, the innermost call first."""
    frames = sys._current_frames()
    lines: list[str] = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            lines += _described(thread.name, thread.ident or 0, extract_stack(frame))
    for task in asyncio.all_tasks():
        stack = StackSummary.extract((frame, frame.f_lineno) for frame in task.get_stack())
        lines += _described(task.get_name(), id(task), stack)
    return "\n".join(lines)


def _described(name: str, number: int, stack: StackSummary) -> Iterator[str]:
    yield f"{name:<40} TID: {number} STATE: RUNNABLE"
    for call in reversed(stack):
        yield f"{name:<40} {call.name}({call.filename}:{call.lineno})"
    yield ""
