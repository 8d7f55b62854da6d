"""Logs the outage of a broker: one line when it starts, one a minute, one when it ends."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Outages"]

log = logging.getLogger(__name__)
LOG_INTERVAL = 60.0
"""Seconds between two lines about the same broker."""


@dataclass(slots=True)
class _Outage:
    """Times are monotonic seconds. good: of the first answer after the last failure."""

    start: float
    logged: float
    failures: int = 1
    failed: float = 0.0
    good: float = 0.0


class Outages:
    """The brokers of one client that fail its periodic requests, by broker name.

    quiet: seconds without a failure until an outage is over. A master that is down while its slave
    answers fails every heartbeat, so `quiet` must be longer than the heartbeat interval.
    """

    def __init__(self, quiet: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet = quiet
        self._clock = clock
        self._outages: dict[str, _Outage] = {}

    def failed(self, broker: str, text: str, *args: object) -> None:
        """Log that a request to a broker failed, unless the outage was logged a short time ago."""
        now = self._clock()
        outage = self._outages.get(broker)
        if outage is None:
            self._outages[broker] = _Outage(now, now, failed=now)
            log.warning(
                f"{text}; other failures of broker %s are logged once a minute", *args, broker
            )
            return
        outage.failures += 1
        outage.failed, outage.good = now, 0.0
        if now < outage.logged + LOG_INTERVAL:
            log.debug(text, *args)
            return
        outage.logged = now
        log.warning(
            f"broker %s: %d requests failed in %.0f s, the last one: {text}",
            *(broker, outage.failures, now - outage.start, *args),
        )

    def answered(self, broker: str) -> None:
        """Note an answer; the outage is over if nothing has failed for a while."""
        outage = self._outages.get(broker)
        if outage is None:
            return
        now = self._clock()
        outage.good = outage.good or now
        if now < outage.failed + self._quiet:
            return
        del self._outages[broker]
        log.warning(
            "broker %s answers again, after %.0f s with %d failed requests",
            *(broker, outage.good - outage.start, outage.failures),
        )
