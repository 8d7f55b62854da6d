"""The HTTP listener of a server: a table from paths to functions.

It is Python's own `http.server`. Starlette on uvicorn would be more comfortable, but its import
takes 70 ms and 10 MB more, which every start of a server with `metricsListen` would pay.

The listener has at most CONNECTIONS_MAX connections and closes each after at most TIMEOUT_S.
"""

from __future__ import annotations

import gzip
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mqserver.config.loaded import SettingsError
from mqserver.runtime.ports import naming_port

log = logging.getLogger("mqserver")
DEFAULT_HOST = "127.0.0.1"
TEXT = "text/plain; charset=utf-8"
CONNECTIONS_MAX = 32
"""Connections open at the same time; a further one is closed when it is accepted."""
TIMEOUT_S = 10.0
"""Longest time from accepting a connection to the last byte of its answer."""
COMPRESS_BYTES_MIN = 1024
"""A longer body is compressed for clients that accept gzip."""


@dataclass(frozen=True)
class Request:
    """A GET request. query: the values of each parameter. headers: by name, any case."""

    path: str
    query: Mapping[str, list[str]]
    headers: Message


@dataclass(frozen=True)
class Reply:
    """The answer of a path. body: encoded as content_type says."""

    status: int
    body: bytes
    content_type: str = TEXT

    @classmethod
    def line(cls, status: int, text: str) -> Reply:
        """One line of plain text."""
        return cls(status, f"{text}\n".encode())


Route = Callable[[Request], Reply]


def address_of(listen: str) -> tuple[str, int]:
    """Host and port of "host:port", ":port" or "port". Raises SettingsError for other text."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f'metricsListen={listen}: must be "host:port" or "port"')
    return host.strip("[]") or DEFAULT_HOST, int(port)


class HttpListener:
    """Answers GET requests of known paths: `start`, then `stop`.

    listen: "host:port"; port 0 picks a free one, see `port`. routes: the function of each path,
    which may run on several threads at once; an exception of it is logged and closes the
    connection. Raises SettingsError for a bad address, and OSError at `start` when it cannot
    listen.
    """

    def __init__(self, listen: str, routes: Mapping[str, Route]) -> None:
        self._address = address_of(listen)
        self._routes = routes
        self._server: _Server | None = None
        self.port = self._address[1]

    def start(self) -> None:
        """Listen, and answer each connection on a thread of its own."""
        with naming_port(str(self._address[1]), "metricsListen"):
            self._server = _Server(self._address, _handler(self._routes))
        self.port = self._server.server_port
        serve = self._server.serve_forever
        threading.Thread(target=serve, name="http", daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Refuses connections above the limit, and ends connections that take too long."""

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
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
        """End connections that are past their deadline; called twice a second."""
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
            log.exception("an HTTP request of %s failed", client_address[0])


def _handler(routes: Mapping[str, Route]) -> type[BaseHTTPRequestHandler]:
    known = ", ".join(routes)

    class Handler(BaseHTTPRequestHandler):
        """Looks the path up and writes the reply."""

        def do_GET(self) -> None:
            """Answer one request."""
            url = urlsplit(self.path)
            route = routes.get(url.path)
            if route is None:
                self._write(Reply.line(404, f"there is no {url.path} here, only {known}"))
            else:
                self._write(route(Request(url.path, parse_qs(url.query), self.headers)))

        def _write(self, reply: Reply) -> None:
            body = reply.body
            accepted = self.headers.get("Accept-Encoding", "")
            compressed = len(body) > COMPRESS_BYTES_MIN and "gzip" in accepted
            if compressed:
                body = gzip.compress(body, compresslevel=1)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            if compressed:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log no line for a request."""

    return Handler
