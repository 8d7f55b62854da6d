"""The methods that the engine uses of a transport."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from mqcommon.wire.frame import Frame

__all__ = ["RequestHandler", "TransportLike"]

RequestHandler = Callable[[str, Frame], Awaitable[Frame | None]]


class TransportLike(Protocol):
    """The methods of mqclient.engine.transport.Transport and of the mock that the engine uses."""

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a request, wait for its reply."""

    async def oneway(self, address: str, request: Frame, timeout: float) -> None:
        """Send a request that is not answered; returns when it is written."""

    def block(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a request from any thread, wait for its reply."""

    def on_request(self, callback: RequestHandler) -> None:
        """Call back for each request from a broker; the frame returned is the reply."""

    def on_close(self, callback: Callable[[str], None]) -> None:
        """Call back when a connection is lost."""

    async def aclose(self) -> None:
        """Close every connection."""
