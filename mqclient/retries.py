"""Requests that are tried again after a failure that passes. For questions, never for sends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqclient.wire.codes import ResponseCode

__all__ = ["with_retries"]

T = TypeVar("T")

ATTEMPTS = 5
FIRST_PAUSE_S = 0.1
"""Seconds before the second attempt; each further pause is twice as long."""
_PASSING_CODES = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


async def with_retries(attempt: Callable[[], Awaitable[T]]) -> T:
    """Run `attempt` until it succeeds, fails for good, or has failed ATTEMPTS times."""
    pause_s = FIRST_PAUSE_S
    for count in range(1, ATTEMPTS + 1):
        try:
            return await attempt()
        except (UnreachableError, ClientTimeout) as error:
            failure: RocketMQError = error
        except BrokerError as error:
            if error.code not in _PASSING_CODES:
                raise
            failure = error
        if count < ATTEMPTS:
            await asyncio.sleep(pause_s)
            pause_s *= 2
    raise failure
