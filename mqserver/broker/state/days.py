"""Message totals at the last two midnights, for today and yesterday in the runtime information."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

PUT, GET = "msgPutTotal", "msgGetTotal"


class Days:
    """Records the totals of puts and gets when the local day changes; they are 0 before that.

    today: returns the present local date, which is only compared.
    """

    def __init__(self, today: Callable[[], Hashable]) -> None:
        self._today = today
        self._day = today()
        self._today_morning = {PUT: "0", GET: "0"}
        self._yesterday_morning = {PUT: "0", GET: "0"}

    def look(self, figures: Mapping[str, str]) -> None:
        """Record the store's figures if the day has changed; call it every few seconds."""
        if (day := self._today()) != self._day:
            self._day = day
            self._yesterday_morning = self._today_morning
            self._today_morning = {name: figures.get(f"{name}TodayNow", "0") for name in (PUT, GET)}

    def figures(self) -> dict[str, str]:
        """The totals under RocketMQ's keys."""
        today = {f"{name}TodayMorning": total for name, total in self._today_morning.items()}
        before = self._yesterday_morning.items()
        return {**today, **{f"{name}YesterdayMorning": total for name, total in before}}
