"""Reads ranges of queues with the compiled range reader, which has connections of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqcommon._core import Conditions, RangeFailed, RangeReader, json_lines
from mqcommon.message import MessageQueue

__all__ = ["Conditions", "RangeFailed", "RangeReader", "failure_of", "json_lines", "plan_of"]

PULL_COUNT = 1024
"""Messages of one pull, at most; a broker gives as many as its settings allow."""
PULLS_IN_FLIGHT = 16
"""Most pulls of one reader in flight."""


def plan_of(
    queue: MessageQueue,
    first: int,
    end: int,
    *,
    master: str | None,
    slave: str | None,
    **more: object,
) -> dict[str, Any]:
    """The plan of one range, offsets [first, end) of a queue; `RangeReader` has all its fields.

    master, slave: addresses to connect to. more: the fields group, waiting_bytes, timeout and
    retry_timeout, and tags or filter.
    """
    return {
        "master": master,
        "slave": slave,
        "broker_name": queue.broker_name,
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "first": first,
        "end": end,
        "pull_count": PULL_COUNT,
        "pulls_in_flight": PULLS_IN_FLIGHT,
        **more,
    }


def failure_of(
    failed: RangeFailed,
    explain: Callable[[str, Exception], Exception],
    advertised: Mapping[str, str],
) -> Exception:
    """The client's error for a range that cannot be read on.

    explain: `Client.explain`. advertised: the brokers' addresses by the addresses to connect to.
    """
    kind, address, code, remark, text = failed.args
    error: Exception
    if kind == "unreachable":
        error = explain(advertised.get(address, address), UnreachableError(remark, address))
    elif kind == "timeout":
        error = ClientTimeout(remark)
    elif kind == "refused":
        error = BrokerError(code, remark, address)
    else:
        return RocketMQError(text)
    error.add_note(text)
    return error
