"""A transport without sockets, whose replies come from a script."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from inspect import isawaitable

from mqclient.engine.transport import CloseCallback, RequestCallback
from mqcommon.wire.codes import RequestCode, name_of
from mqcommon.wire.frame import Frame

__all__ = ["MockTransport", "Script"]

Script = Callable[[str, Frame], Frame | Exception | Awaitable[Frame | Exception]]
"""Gets (address, request) and returns the reply, which then gets the request's opaque."""


class MockTransport:
    """Answers each call with `scripts[code]`, and logs (address, frame) in `sent`."""

    def __init__(self, scripts: Mapping[int, Script] | None = None) -> None:
        self.scripts = dict(scripts or {})
        self.sent: list[tuple[str, Frame]] = []

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        """Run the script of the request's code; KeyError that names the code if there is none.

        address: "host:port", which the script gets. timeout: is not looked at.
        """
        self.sent.append((address, request))
        script = self.scripts.get(request.code)
        if script is None:
            raise KeyError(f"no script answers {name_of(request.code, RequestCode)}")
        scripted = script(address, request)
        outcome = await scripted if isawaitable(scripted) else scripted
        if isinstance(outcome, Exception):
            raise outcome
        return replace(outcome, opaque=request.opaque)

    async def oneway(self, address: str, request: Frame, timeout: float) -> None:
        """Log the request, and run the script of its code if there is one. As `call`."""
        if request.code in self.scripts:
            await self.call(address, request, timeout)
        else:
            self.sent.append((address, request))

    def block(self, address: str, request: Frame, timeout: float) -> Frame:
        """Do as `call`, on a loop of this thread."""
        return asyncio.run(self.call(address, request, timeout))

    def on_request(self, callback: RequestCallback) -> None:
        """Set the callback of `push`."""
        self.push: RequestCallback = callback

    def on_close(self, callback: CloseCallback) -> None:
        """Set the callback of `drop`."""
        self.drop: CloseCallback = callback

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""
