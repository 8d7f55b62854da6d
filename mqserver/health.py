"""`/metrics`, `/live` and `/ready` of a server, at `metricsListen`.

`/live` answers 200 while the process runs. `/ready` answers 200 while the server accepts work, else
503 with the reason. Needs the extra `metrics` (prometheus-client).

The listener has at most CONNECTIONS_MAX connections and closes each after at most TIMEOUT_S.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import TYPE_CHECKING, Any

from mqserver.config.loaded import SettingsError
from mqserver.ports import naming_port
from mqstore.extras import advice

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = logging.getLogger("mqserver")
DEFAULT_HOST = "127.0.0.1"
CONNECTIONS_MAX = 32
"""Connections open at the same time; a further one is closed when it is accepted."""
TIMEOUT_S = 10.0
"""Longest time from accepting a connection to the last byte of its answer."""


def require() -> None:
    """SettingsError if prometheus-client is not installed."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise SettingsError(advice("prometheus_client", "metricsListen"))


Collect = Callable[[], "Iterable[Metric]"]
Unready = Callable[[], "str | None"]


def address_of(listen: str) -> tuple[str, int]:
    """Host and port of "host:port", ":port" or "port". Raises SettingsError for other text."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f'metricsListen={listen}: must be "host:port" or "port"')
    return host.strip("[]") or DEFAULT_HOST, int(port)


class Health:
    """The HTTP listener of one server: `start`, then `stop`.

    listen: "host:port"; port 0 picks a free one, see `port`. collect: returns the current metrics.
    unready: returns why the server accepts no work, None if it does. Raises SettingsError for a bad
    address, and OSError at `start` when it cannot listen.
    """

    def __init__(self, listen: str, collect: Collect, unready: Unready) -> None:
        self._address = address_of(listen)
        self._handler = _handler(collect, unready)
        self._server: _Server | None = None
        self.port = self._address[1]

    def start(self) -> None:
        """Listen, and answer each connection on a thread of its own."""
        with naming_port(str(self._address[1]), "metricsListen"):
            self._server = _Server(self._address, self._handler)
        self.port = self._server.server_port
        serve = self._server.serve_forever
        threading.Thread(target=serve, name="health", daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Refuses connections above the limit, and ends connections that take too long."""

    def __init__(self, address: tuple[str, int], handler: type[Any]) -> None:
        self._open: dict[socket, float] = {}
        super().__init__(address, handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for one more connection."""
        return len(self._open) < CONNECTIONS_MAX

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread of its own; the deadline is TIMEOUT_S from now."""
        self._open[request] = time.monotonic() + TIMEOUT_S
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End late connections, whose threads then see the end; called twice a second."""
        now = time.monotonic()
        for request, until in list(self._open.items()):
            if until <= now:
                with suppress(OSError):  # closed meanwhile
                    request.shutdown(SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error, unless the peer closed its connection."""
        if not isinstance(sys.exception(), OSError):
            log.exception("the request of %s for metrics failed", client_address[0])


def _handler(collect: Collect, unready: Unready) -> type[Any]:
    from prometheus_client import CollectorRegistry, MetricsHandler

    registry = CollectorRegistry()
    registry.register(_Collector(collect))

    class ProbeHandler(MetricsHandler.factory(registry)):  # type: ignore[misc]
        """Prometheus's handler, with `/live` and `/ready`."""

        def do_GET(self) -> None:
            """Answer a probe, or the metrics."""
            path = self.path.partition("?")[0]
            if path == "/metrics":
                super().do_GET()
            elif path == "/live":
                self._say(200, "live")
            elif path == "/ready":
                reason = unready()
                self._say(503 if reason else 200, reason or "ready")
            else:
                self._say(404, "there are /metrics, /live and /ready")

        def _say(self, status: int, text: str) -> None:
            body = f"{text}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ProbeHandler


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
