"""What keeps a client alive at its brokers while its event loop is busy, sent by a thread.

A broker forgets a member of a group after 120 s without a heartbeat, and a queue's lock after 60 s
without a renewal. The loop sends both; the thread repeats what the loop sent last once it is late.
Nothing else of a client runs there.
"""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from mqclient.wire.frame import Frame

__all__ = ["Sending", "Standby"]

log = logging.getLogger(__name__)
LATE = 1.5
"""How many intervals the loop may take before the thread sends in its place."""


class Sending(NamedTuple):
    """A request, and the broker's address to connect to."""

    address: str
    request: Frame


class _Vital:
    """One kind of request that brokers must get in time."""

    def __init__(self, interval: float, sendings: Callable[[], Iterable[Sending]]) -> None:
        self.interval = interval
        self.sendings = sendings
        self.due = time.monotonic() + LATE * interval


class Standby:
    """The thread of one instance; it starts with the first `keep` and ends with `stop`.

    send: sends a request from any thread and waits for the answer, which does not matter.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[Sending], object]) -> None:
        self._loop = loop
        self._send = send
        self._changed = threading.Condition()
        self._vitals: dict[Hashable, _Vital] = {}
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._round: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._round.set_result(None)

    # --- called on the loop

    def keep(
        self, what: Hashable, interval: float, sendings: Callable[[], Iterable[Sending]]
    ) -> None:
        """Say what the loop has just sent, and repeats every `interval` seconds.

        sendings: makes the requests; called on the thread.
        """
        with self._changed:
            if self._is_over:
                return
            if what not in self._vitals:  # else the thread looks soon enough
                self._changed.notify()
            self._vitals[what] = _Vital(interval, sendings)
            if self._thread is None:
                name = "mqclient-standby"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    async def quiet(self) -> None:
        """Wait for what is being sent, which the last `keep` or `stop` may have replaced."""
        await asyncio.wrap_future(self._round)

    def stop(self) -> None:
        """Send no more, and end the thread."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    # --- the thread

    def _run(self) -> None:
        while (due := self._next()) is not None:
            try:
                for vital in due:
                    if not self._is_over:
                        self._repeat(vital)
            finally:
                self._round.set_result(None)

    def _next(self) -> list[_Vital] | None:
        """Wait for what is due; None after the end."""
        with self._changed:
            while not self._is_over and not self._loop.is_closed():
                now = time.monotonic()
                due = [vital for vital in self._vitals.values() if vital.due <= now]
                for vital in due:
                    vital.due = now + vital.interval
                if due:
                    self._round = concurrent.futures.Future()
                    return due
                first = min((vital.due for vital in self._vitals.values()), default=None)
                self._changed.wait(None if first is None else first - now)
            return None

    def _repeat(self, vital: _Vital) -> None:
        for sending in vital.sendings():
            log.info(
                "the event loop is busy: sending request %d to %s in its place",
                sending.request.code,
                sending.address,
            )
            try:
                self._send(sending)
            except Exception as error:
                log.warning("%s does not take what keeps us alive: %s", sending.address, error)
