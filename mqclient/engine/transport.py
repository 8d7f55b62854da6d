"""Sends requests and receives replies on the running event loop.

Sockets and timers live in the compiled core (`_core.Connector`), which keeps the futures of
pending requests and wakes the loop through a socket pair.
"""

import asyncio
import contextlib
import logging
import socket
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from mqclient.engine.process import forked, other_loop, process_id
from mqclient.engine.threads import in_thread
from mqclient.errors import ClientTimeout, ClosedError, RocketMQError, UnreachableError
from mqcommon._core import Connector, FrameTemplate, Pending
from mqcommon.wire.frame import Frame, FrameError, encode

__all__ = ["CloseCallback", "Pending", "RequestCallback", "Transport"]

log = logging.getLogger(__name__)

RequestCallback = Callable[[str, Frame], Awaitable[Frame | None]]
"""Gets (address, request) of a server; returns the reply, or None for no reply."""

CloseCallback = Callable[[str], None]
"""Gets the address of a connection that was lost."""

Submission = tuple[
    str,
    asyncio.Future[Any],
    float,
    bool,
    int,
    dict[str, str],
    bytes,
    int,
    str | None,
    int | None,
    int,
    int,
]

_REPLY, _FAILED, _WRITTEN, _REQUEST, _CLOSED, _READ, _DROPPED = range(7)
_WAKE_BYTES = 4096


class Transport:
    """Calls servers by address over one connection each.

    May be built without a running loop; it belongs to the loop of its first call, and to this
    process. settings: see `_core.Connector`, times in seconds; with an account every request is
    signed, with `tls` every connection is under TLS.
    """

    def __init__(self, **settings: float | str | Mapping[str, object] | None) -> None:
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connector: Connector | None = None
        self._wake: socket.socket | None = None
        self._outbox: list[Submission] = []
        self._flush_comes = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._request_callback: RequestCallback | None = None
        self._close_callback: CloseCallback | None = None
        self._closed = False
        self._process = 0
        self.requests_dropped = 0
        """Requests of servers that were dropped because too many waited for the loop."""

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a request and wait for its reply.

        address: "host:port". timeout: seconds, connecting included. The request's opaque is
        chosen by the connection. Raises UnreachableError, ClientTimeout, ClosedError.
        """
        reply: Frame = await self._submit(address, request, timeout, oneway=False)
        return reply

    async def oneway(self, address: str, request: Frame, timeout: float) -> None:
        """Send a request that gets no reply; returns when the kernel has taken it.

        The caller sets the frame's one-way flag. Raises as `call` does.
        """
        await self._submit(address, request, timeout, oneway=True)

    def on_request(self, callback: RequestCallback) -> None:
        """Set the callback for requests of servers; each call runs as a task of its own."""
        self._request_callback = callback

    def on_close(self, callback: CloseCallback) -> None:
        """Set the callback for lost connections; it runs on the loop and must not block."""
        self._close_callback = callback

    def renew_tls(self, tls: Mapping[str, object]) -> None:
        """Use other certificates for new connections, from any thread; open ones continue.

        tls: the setting; its files are read now. Raises ValueError if it cannot be used,
        and nothing changes.
        """
        connector = self._connector
        if connector is not None:
            connector.renew_tls(tls)
        self._settings["tls"] = tls

    async def aclose(self) -> None:
        """Close every connection; waiting calls raise ClosedError. May be called twice."""
        self._closed = True
        if self._process == process_id():
            self._flush()
        connector, self._connector = self._connector, None
        if connector is None or self._process != process_id():
            return
        assert self._loop is not None and self._wake is not None
        self._loop.remove_reader(self._wake)
        await in_thread(connector.close, 1.0)
        self._handle(*connector.drain())
        self._wake.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _submit(
        self, address: str, request: Frame, timeout: float, *, oneway: bool
    ) -> asyncio.Future[Any]:
        if self._connector is None or self._process != process_id():
            self._start()
        if get_running_loop() is not self._loop:
            raise _other_loop(self._process)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._outbox.append(
            (
                address,
                future,
                timeout,
                oneway,
                request.code,
                request.fields,
                request.body,
                request.flag,
                request.remark,
                request.language,
                request.version,
                request.serialize,
            )
        )
        self._send_soon()
        return future

    @staticmethod
    def template(
        address: str, code: int, fields: list[tuple[str, str | None]], serialize: int, reply: str
    ) -> FrameTemplate:
        """Prepare the shared part of requests; takes the arguments of `_core.FrameTemplate`."""
        return FrameTemplate(address, code, fields, serialize, reply)

    def request(
        self,
        template: FrameTemplate,
        values: tuple[str | int | None, ...],
        body: bytes,
        timeout: float,
        at_once: bool = False,
        oneway: bool = False,
    ) -> asyncio.Future[Any]:
        """Send a request made from a template; the future gets its reply.

        values: the template's open fields. timeout: seconds, connecting included. at_once: send
        now, unless the requests of this turn of the loop go together. A good answer has the
        template's type, any other is a Frame, a one-way request gets None. Raises as `call` does.
        """
        connector = self._connector
        if connector is None:
            connector = self._start()
        if get_running_loop() is not self._loop:
            raise _other_loop(self._process)
        future: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        try:
            hurry = connector.request(
                template, values, body, timeout, future, oneway, self._flush_comes
            )
        except RuntimeError as error:  # the connector belongs to another process
            raise ClosedError(str(error)) from None
        if hurry or (at_once and not self._flush_comes):
            self._flush()  # no other task will send, or enough was collected
        elif not self._flush_comes:
            self._send_soon()
        return future

    def poster(self, template: FrameTemplate) -> Callable[..., None]:
        """The function that sends a template's requests from any thread, without waiting.

        It takes (values, body, timeout, pending, oneway). pending: a `_core.Pending`, whose
        `set_result` or `set_exception` gets what a future of `request` would, on the loop, unless
        the core settles it. Raises RuntimeError in a forked child, and after a close. The
        transport was used before.
        """
        assert self._connector is not None
        return partial(self._connector.post, template)

    def block_on(
        self,
        template: FrameTemplate,
        values: tuple[str | int | None, ...],
        body: bytes,
        timeout: float,
    ) -> Any:
        """Send a request from any thread and wait for its reply, past the loop.

        Takes the arguments of `request` and ends as it does; the transport was used before.
        """
        connector = self._connector
        if connector is None or self._process != process_id():
            raise ClosedError("the client is closed")
        kind, payload = connector.call(template, values, body, timeout)
        if kind == _READ:
            return payload
        if kind == _REPLY:
            return Frame(*payload)
        raise _error(template.address, *payload)

    def block(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a request without header fields from any thread and wait for its reply.

        Takes the arguments of `call` and raises its errors; the transport was used before.
        """
        template = self.template(address, request.code, [], request.serialize, "frame")
        reply: Frame = self.block_on(template, (), request.body, timeout)
        return reply

    def _send_soon(self) -> None:
        """Send the requests of all tasks of this turn of the loop with one system call."""
        if not self._flush_comes:
            self._flush_comes = True
            self._loop.call_soon(self._end_turn)  # type: ignore[union-attr]

    def _end_turn(self) -> None:
        self._flush_comes = False
        self._flush()

    def _flush(self) -> None:
        if self._connector is None:
            return
        self._connector.flush()
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            self._connector.submit(outbox)

    def _start(self) -> Connector:
        """Make the connector on the running loop."""
        if self._closed:
            raise ClosedError("the client is closed")
        if self._connector is not None:
            raise ClosedError(
                "the client was started in another process; make a new one after a fork"
            )
        self._loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        with far:  # the connector keeps a duplicate descriptor
            self._connector = Connector(far.fileno(), self._settings)
        self._wake = near
        self._process = process_id()
        self._loop.add_reader(near, self._on_wake)
        return self._connector

    def _on_wake(self) -> None:
        connector, wake = self._connector, self._wake
        if connector is None or wake is None:
            return
        with contextlib.suppress(BlockingIOError):
            wake.recv(_WAKE_BYTES)
        self._handle(*connector.drain())

    def _handle(
        self,
        futures: list[asyncio.Future[Any]],
        replies: list[Any],
        others: list[tuple[int, Any, asyncio.Future[Any] | None, str | None]],
    ) -> None:
        for future, reply in zip(futures, replies, strict=True):
            if not future.done():  # else the caller was cancelled
                future.set_result(reply)
        if len(futures) > 1:  # what their tasks send goes together, before other tasks run
            self._send_soon()
        for kind, payload, waiting, address in others:
            if kind == _REQUEST:
                self._answer(*payload)
            elif kind == _CLOSED:
                if self._close_callback is not None:
                    self._close_callback(payload)
            elif kind == _DROPPED:
                self._note_dropped(*payload)
            elif waiting is None or waiting.done():
                continue
            elif kind == _REPLY:
                waiting.set_result(Frame(*payload))
            elif kind == _FAILED:
                waiting.set_exception(_error(str(address), *payload))
            else:
                waiting.set_result(None)

    def _note_dropped(self, count: int, size_bytes: int) -> None:
        self.requests_dropped += count
        log.warning(
            "dropped %d requests of servers, %d bytes: earlier ones took 64 MiB while the event "
            "loop was busy; find what blocks it",
            count,
            size_bytes,
        )

    def _answer(self, address: str, payload: tuple[Any, ...]) -> None:
        """Run the callback for a server's request, as a task that is kept until it ends."""
        if self._request_callback is None or self._closed:
            return
        assert self._loop is not None
        request = Frame(*payload)
        task = self._loop.create_task(self._run_callback(self._request_callback, address, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_callback(self, callback: RequestCallback, address: str, request: Frame) -> None:
        try:
            reply = await callback(address, request)
        except Exception:
            log.exception("request %d of %s failed", request.code, address)
            return
        if reply is not None and not request.is_oneway and self._connector is not None:
            self._connector.reply(address, encode(reply))


def _other_loop(process: int) -> ClosedError:
    if process != process_id():
        return ClosedError(forked(process))
    return other_loop()


def _error(address: str, category: str, text: str) -> Exception:
    """The one place that turns the core's failures into the client's errors."""
    match category:
        case "timeout":
            return ClientTimeout(text)
        case "unreachable":
            return UnreachableError(text, address)
        case "closed":
            return ClosedError(text)
        case "bad_frame":
            return FrameError(text)
        case _:
            return RocketMQError(text)
