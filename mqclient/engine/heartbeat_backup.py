"""A thread that sends heartbeats and lock renewals while a client's event loop is busy.

A broker forgets a member of a group after 120 s without a heartbeat, and a queue's lock after 60 s
without a renewal. The loop sends both; the thread repeats the loop's last requests once it is late.
Nothing else of a client runs there.
"""

import asyncio
import concurrent.futures
import logging
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from mqcommon.wire.frame import Frame

__all__ = ["HeartbeatBackup", "Sending"]

log = logging.getLogger(__name__)
LATE = 1.5
"""How many intervals the loop may take before the thread sends in its place."""


class Sending(NamedTuple):
    """A request, and the broker's address to connect to."""

    address: str
    request: Frame


class _Vital:
    """A kind of request that must reach brokers regularly, such as heartbeats."""

    def __init__(self, interval: float, sendings: Callable[[], Iterable[Sending]]) -> None:
        self.interval = interval
        self.sendings = sendings
        self.due = time.monotonic() + LATE * interval


class HeartbeatBackup:
    """The thread of one instance; it starts with the first `keep` and ends with `stop`.

    It also ends when the loop is closed or the instance is garbage-collected.
    send: sends a request from any thread and waits for the answer, which does not matter.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[Sending], object]) -> None:
        self._loop = loop
        self._send = send
        self._vitals: dict[Hashable, _Vital] = {}
        self._lock = threading.Lock()
        """Held while vitals are changed, and while a round takes the due ones."""
        self._wake = threading.Event()
        self._is_started = self._is_over = False
        self._round: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._round.set_result(None)

    # --- called on the loop

    def keep(
        self, what: Hashable, interval: float, sendings: Callable[[], Iterable[Sending]]
    ) -> None:
        """Register requests that the loop has just sent, and repeats every `interval` seconds.

        sendings: makes the requests; called on the thread.
        """
        with self._lock:
            is_new = what not in self._vitals
            self._vitals[what] = _Vital(interval, sendings)
        if not self._is_started:
            self._is_started = True
            wake = self._wake
            arguments = weakref.ref(self, lambda _: wake.set()), wake
            name = "mqclient-backup"
            threading.Thread(target=_run, args=arguments, name=name, daemon=True).start()
        elif is_new:  # else the thread looks soon enough
            self._wake.set()

    async def quiet(self) -> None:
        """Wait for the running round of sends; `keep` or `stop` may have changed the next one."""
        await asyncio.shield(asyncio.wrap_future(self._round))

    def stop(self) -> None:
        """Send no more, and end the thread."""
        self._is_over = True
        self._wake.set()

    # --- called on the thread

    def send_what_is_due(self) -> float | None:
        """Send in place of the loop. Returns the seconds until the next look, None at the end."""
        with self._lock:
            if self._is_over or self._loop.is_closed():
                return None
            now = time.monotonic()
            due = [vital for vital in self._vitals.values() if vital.due <= now]
            for vital in due:
                vital.due = now + vital.interval
            next_due = min(vital.due for vital in self._vitals.values())
            self._round = concurrent.futures.Future()
        try:
            for vital in due:
                self._repeat(vital)
        finally:
            self._round.set_result(None)
        return max(0.0, next_due - time.monotonic())

    def _repeat(self, vital: _Vital) -> None:
        for sending in vital.sendings():
            if self._is_over:
                return
            code, address = sending.request.code, sending.address
            log.info("the event loop is busy: sending request %d to %s in its place", code, address)
            try:
                self._send(sending)
            except Exception as error:
                log.warning("request %d to %s failed: %s", code, address, error)


def _run(heartbeat_backup: "weakref.ref[HeartbeatBackup]", wake: threading.Event) -> None:
    """The thread. It does not keep the heartbeat backup, and with it a whole client, alive."""
    pause: float | None = 0.0
    while pause is not None:
        wake.wait(pause)
        wake.clear()
        known = heartbeat_backup()
        pause = None if known is None else known.send_what_is_due()
        del known
