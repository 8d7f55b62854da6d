"""Serves brokers' requests to a consumer: rebalance, reset, report, consume directly.

Rules: RocketMQ 4.9 `ClientRemotingProcessor`.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

from mqclient.consumer.assignment import Assignment
from mqclient.consumer.context import ConsumeContext, ConsumeResult, Handler, is_async
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.retry import original_topic
from mqclient.consumer.settings import ConsumerSettings
from mqclient.engine import Client
from mqclient.offsets import MemoryOffsets
from mqclient.wire.bodies.heartbeat import ConsumerData
from mqclient.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from mqclient.wire.bodies.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from mqclient.wire.codes import RequestCode, ResponseCode
from mqclient.wire.frame import Frame
from mqclient.wire.headers.clients import GetConsumerStatusRequestHeader
from mqstore.message import MessageQueue, ReceivedMessage, decode_reply

__all__ = ["RemoteControl"]


class RemoteControl:
    """Answers brokers for one consumer group."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        assignment: Assignment[ProcessQueue],
        offsets: MemoryOffsets,
        handler_of: Callable[[str], Handler | None],
        consumer_data: Callable[[], ConsumerData],
    ) -> None:
        self._client = client
        self._group = settings.group
        self._settings = settings
        self._assignment = assignment
        self._offsets = offsets
        self._handler_of = handler_of
        self._consumer_data = consumer_data
        self._started_ms = time.time_ns() // 1_000_000

    def serve(self) -> None:
        """Register with the engine."""
        serve = self._client.on_request
        serve(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._members_changed)
        serve(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset)
        serve(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status)
        serve(RequestCode.GET_CONSUMER_RUNNING_INFO, self._running_info)
        serve(RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume_directly)

    async def _members_changed(self, _address: str, request: Frame) -> None:
        if request.fields.get("consumerGroup") == self._group:
            self._assignment.rebalance_soon()

    async def _reset(self, _address: str, request: Frame) -> None:
        if request.fields.get("group") == self._group:
            body = ResetOffsetBody.from_json(request.body or b"{}")
            await self._assignment.reset(body.offset_table)

    async def _status(self, _address: str, request: Frame) -> Frame:
        header = GetConsumerStatusRequestHeader.from_fields(request.fields)
        table = self._offsets.of_topic(header.topic) if header.group == self._group else {}
        return request.reply(0, body=GetConsumerStatusBody(table).to_json())

    async def _running_info(self, _address: str, request: Frame) -> Frame:
        if request.fields.get("consumerGroup") != self._group:
            return self._unknown_group(request)
        held = {queue: self._queue_info(item) for queue, item in self._assignment.held.items()}
        properties = {
            "PROP_NAMESERVER_ADDR": ";".join(self._client.settings.namesrv),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CLIENT_VERSION": "V4_9_7",
            "PROP_CONSUMEORDERLY": "false",
            "PROP_THREADPOOL_CORE_SIZE": str(self._settings.threads),
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
        }
        info = ConsumerRunningInfo(properties, self._consumer_data().subscription_data_set, held)
        return request.reply(0, body=info.to_json())

    def _queue_info(self, held: ProcessQueue) -> ProcessQueueInfo:
        first = held.first_offset if len(held) else 0
        return ProcessQueueInfo(
            commit_offset=self._offsets.get(held.queue),
            cached_msg_min_offset=first,
            cached_msg_max_offset=first + held.span,
            cached_msg_count=len(held),
            cached_msg_size_in_mib=held.bytes_held >> 20,
            droped=held.dropped,
            last_pull_timestamp=held.last_pull_ms,
            last_consume_timestamp=held.last_consume_ms,
        )

    async def _consume_directly(self, _address: str, request: Frame) -> Frame:
        """Run the handler on one message; nothing is acknowledged."""
        if request.fields.get("consumerGroup") != self._group:
            return self._unknown_group(request)
        messages, damaged = decode_reply(request.body, request.fields.get("brokerName", ""))
        if damaged:
            return request.reply(ResponseCode.SYSTEM_ERROR, f"damaged message: {damaged[0]}")
        message = messages[0]
        message.topic = original_topic(message)
        handler = self._handler_of(message.topic)
        if handler is None:
            return request.reply(ResponseCode.SYSTEM_ERROR, f"no handler of {message.topic}")
        started = time.monotonic()
        result = ConsumeMessageDirectlyResult()
        try:
            outcome = await _run(handler, message)
            late = outcome is ConsumeResult.RECONSUME_LATER
            result.consume_result = "CR_LATER" if late else "CR_SUCCESS"
        except Exception as error:
            result.consume_result = "CR_THROW_EXCEPTION"
            result.remark = f"{type(error).__name__}: {error}"
        result.spent_time_mills = int((time.monotonic() - started) * 1000)
        return request.reply(0, body=result.to_json())

    def _unknown_group(self, request: Frame) -> Frame:
        group = request.fields.get("consumerGroup")
        return request.reply(
            ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
        )


async def _run(handler: Handler, message: ReceivedMessage) -> Any:
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    context = ConsumeContext(queue)
    if is_async(handler):
        outcome: Any = handler([message], context)
    else:
        outcome = await asyncio.to_thread(handler, [message], context)
    return await outcome if inspect.isawaitable(outcome) else outcome
