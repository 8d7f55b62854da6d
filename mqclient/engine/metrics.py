"""Counters of a client's work, and the protocol of the object that receives them.

`mqclient.metrics` has adapters for Prometheus and OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mqcommon.message import Message

__all__ = ["METRICS", "ClientMetrics", "Metric", "check_metrics", "counting_sends"]


class Metric(NamedTuple):
    """A metric of clients. kind: "counter", "sum" (it rises and falls) or "gauge"."""

    kind: str
    labels: tuple[str, ...]
    about: str


_SEND = ("group", "topic")
METRICS = {
    "messages_sent": Metric("counter", _SEND, "messages that a send stored, or wrote one-way"),
    "send_failures": Metric("counter", (*_SEND, "error"), "messages of sends that failed"),
    "send_retries": Metric("counter", _SEND, "further tries of sends"),
    "messages_in_flight": Metric("sum", ("group",), "messages of sends without an outcome"),
    "messages_handled": Metric(
        "counter", _SEND, "messages that a handler acknowledged, or a lite pull consumer passed"
    ),
    "handler_failures": Metric("counter", _SEND, "messages whose handler failed"),
    "messages_sent_back": Metric("counter", _SEND, "failed messages that a broker took back"),
    "lag_messages": Metric("gauge", _SEND, "messages of this member's queues to be handled"),
}
"""Every metric, by its name for `ClientMetrics`."""


class ClientMetrics(Protocol):
    """Is told of a client's work; see `METRICS`. Called by any thread, so it must not block."""

    def add(self, name: str, amount: float, labels: Mapping[str, str], /) -> None:
        """Add to a counter or a sum.

        name: one of `METRICS`. amount: negative only of a sum. labels: the names that the metric
        has there, with their values.
        """
        ...

    def set(self, name: str, value: float, labels: Mapping[str, str], /) -> None:
        """Set a gauge. value: the new one. name, labels: as for `add`."""
        ...


def check_metrics(name: str, given: Any) -> Any:
    """An object with `add` and `set`, as it is. Raises TypeError for anything else."""
    if isinstance(given, type) or not all(
        callable(getattr(given, method, None)) for method in ("add", "set")
    ):
        raise TypeError(
            f"{name} must have add(name, amount, labels) and set(name, value, labels), as "
            f"PrometheusMetrics() has, not {given!r}"
        )
    return given


def counting_sends(metrics: ClientMetrics, group: str) -> Any:
    """A middleware that counts the sends of a producer."""

    def count(message: Message | Sequence[Message], _context: object) -> Generator[None, Any, None]:
        messages = [message] if isinstance(message, Message) else message
        number = len(messages) if isinstance(messages, (list, tuple)) else 1
        topic = str(getattr(messages[0], "topic", "")) if number and messages else ""
        labels = {"group": group, "topic": topic}
        metrics.add("messages_in_flight", number, {"group": group})
        try:
            yield
        except BaseException as error:
            metrics.add("send_failures", number, {**labels, "error": type(error).__name__})
            raise
        else:
            metrics.add("messages_sent", number, labels)
        finally:
            metrics.add("messages_in_flight", -number, {"group": group})

    return count
