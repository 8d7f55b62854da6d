"""Waiting for what no event tells of, with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

DEADLINE = 60.0
PAUSE_S = 0.02


def until(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true in time."""
    pause, deadline = threading.Event(), time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(PAUSE_S)
    return True
