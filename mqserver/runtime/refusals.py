"""Logs and counts requests that are refused because a limit is reached."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from mqserver.runtime.processor_api import Refused

LOG_PAUSE_SECONDS = 60.0
"""Time between two log lines about the same setting."""
HELP = "Refusals because a limit was reached"
"""Help text of the metric, the same in both servers."""


class Refusals:
    """Refusals, by the setting that holds the limit.

    log: gets a warning for each. clock: monotonic seconds. Methods may be called from any thread.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._logged: dict[str, float] = {}

    def refused(self, code: int, setting: str, remark: str) -> Refused:
        """Count a refusal; returns the exception to raise, which answers `code` and `remark`."""
        now = self._clock()
        with self._lock:
            self._counts[setting] += 1
            is_due = now >= self._logged.get(setting, float("-inf")) + LOG_PAUSE_SECONDS
            if is_due:
                self._logged[setting] = now
        if is_due:
            self._log.warning("%s is reached: %s", setting, remark)
        return Refused(code, remark)

    def counts(self) -> dict[str, int]:
        """Refusals since the start, by setting."""
        with self._lock:
            return dict(self._counts)
