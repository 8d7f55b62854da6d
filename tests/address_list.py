"""An HTTP address server for tests, with answers that the test sets."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class AddressList:
    """Listens on the loopback interface. body, status: of each answer. asked: paths so far.

    silent: set, it takes requests and does not answer.
    """

    def __init__(self, body: str | bytes = "") -> None:
        self.body = body
        self.status = 200
        self.asked: list[str] = []
        self.silent = False
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.domain = f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """The URL of the address list, as a client builds it from the domain."""
        return f"http://{self.domain}/rocketmq/nsaddr"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if outer.silent:
                    outer._ended.wait(60)
                    return
                body = outer.body.encode() if isinstance(outer.body, str) else outer.body
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Tests read `asked`."""

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)
