"""`/metrics`, `/live` and `/ready` of a server, at `metricsListen`.

`/live` answers as long as the process does. `/ready` is 200 while the server takes work, else 503
with the reason. Needs the extra `metrics` (prometheus-client).
"""

from __future__ import annotations

import importlib.util
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from mqserver.config.load import SettingsError

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

DEFAULT_HOST = "127.0.0.1"
CONNECTIONS_MAX = 32
"""Open connections of one health port; one more closes the oldest, so a probe always gets in."""
TIMEOUT_S = 10.0
"""The port closes a connection that is silent for this long before it has sent its request."""

log = logging.getLogger(__name__)


def require() -> None:
    """SettingsError if prometheus-client is not installed."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise SettingsError("metricsListen needs prometheus-client: pip install 'mqstack[metrics]'")


Collect = Callable[[], "Iterable[Metric]"]
Unready = Callable[[], "str | None"]


def address_of(listen: str) -> tuple[str, int]:
    """Host and port of "host:port", ":port" or "port"; SettingsError says what is allowed."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f'metricsListen={listen}: must be "host:port" or "port"')
    return host.strip("[]") or DEFAULT_HOST, int(port)


class Health:
    """The HTTP listener of one server: `start`, then `stop`.

    listen: "host:port"; port 0 picks a free one, see `port`. collect: the metrics of the moment.
    unready: why the server takes no work, None if it does. Raises SettingsError for a bad address,
    and OSError at `start` when it cannot listen.
    """

    def __init__(self, listen: str, collect: Collect, unready: Unready) -> None:
        self._address = address_of(listen)
        self._handler = _handler(collect, unready)
        self._server: _Server | None = None
        self.port = self._address[1]

    def start(self) -> None:
        """Listen, and answer in threads of its own."""
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
    """One thread per connection, and a bound on both."""

    def __init__(self, address: tuple[str, int], handler: type[Any]) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, None] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a new connection; above the bound, end the oldest one."""
        with self._lock:
            self._open[request] = None
            if len(self._open) > CONNECTIONS_MAX:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # its client may have closed it already
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failure; most are clients that went away."""
        log.debug("a request of %s failed", client_address, exc_info=True)


def _handler(collect: Collect, unready: Unready) -> type[Any]:
    from prometheus_client import CollectorRegistry, MetricsHandler

    registry = CollectorRegistry()
    registry.register(_Collector(collect))

    class Handler(MetricsHandler.factory(registry)):  # type: ignore[misc]
        """Prometheus's own handler, and two more paths."""

        timeout = TIMEOUT_S

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

    return Handler


class _Collector:
    """Metrics made anew for each look."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """What prometheus-client asks for."""
        return self._collect()

    def describe(self) -> Iterable[Metric]:
        """Nothing: names come with the metrics."""
        return []
