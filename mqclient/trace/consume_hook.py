"""Trace of consumption (`ConsumeMessageTraceHookImpl`)."""

import inspect
from collections.abc import Callable
from typing import Any

from mqclient.consumer.context import ConsumeContext, ConsumeResult, Handler, is_async
from mqclient.trace.dispatcher import TraceDispatcher
from mqclient.trace.records import (
    EXCEPTION,
    FAILED,
    RETURN_NULL,
    SUCCESS,
    TIME_OUT,
    TraceRecord,
    current_ms,
    keys_of,
    record_text,
)
from mqcommon.message import ReceivedMessage, unique_id

__all__ = ["ConsumeTrace"]


class ConsumeTrace:
    """Makes the records of a consumer's calls of handlers.

    consume_timeout: seconds after which a call counts as timed out.
    """

    def __init__(self, dispatcher: TraceDispatcher, consume_timeout: float) -> None:
        self._dispatcher = dispatcher
        self._limit_ms = int(consume_timeout * 1000)

    def around(self, handler: Handler) -> Handler:
        """The same handler, with records before and after each call."""
        call: Callable[..., Any] = handler
        if is_async(handler):

            async def traced_async(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
                done = self._begin(messages)
                try:
                    outcome = await call(messages, context)
                except BaseException:
                    done(None, True)
                    raise
                done(outcome, False)
                return outcome

            return traced_async

        def traced(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
            done = self._begin(messages)
            try:
                outcome = call(messages, context)
            except BaseException:
                done(None, True)
                raise
            if inspect.isawaitable(outcome):
                return self._awaited(outcome, done)
            done(outcome, False)
            return outcome

        return traced

    async def _awaited(self, outcome: Any, done: Callable[[Any, bool], None]) -> Any:
        """The result of a plain function that returned a coroutine."""
        try:
            result = await outcome
        except BaseException:
            done(None, True)
            raise
        done(result, False)
        return result

    def _begin(self, messages: list[ReceivedMessage]) -> Callable[[Any, bool], None]:
        """Note that a handler gets messages; the function returned notes its outcome."""
        traced = [m for m in messages if m.properties.get("TRACE_ON") != "false"]
        if not traced:
            return lambda _outcome, _raised: None
        started_ms, request_id, count = current_ms(), unique_id(), len(messages)
        group = self._dispatcher.group
        region = traced[-1].properties.get("MSG_REGION")
        named = [(message.msg_id, message.properties.get("KEYS")) for message in traced]
        keys = keys_of(word for pair in named for word in pair)
        before = [
            record_text("SubBefore", started_ms, region, group, request_id, m.msg_id,
                    m.reconsume_times, m.properties.get("KEYS"))
            for m in traced
        ]  # fmt: skip
        self._dispatcher.append(TraceRecord("".join(before), keys))

        def done(outcome: Any, raised: bool) -> None:
            now_ms = current_ms()
            taken_ms = now_ms - started_ms
            code = self._code(outcome, raised, taken_ms)
            success = not raised and _succeeded(outcome)
            after = [
                record_text("SubAfter", request_id, msg_id, taken_ms // count, success, own_keys,
                        code, now_ms, group)
                for msg_id, own_keys in named
            ]  # fmt: skip
            self._dispatcher.append(TraceRecord("".join(after), keys))

        return done

    def _code(self, outcome: Any, raised: bool, taken_ms: int) -> int:
        """RocketMQ's ConsumeReturnType; None is a success here."""
        if raised:
            return EXCEPTION
        if outcome is not None and not isinstance(outcome, ConsumeResult):
            return RETURN_NULL
        if taken_ms >= self._limit_ms:
            return TIME_OUT
        return SUCCESS if _succeeded(outcome) else FAILED


def _succeeded(outcome: Any) -> bool:
    return outcome in (None, ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
