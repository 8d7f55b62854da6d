"""Totals at midnight, as runtime info tells them."""

from __future__ import annotations

from datetime import date

from mqserver.broker.state.days import Days


def test_totals_move_on_at_midnight() -> None:
    day = date(2026, 11, 21)
    days = Days(lambda: day)
    days.look({"msgPutTotalTodayNow": "5", "msgGetTotalTodayNow": "7"})
    assert set(days.figures().values()) == {"0"}

    day = date(2026, 11, 22)
    days.look({"msgPutTotalTodayNow": "10", "msgGetTotalTodayNow": "20"})
    days.look({"msgPutTotalTodayNow": "11", "msgGetTotalTodayNow": "21"})
    day = date(2026, 11, 23)
    days.look({"msgPutTotalTodayNow": "30", "msgGetTotalTodayNow": "40"})
    assert days.figures() == {
        "msgPutTotalTodayMorning": "30",
        "msgGetTotalTodayMorning": "40",
        "msgPutTotalYesterdayMorning": "10",
        "msgGetTotalYesterdayMorning": "20",
    }
