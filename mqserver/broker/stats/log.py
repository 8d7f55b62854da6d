"""Writes `stats.log`: each minute, hour and day the items that changed, in RocketMQ's words."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mqserver.broker.stats.statistics import Statistics

_log = logging.getLogger("mqserver.stats")
_PERIODS = (("Minute", 60), ("Hour", 3600), ("Day", 86_400))


class StatsLog:
    """Writes when a minute, an hour or a day of the wall clock ends. now: wall clock, seconds.

    RocketMQ also writes lines for items that did not change; this log has none.
    """

    def __init__(self, statistics: Statistics, now: Callable[[], float]) -> None:
        self._statistics = statistics
        self._now = now
        self._turns = [self._turn(seconds) for _, seconds in _PERIODS]

    def _turn(self, seconds: int) -> int:
        return int(self._now() // seconds)

    def look(self) -> None:
        """Write the lines that are due; call it every 10 s, after the sample."""
        for place, (name, seconds) in enumerate(_PERIODS):
            turn = self._turn(seconds)
            if turn == self._turns[place]:
                continue
            self._turns[place] = turn
            if _log.isEnabledFor(logging.INFO):
                for item, key, figures in self._statistics.moved(name.lower()):
                    _log.info(
                        "[%s] [%s] Stats In One %s, SUM: %d TPS: %.2f AVGPT: %.2f",
                        *(item, key, name, figures.sum, figures.tps, figures.avgpt),
                    )
