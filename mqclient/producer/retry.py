"""When a send is tried again, and for how long.

Rules: RocketMQ 4.9 `DefaultMQProducerImpl.sendDefaultImpl`, except for the number of tries: a send
is tried until its timeout, if one of its failures is transient.
"""

import asyncio
import random
import time
from collections.abc import Iterable
from typing import NamedTuple

from mqclient.errors import BrokerError, ClientTimeout
from mqclient.producer.results import SendResult
from mqcommon.backoff import Backoff
from mqcommon.wire.codes import ResponseCode

__all__ = ["Failure", "Tries", "may_be_mended"]

PASSING_CODES = frozenset((int(ResponseCode.SERVICE_NOT_AVAILABLE), int(ResponseCode.SYSTEM_ERROR)))
"""Answers after which the same broker is tried again, for example while it starts."""
RETRY_CODES = PASSING_CODES | frozenset(
    map(
        int,
        (
            ResponseCode.TOPIC_NOT_EXIST,
            ResponseCode.NO_PERMISSION,
            ResponseCode.NO_BUYER_ID,
            ResponseCode.NOT_IN_CURRENT_UNIT,
        ),
    )
)
"""Answers after which another broker is tried; SYSTEM_BUSY is none, as in RocketMQ."""
NOT_DURABLE_TRIES = 3
"""Tries with `Retry(not_durable=True)`: each stores the message, so more only duplicate it."""
PAUSE_FIRST_S, PAUSE_LAST_S = 0.1, 2.0
"""Most seconds until a failed broker is tried again: first, then doubling up to the last."""
TRY_MIN_S = 0.02
"""A try needs this many seconds; with fewer the send ends."""


class Failure(NamedTuple):
    """A failed try after which another one may succeed.

    broker: name of the failed broker. error: None if it stored the message less durably than
    asked. stored: the result then.
    """

    broker: str
    error: Exception | None
    stored: SendResult | None = None


def may_be_mended(error: Exception) -> bool:
    """Whether another try, perhaps on another broker, may mend an error of a try."""
    return not isinstance(error, BrokerError) or error.code in RETRY_CODES


class Tries:
    """The tries of one send. retries: most after the first; None is until the deadline."""

    def __init__(self, retries: int | None, started: float, timeout: float) -> None:
        self._retries = retries
        self._timeout = timeout
        self._deadline = started + timeout
        self._count = 0
        self._passes = False
        """Whether a failure of this round may pass."""
        self._failed: set[str] = set()
        """Brokers that failed in this round."""
        self._last: Exception | None = None
        self._stored: SendResult | None = None
        self._backoff = Backoff(PAUSE_FIRST_S, PAUSE_LAST_S)

    @property
    def left(self) -> float:
        """Seconds until the deadline, at least a millisecond."""
        return max(0.001, self._deadline - time.monotonic())

    @property
    def is_first(self) -> bool:
        """Whether nothing was tried yet."""
        return not self._count

    @property
    def is_over(self) -> bool:
        """Whether there is no further try."""
        if self._retries is not None and self._count > self._retries:
            return True
        if self._stored is not None and self._count >= NOT_DURABLE_TRIES:
            return True
        return self._deadline - time.monotonic() < TRY_MIN_S

    def add(self, failure: Failure) -> None:
        """Note a failed try."""
        error = failure.error
        self._count += 1
        self._failed.add(failure.broker)
        self._stored = failure.stored or self._stored
        self._last = error or self._last
        self._passes |= not isinstance(error, BrokerError) or error.code in PASSING_CODES

    def fresh(self, brokers: Iterable[str]) -> set[str]:
        """The brokers that did not fail in this round."""
        return {*brokers} - self._failed

    async def next_round(self) -> bool:
        """Pause until the failed brokers may be tried again; False if no try follows."""
        if not self._passes or self.is_over:
            return False
        left = self._deadline - time.monotonic()
        # Random, so that producers do not align.
        pause_s = self._backoff.pause_s * random.uniform(0.5, 1.0)
        await asyncio.sleep(min(pause_s, left / 2))
        self._backoff.grow()
        self._failed.clear()
        self._passes = False
        return not self.is_over

    def outcome(self, msg_id: str) -> SendResult:
        """The result when no try follows; raises the last error."""
        if self._stored is not None:
            return self._stored
        assert self._last is not None
        if not isinstance(self._last, ClientTimeout):
            raise self._last
        raise ClientTimeout(
            f"message {msg_id} was not acknowledged within {self._timeout:.3g} s "
            f"(last: {self._last}); it may be stored even so"
        ) from self._last
