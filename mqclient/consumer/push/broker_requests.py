"""Serves brokers' requests to a consumer: rebalance, reset, report, consume directly.

Rules: RocketMQ 4.9 `ClientRemotingProcessor`. After a reset (220) the consumer continues at once,
not after 10 s.
"""

import inspect
import time
from collections.abc import Callable
from typing import Any

from mqclient.consumer.assignment import Assignment
from mqclient.consumer.context import ConsumeContext, ConsumeResult
from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.push.running_info import RunningInfo
from mqclient.consumer.push.send_back import original_topic
from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.engine.threads import in_thread
from mqclient.settings.consumers import PushOptions
from mqcommon.message import ReceivedMessage, decode_reply, queue_of
from mqcommon.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from mqcommon.wire.bodies.running import ConsumeMessageDirectlyResult
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.clients import (
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)

__all__ = ["RemoteControl"]

_ANSWERS: dict[ConsumeResult | None, str] = {
    None: "CR_SUCCESS",
    ConsumeResult.SUCCESS: "CR_SUCCESS",
    ConsumeResult.COMMIT: "CR_COMMIT",
    ConsumeResult.ROLLBACK: "CR_ROLLBACK",
}
"""What 309 is answered by a handler's result; CR_LATER to all others."""


class RemoteControl:
    """Answers brokers for one consumer group."""

    def __init__(
        self,
        client: Client,
        settings: PushOptions,
        assignment: Assignment[ProcessQueue],
        offsets: MemoryOffsets,
        subscription_of: Callable[[str], Subscription | None],
        info: RunningInfo,
    ) -> None:
        self._client = client
        self._settings = settings
        self._assignment = assignment
        self._offsets = offsets
        self._subscription_of = subscription_of
        self._info = info

    def serve(self) -> None:
        """Register with the engine."""
        serve = self._client.on_request
        serve(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._members_changed)
        serve(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset)
        serve(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status)
        serve(RequestCode.GET_CONSUMER_RUNNING_INFO, self._running_info)
        serve(RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume_directly)

    async def _members_changed(self, _address: str, request: Frame) -> None:
        if request.fields.get("consumerGroup") == self._settings.group:
            self._assignment.rebalance_soon()

    async def _reset(self, _address: str, request: Frame) -> None:
        if request.fields.get("group") == self._settings.group:
            body = ResetOffsetBody.from_json(request.body or b"{}")
            await self._assignment.reset(body.offset_table)

    async def _status(self, _address: str, request: Frame) -> Frame:
        header = GetConsumerStatusRequestHeader.from_fields(request.fields)
        ours = header.group == self._settings.group
        table = self._offsets.of_topic(header.topic) if ours else {}
        return request.reply(0, body=GetConsumerStatusBody(table).to_json())

    async def _running_info(self, _address: str, request: Frame) -> Frame:
        header = GetConsumerRunningInfoRequestHeader.from_fields(request.fields)
        if header.consumer_group != self._settings.group:
            return self._unknown_group(request)
        return request.reply(0, body=self._info.take(stacks=header.jstack_enable).to_json())

    async def _consume_directly(self, _address: str, request: Frame) -> Frame:
        """Run the handler on one message; nothing is acknowledged."""
        if request.fields.get("consumerGroup") != self._settings.group:
            return self._unknown_group(request)
        messages, damaged = decode_reply(request.body, request.fields.get("brokerName", ""))
        if damaged:
            return request.reply(ResponseCode.SYSTEM_ERROR, f"damaged message: {damaged[0]}")
        message = messages[0]
        message.topic = self._client.namespace.unwrap(original_topic(message))
        subscription = self._subscription_of(message.topic)
        if subscription is None or subscription.handler is None:
            return request.reply(ResponseCode.SYSTEM_ERROR, f"no handler of {message.topic}")
        subscription.give_values([message])
        context = ConsumeContext(queue_of(message))
        started = time.monotonic()
        result = ConsumeMessageDirectlyResult(order=bool(self._settings.orderly))
        try:
            outcome = await _run(subscription, message, context)
            result.consume_result = "CR_LATER"
            if outcome is None or isinstance(outcome, ConsumeResult):
                result.consume_result = _ANSWERS.get(outcome, "CR_LATER")
            else:
                result.remark = f"the handler returned {outcome!r}, no ConsumeResult"
        except Exception as error:
            result.consume_result = "CR_THROW_EXCEPTION"
            result.remark = f"{type(error).__name__}: {error}"
        result.auto_commit = context.auto_commit
        result.spent_time_mills = int((time.monotonic() - started) * 1000)
        return request.reply(0, body=result.to_json())

    def _unknown_group(self, request: Frame) -> Frame:
        group = request.fields.get("consumerGroup")
        return request.reply(
            ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
        )


async def _run(
    subscription: Subscription, message: ReceivedMessage, context: ConsumeContext
) -> Any:
    handler = subscription.handler
    assert handler is not None
    if subscription.on_loop:
        outcome: Any = handler([message], context)
    else:
        outcome = await in_thread(handler, [message], context)
    return await outcome if inspect.isawaitable(outcome) else outcome
