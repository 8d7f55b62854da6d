"""Requests to clients, and answers that wait for theirs."""

from __future__ import annotations

from collections.abc import Callable
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING

from mqclient.wire.codes import FrameFlag, ResponseCode
from mqserver.replies import LATER, Refused, Reply, Request, Response

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from mqclient.wire.frame import Frame

Send = Callable[[int, bytes], bool]
Call = Callable[[int, bytes, float], bytes]

THREADS = 4
WAITING_MAX = 256
"""Requests that may wait for a client's answer at once; more are refused."""


class Relay:
    """The broker's way to its clients.

    send: one-way, False if the connection is gone. call: waits for the reply frame; raises
    ConnectionError or TimeoutError. Requests to clients are JSON, as RocketMQ's are.
    """

    def __init__(self, send: Send, call: Call) -> None:
        self._send = send
        self._call = call
        self._places = BoundedSemaphore(WAITING_MAX)
        self._lock = Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def tell(self, connection: int, code: int, fields: dict[str, str], body: bytes = b"") -> bool:
        """A one-way request; False if the client is gone."""
        from mqclient.wire.frame import Frame, encode  # with json, not before the port is open

        frame = Frame(code, fields, body, flag=int(FrameFlag.ONEWAY))
        return self._send(connection, encode(frame))

    def ask(
        self, connection: int, code: int, fields: dict[str, str], body: bytes, timeout: float
    ) -> Frame:
        """A request and its reply; ConnectionError or TimeoutError without one."""
        from mqclient.wire.frame import Frame, decode, encode

        return decode(self._call(connection, encode(Frame(code, fields, body)), timeout))

    def later(self, request: Request, answer: Callable[[], Response]) -> Reply:
        """Answer on a thread that may wait for clients: no hand-off thread does."""
        if not self._places.acquire(blocking=False):
            remark = f"[OVERLOAD]{WAITING_MAX} requests wait for answers of clients"
            return Response(ResponseCode.SYSTEM_BUSY, remark)
        try:
            self._pool().submit(self._answer, request, answer)
        except BaseException:
            self._places.release()
            raise
        return LATER

    def _pool(self) -> ThreadPoolExecutor:
        """The threads, made for the first who needs them: few brokers do, and none to start."""
        with self._lock:
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="relay")
                if self._closed:
                    self._threads.shutdown()
            return self._threads

    def _answer(self, request: Request, answer: Callable[[], Response]) -> None:
        try:
            reply = answer()
        except Refused as refused:
            reply = refused.response
        except Exception as error:
            reply = Response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        finally:
            self._places.release()
        request.respond(reply.code, reply.remark, reply.fields, reply.body)

    def close(self) -> None:
        """Take no more; what waits is not waited for."""
        with self._lock:
            self._closed = True
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
