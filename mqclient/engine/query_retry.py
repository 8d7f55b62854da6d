"""Retries idempotent queries after transient failures. Never used for sends."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqcommon.backoff import Backoff
from mqcommon.wire.codes import ResponseCode

__all__ = ["with_retries"]

T = TypeVar("T")

ATTEMPTS = 5
FIRST_PAUSE_S = 0.1
"""Seconds before the second attempt; each further pause is twice as long."""
PAUSE_MAX_S = 2.0
"""Seconds between two attempts, at most."""
_PASSING_CODES = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


async def with_retries(attempt: Callable[[], Awaitable[T]], within_s: float = 0.0) -> T:
    """Run `attempt` until it succeeds, fails for good, or has failed ATTEMPTS times.

    within_s: after ATTEMPTS, continue until this many seconds have passed since the first one.
    """
    deadline = time.monotonic() + within_s
    backoff = Backoff(FIRST_PAUSE_S, PAUSE_MAX_S)
    for count in itertools.count(1):
        try:
            return await attempt()
        except (UnreachableError, ClientTimeout) as error:
            failure: RocketMQError = error
        except BrokerError as error:
            if error.code not in _PASSING_CODES:
                raise
            failure = error
        if count >= ATTEMPTS and time.monotonic() + backoff.pause_s > deadline:
            raise failure
        await asyncio.sleep(backoff.pause_s)
        backoff.grow()
    raise AssertionError("the loop ends by a result or a failure")
