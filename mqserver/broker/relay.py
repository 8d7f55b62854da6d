"""Requests to clients, and replies that wait for a client's answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import BoundedSemaphore

from mqclient.wire.codes import FrameFlag, ResponseCode
from mqclient.wire.frame import Frame, decode, encode
from mqserver.replies import LATER, Refused, Reply, Request, Response

Send = Callable[[int, bytes], bool]
Call = Callable[[int, bytes, float], bytes]

THREADS = 4
WAITING_MAX = 256
"""Most requests that wait for a client's answer at a time; the broker refuses more."""


class Relay:
    """Sends the broker's requests to its clients.

    send: sends a frame one-way; False if the connection is gone. call: waits for the reply frame;
    raises ConnectionError or TimeoutError. Requests to clients are JSON, as RocketMQ's are.
    """

    def __init__(self, send: Send, call: Call) -> None:
        self._send = send
        self._call = call
        self._places = BoundedSemaphore(WAITING_MAX)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="relay")

    def tell(self, connection: int, request: Frame) -> bool:
        """Send a one-way request; False if the client is gone."""
        return self._send(connection, encode(replace(request, flag=int(FrameFlag.ONEWAY))))

    def ask(self, connection: int, request: Frame, timeout: float) -> Frame:
        """Send a request and return the reply. Raises ConnectionError or TimeoutError."""
        return decode(self._call(connection, encode(request), timeout))

    def later(self, request: Request, answer: Callable[[], Response]) -> Reply:
        """Answer on a thread that may wait for clients, as a hand-off thread must not wait."""
        if not self._places.acquire(blocking=False):
            remark = f"[OVERLOAD]{WAITING_MAX} requests wait for answers of clients"
            return Response(ResponseCode.SYSTEM_BUSY, remark)
        try:
            self._threads.submit(self._answer, request, answer)
        except RuntimeError:  # `close` was called meanwhile
            self._places.release()
            return Response(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping")
        except BaseException:
            self._places.release()
            raise
        return LATER

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
        """Accept no more requests; requests that wait are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
