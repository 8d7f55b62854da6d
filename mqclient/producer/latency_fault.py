"""Avoids brokers that were slow or failed a while ago. Off by default, as in RocketMQ.

Rules: RocketMQ 4.9 `MQFaultStrategy.selectOneMessageQueue` and `updateFaultItem`,
`LatencyFaultToleranceImpl.pickOneAtLeast`.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mqcommon.message import MessageQueue

__all__ = ["LatencyFaults"]

AVOID_S = (
    (15.0, 600.0), (3.0, 180.0), (2.0, 120.0), (1.0, 60.0), (0.55, 30.0), (0.1, 0.0), (0.05, 0.0)
)  # fmt: skip
"""After a send that took at least the first of two numbers, in seconds, its broker is avoided for
the second."""
FAILURE_LATENCY_S = 30.0
"""The latency that a failed send counts as."""


class _Fault(NamedTuple):
    """The last send to a broker."""

    latency: float
    available_at: float
    """On the monotonic clock."""


class LatencyFaults:
    """The brokers of one producer by their last sends."""

    def __init__(self) -> None:
        self._faults: dict[str, _Fault] = {}
        self._pick = itertools.count(1).__next__

    def note(self, broker: str, latency: float, *, failed: bool) -> None:
        """Remember a send. latency: seconds that it took."""
        counted = FAILURE_LATENCY_S if failed else latency
        avoid = next((pause for least, pause in AVOID_S if counted >= least), 0.0)
        self._faults[broker] = _Fault(latency, time.monotonic() + avoid)

    def choose(self, queues: Sequence[MessageQueue], turn: Callable[[], int]) -> MessageQueue:
        """The next queue of an available broker; else one of the better half of the brokers.

        turn: returns the next count.
        """
        start, now = turn(), time.monotonic()
        for i in range(len(queues)):
            queue = queues[(start + i) % len(queues)]
            if self._is_available(queue.broker_name, now):
                return queue
        broker = self._better_one(now)
        own = [queue for queue in queues if queue.broker_name == broker]
        if own:
            return own[turn() % len(own)]
        self._faults.pop(broker, None)
        return queues[turn() % len(queues)]

    def _is_available(self, broker: str, now: float) -> bool:
        fault = self._faults.get(broker)
        return fault is None or now >= fault.available_at

    def _better_one(self, now: float) -> str:
        def order(broker: str) -> tuple[bool, float, float]:
            return not self._is_available(broker, now), *self._faults[broker]

        ordered = sorted(self._faults, key=order)
        half = len(ordered) // 2
        return ordered[self._pick() % half] if half else ordered[0]
