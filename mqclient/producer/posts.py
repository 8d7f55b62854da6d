"""Sends of threads that do not wait: encoded in the caller's thread, past the loop.

Nothing else of a send crosses threads, and sends that end together are counted together.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future

from mqclient.engine.client import Client
from mqclient.errors import ClosedError
from mqclient.producer.in_flight import InFlight
from mqclient.producer.posted_send import OnSent, PostedOneway, PostedSend
from mqclient.producer.results import SendResult
from mqclient.producer.sender import Sender
from mqclient.settings.checks import answer_timeout
from mqcommon.message import DELIVER_AT, Message

__all__ = ["Posts", "told"]

_new = PostedSend.__new__  # without `__init__`, which is the standard future's


class Posts:
    """The sends of one producer that threads do not wait for."""

    def __init__(self, client: Client, sender: Sender, in_flight: InFlight) -> None:
        self.sender = sender
        self.spawn = client.spawn
        self._client = client
        self._in_flight = in_flight
        self.must_queue = 0
        """Sends of threads that the loop has. Later ones must not overtake them."""
        self._lock = threading.RLock()  # a signal handler may send; guards `must_queue`

    def post(
        self,
        message: Message | Sequence[Message],
        timeout: float | None,
        on_done: OnSent | None = None,
        kind: type[PostedSend] = PostedSend,
    ) -> PostedSend | None:
        """Hand a message to its connection as soon as there is room in flight.

        timeout: seconds, for all tries and the wait for room. None if the loop must act, also to
        say what is wrong with the message. Raises BackPressureTimeout, ClosedError.
        """
        if not self._client.running:
            self._client.check_running()
        if self.must_queue or type(message) is not Message or DELIVER_AT in message.properties:
            return None
        sender = self.sender
        limit = sender.settings.timeout if timeout is None else answer_timeout(timeout)
        try:
            outgoing = sender.prepare(message, sender.settings)
        except (TypeError, ValueError):
            return None
        path = sender.next_path(outgoing.topic)
        if path is None or not path.blocks:
            return None
        size, started = len(message.body), time.monotonic()
        accepted = self._in_flight.accept(1, size)
        if accepted is None:
            accepted = self._in_flight.block(1, size, limit)
            limit = max(0.001, limit - (time.monotonic() - started))
            started = time.monotonic()
        pending: PostedSend = _new(
            kind, accepted, size, path, outgoing.msg_id, self, outgoing, started, limit, on_done
        )
        try:
            template = path.singles or path.template_of(outgoing)
            is_oneway = kind is PostedOneway
            template.post(outgoing.values(), outgoing.body, limit, pending, is_oneway)
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
