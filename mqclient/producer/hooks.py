"""The hooks around a producer's sends."""

import logging
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from mqclient.producer.results import SendResult
from mqclient.settings.producers import AfterSend, BeforeSend, SendOptions
from mqcommon.message import Message

__all__ = ["AroundSend", "around_send"]

log = logging.getLogger(__name__)
Sent = TypeVar("Sent", bound=SendResult | None)
Sendable = Message | Sequence[Message]


class AroundSend:
    """Calls hooks around each send of a producer."""

    def __init__(self, settings: SendOptions) -> None:
        self._before = settings.before_send
        self._after = settings.after_send

    async def send(self, message: Sendable, sending: Awaitable[Sent]) -> Sent:
        """Await a send with hooks. Raises what it raises."""
        self._call_before(message)
        try:
            result = await sending
        except Exception as error:
            self._call_after(message, None, error)
            raise
        self._call_after(message, result, None)
        return result

    def _call_before(self, message: Sendable) -> None:
        if self._before is not None:
            _guarded(self._before, "before_send", message)

    def _call_after(
        self, message: Sendable, result: SendResult | None, error: Exception | None
    ) -> None:
        if self._after is not None:
            _guarded(self._after, "after_send", message, result, error)


def around_send(settings: SendOptions) -> AroundSend | None:
    """The hooks around sends; None if there are none."""
    if settings.before_send is None and settings.after_send is None:
        return None
    return AroundSend(settings)


def _guarded(hook: BeforeSend | AfterSend, name: str, *arguments: object) -> None:
    try:
        hook(*arguments)  # type: ignore[arg-type]
    except Exception:
        log.exception("%s failed; the send continues", name)
