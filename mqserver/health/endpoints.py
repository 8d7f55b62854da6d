"""`/metrics`, `/live` and `/ready` of a server, at `metricsListen`.

`/live` answers 200 while the process runs. `/ready` answers 200 while the server accepts work, else
503 with the reason. Needs the extra `metrics` (prometheus-client).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mqcommon.extras import advice
from mqserver.config.loaded import SettingsError
from mqserver.health.http_listener import HttpListener, Reply, Request, Route

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Collect = Callable[[], "Iterable[Metric]"]
Unready = Callable[[], "str | None"]


def require() -> None:
    """SettingsError if prometheus-client is not installed."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise SettingsError(advice("prometheus_client", "metricsListen"))


def health_listener(listen: str, collect: Collect, unready: Unready) -> HttpListener:
    """Make the listener of the three paths.

    listen: "host:port". collect: returns the current metrics. unready: returns why the server
    accepts no work, None if it does. Raises SettingsError for a bad address.
    """

    def ready(_: Request) -> Reply:
        reason = unready()
        return Reply.line(503 if reason else 200, reason or "ready")

    def live(_: Request) -> Reply:
        return Reply.line(200, "live")

    return HttpListener(listen, {"/metrics": _metrics(collect), "/live": live, "/ready": ready})


def _metrics(collect: Collect) -> Route:
    from prometheus_client import CollectorRegistry, exposition

    registry = CollectorRegistry()
    registry.register(_Collector(collect))

    def metrics(request: Request) -> Reply:
        encode, content_type = exposition.choose_encoder(request.headers.get("Accept", ""))
        return Reply(200, encode(registry), content_type)

    return metrics


class _Collector:
    """Collects the metrics at each request."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """The current metrics."""
        return self._collect()

    def describe(self) -> Iterable[Metric]:
        """No metrics: the names are known only when they are collected."""
        return []
