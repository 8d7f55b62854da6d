"""Sends of threads that do not wait: encoded in the caller's thread, past the loop.

Nothing else of a send crosses threads, and sends that end together are counted together.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any

from mqclient.errors import ClosedError
from mqclient.producer.in_flight import InFlight
from mqclient.producer.outgoing import Outgoing
from mqclient.producer.posted_send import OnSent, PostedOneway, PostedSend
from mqclient.producer.queue_sender import QueueSender
from mqclient.producer.results import SendResult
from mqclient.producer.sender import Sender

__all__ = ["Posts", "told"]

_new = PostedSend.__new__  # without `__init__`, which is the standard future's


class Posts:
    """The sends of one producer that threads do not wait for.

    spawn: starts a coroutine, with a name, that the producer's end cancels.
    """

    def __init__(
        self,
        sender: Sender,
        in_flight: InFlight,
        spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    ) -> None:
        self.sender = sender
        self.spawn = spawn
        self._in_flight = in_flight
        self.must_queue = 0
        """Sends of threads that the loop has. Later ones must not overtake them."""
        self._lock = threading.RLock()  # a signal handler may send; guards `must_queue`

    def post(
        self,
        path: QueueSender,
        outgoing: Outgoing,
        size: int,
        timeout: float,
        on_done: OnSent | None = None,
        kind: type[PostedSend] = PostedSend,
    ) -> PostedSend:
        """Hand a message to its connection as soon as there is room in flight.

        size: bytes that count. timeout: seconds, for all tries and the wait for room. Raises
        BackPressureTimeout, ClosedError.
        """
        accepted = self._in_flight.accept_anywhere(1, size)
        started = time.monotonic()
        if accepted is None:
            accepted = self._in_flight.block(1, size, timeout)
            timeout = max(0.001, timeout - (time.monotonic() - started))
        about = (accepted, size, path, outgoing.msg_id)
        pending: PostedSend = _new(kind, *about, self, outgoing, started, timeout, on_done)
        try:
            path.post(outgoing, timeout, pending, kind is PostedOneway)
        except BaseException as error:
            accepted.leave(1, size)
            if type(error) is RuntimeError:  # the connector's
                raise ClosedError(str(error)) from None
            raise
        return pending

    def wait_for(self, future: "Future[SendResult]") -> None:
        """Post no more sends before one ends that the loop has."""

        def leave(_future: object) -> None:
            with self._lock:
                self.must_queue -= 1

        with self._lock:
            self.must_queue += 1
        future.add_done_callback(leave)


def told(on_done: OnSent) -> Callable[["Future[SendResult]"], None]:
    """The callback of a future that calls `on_done`."""

    def tell(future: "Future[SendResult]") -> None:
        if future.cancelled():
            on_done(None, CancelledError())
        elif (error := future.exception()) is not None:
            on_done(None, error)
        else:
            on_done(future.result(), None)

    return tell
