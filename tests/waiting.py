"""Polls with a deadline for conditions without an event. Tests have no other polling loops."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE = 60.0
PAUSE_S = 0.005

T = TypeVar("T")


def until(condition: Callable[[], object], timeout_s: float = DEADLINE) -> bool:
    """Whether the condition becomes true before the deadline."""
    pause, deadline = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(PAUSE_S)
    return True


def answer_of(
    ask: Callable[[], T], is_wanted: Callable[[T], object], timeout_s: float = DEADLINE
) -> T:
    """Ask until the answer is as wanted, and return it; AssertionError shows the last one."""
    answers: list[T] = []

    def is_there() -> object:
        answers[:] = [ask()]
        return is_wanted(answers[0])

    assert until(is_there, timeout_s), answers[0]
    return answers[0]


async def until_async(condition: Callable[[], object]) -> None:
    """Wait on the running loop until it becomes true; TimeoutError after DEADLINE."""
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(PAUSE_S)
