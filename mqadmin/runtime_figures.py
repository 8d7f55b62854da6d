"""Reads rates in the runtime figures of brokers, RocketMQ 4.9's and 5's."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["first_number", "transferred_tps"]


def transferred_tps(runtime: Mapping[str, str]) -> str:
    """Messages a second that consumers got, over 10 s, a minute and ten; empty if unknown.

    RocketMQ 4.9 calls them getTransferedTps, RocketMQ 5 getTransferredTps.
    """
    return runtime.get("getTransferedTps") or runtime.get("getTransferredTps") or ""


def first_number(text: str | None) -> float:
    """The first of the numbers in "1.2 3.4 5.6": the rate of the last 10 s.

    A broker that started less than 10 s ago has blanks there: 0.
    """
    words = (text or "").split()
    return float(words[0]) if words else 0.0
