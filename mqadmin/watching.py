"""Repeats a command until it is stopped."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn

from mqclient.errors import RocketMQError
from mqcommon.cli.error_line import say_error

__all__ = ["repeat"]

CLEAR = "\x1b[H\x1b[2J"
"""Moves the cursor to the top and empties the screen."""


async def repeat(
    once: Callable[[], Awaitable[object]], interval_s: float, label: str, *, clears: bool
) -> NoReturn:
    """Run a command, wait, and so on. A failure of the first round ends it; a later one, such as a
    broker that restarts, is one line. clears: empty the screen before each round."""
    await _round(once, interval_s, label, clears)
    while True:
        await asyncio.sleep(interval_s)
        try:
            await _round(once, interval_s, label, clears)
        except RocketMQError as error:
            say_error(label, str(error))


async def _round(
    once: Callable[[], Awaitable[object]], interval_s: float, label: str, clears: bool
) -> None:
    if clears and sys.stdout.isatty():
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        sys.stdout.write(f"{CLEAR}every {interval_s:g} s: {label}   {now}\n\n")
    await once()
