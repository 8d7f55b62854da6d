"""The server's sockets, and the threads that call processors.

The Rust plane answers many requests itself and hands the others to families of Python threads
through bounded queues. A thread looks the request code up in one table and calls a processor.
A processor's exception is logged once, here, and answered with code 1, as RocketMQ does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

from mqcommon import _core, core_logs
from mqserver.config.loaded import SettingsError
from mqserver.runtime.data_plane import PlaneStopped, Traffic
from mqserver.runtime.ports import naming_port
from mqserver.runtime.processor_api import (
    AGAIN,
    LATER,
    NO_REPLY,
    AgainAfter,
    Family,
    Hold,
    Processor,
    Refused,
    Reply,
    Response,
)
from mqserver.runtime.processor_api import Request as AnyRequest
from mqserver.runtime.services import Services, is_failure
from mqserver.tls.certificates import CertificateWatch
from mqstore.store import Store

__all__ = ["Event", "Listener", "Request", "not_supported"]

Event = _core.Event
Request = _core.Request

logger = logging.getLogger(__name__)

EVENTS = "events"
"""Name of the queue of connection events."""
WAIT_SECONDS = 3600.0
"""Longest single wait of a hand-off thread; a stop ends the wait at once."""
REST_TIMES = 9
"""After a request of a resting family, its thread sleeps this many times as long as the request
took."""
REST_SECONDS_MAX = 0.1
"""Longest sleep after a request of a resting family."""
REST_NICE = 15
"""Nice value of such a thread. Other threads may wait for the GIL while this thread holds it and
waits for a core. With 15 it gets 3 % of a core beside a busy thread, with 19 half of that."""
NOTABLE_EVENTS = frozenset({"bad_frame", "unread", "refused", "tls"})
"""Kinds of connection ends that an operator should know of: logged as warnings."""


def not_supported(request: AnyRequest) -> Response:
    """The broker's answer to a code without a processor; the leading space is RocketMQ's."""
    return Response(3, f" request type {request.code} not supported")


class Listener:
    """One listening server and its hand-off threads.

    settings: the settings of `_core.Server`, without families, routes and default family.
    store: the broker's open store; None for a NameServer.
    processors: request code to function.
    families: a bounded queue and its threads, by name.
    code_families: the family of each code; other codes go to `default`.
    default: family and processor of all other codes; None leaves them unanswered, as RocketMQ's
    NameServer does.
    on_event: called for every connection that ended, on a thread of its own, in order.
    services: log and count failures of this server's threads.

    Methods may be called from any thread. Start once, stop once.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        store: Store | None = None,
        *,
        processors: Mapping[int, Processor],
        families: Mapping[str, Family],
        code_families: Mapping[int, str],
        default: tuple[str, Processor] | None = None,
        on_event: Callable[[Event], None] | None = None,
        services: Services | None = None,
    ) -> None:
        missing = sorted(code for code in code_families if code not in processors)
        if missing:
            raise ValueError(f"no processor for request codes {missing}")
        self._processors = dict(processors)
        self._default = default[1] if default else None
        self._families = dict(families)
        self._on_event = on_event
        self._services = services or Services()
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        server_settings = {
            **settings,
            "families": {name: family.capacity for name, family in families.items()},
            "routes": dict(code_families),
            "default_family": default[0] if default else None,
        }
        fast_port = settings.get("fast_port")
        self._port = f"{settings['port']}{f' or {fast_port}' if fast_port else ''}"
        try:
            self._server = _core.Server(server_settings, store)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        tls = settings.get("tls")
        shown = count(1)
        self._watch = CertificateWatch(
            tls if isinstance(tls, Mapping) else {"mode": "disabled"},
            lambda files: self.publish("tls", next(shown), {"": files}),
            services=self._services,
        )
        self._services.follow(self._server.failures)

    def start(self, accept: bool = True) -> tuple[int, int | None]:
        """Bind, listen and serve; return the main and the fast (VIP) port.

        accept: False leaves connections in the kernel's queue until `accept`.
        Raises OSError when a port is taken or the address cannot be bound.
        """
        core_logs.forward()
        with naming_port(self._port, "listenPort"):
            ports = self._server.start(accept)
        for name, family in self._families.items():
            for index in range(family.threads):
                self._start_thread(f"mq-{name}-{index}", self._serve, family)
        self._start_thread("mq-events", self._follow_events)
        self._watch.start()
        return ports

    def accept(self) -> None:
        """Accept the connections that wait in the kernel's queue, and all later ones."""
        self._server.accept()

    def stop(self, timeout: float = 5.0) -> None:
        """Answer open requests, close every connection, join the threads.

        timeout: seconds for requests that processors work on; after it they are answered code 1.
        """
        deadline = time.monotonic() + timeout
        self._stopping.set()
        self._watch.stop()
        self._server.stop(timeout)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()) + 1.0)
            if thread.is_alive():
                logger.warning("thread %s still runs a processor after the stop", thread.name)
        self._threads.clear()
        core_logs.deliver()

    def publish(
        self, table: str, version: int, rows: Mapping[str, object | None], replace: bool = False
    ) -> None:
        """Publish changes of a table to the Rust plane; see `_core.Server.publish`."""
        self._server.publish(table, version, rows, replace)

    def send(self, connection: int, frame: bytes) -> bool:
        """Send a one-way request to a client; False if its connection is gone."""
        return self._server.send(connection, frame)

    def ask(self, connection: int, frame: bytes) -> int:
        """Send a request to a client without waiting; return the opaque of its reply.

        Raises ConnectionError if the client is gone, BlockingIOError if it does not take or answer
        the request.
        """
        return self._server.ask(connection, frame)

    def next_client_reply(self, timeout: float) -> tuple[int, int, bytes | None] | None:
        """The next reply of any client: connection, opaque, and the frame, which is None if the
        connection closed or the reply is too large.

        None after `timeout` seconds or `wake_client_replies`. Raises PlaneStopped after the stop.
        """
        try:
            return self._server.next_client_reply(timeout)
        except _core.ServerStopped as stopped:
            raise PlaneStopped(str(stopped)) from None

    def wake_client_replies(self) -> None:
        """Let `next_client_reply` return at once; if nobody waits in it, its next call."""
        self._server.wake_client_replies()

    def forget_client_reply(self, connection: int, opaque: int) -> None:
        """Drop that reply if it still comes."""
        self._server.forget_client_reply(connection, opaque)

    def take_denials(self) -> tuple[int, tuple[str, str] | None]:
        """Number of requests that access control refused since the last call, and peer and reason
        of the newest."""
        return self._server.take_denials()

    def connections(self) -> list[tuple[int, str, float]]:
        """Open connections: id, "ip:port", seconds since the last byte read."""
        return self._server.connections()

    def is_open(self, connection: int) -> bool:
        """Whether the connection is open."""
        return self._server.is_open(connection)

    def close_connection(self, connection: int) -> None:
        """Close one connection; its unsent replies are lost."""
        self._server.close_connection(connection)

    def silent(self, connections: Sequence[int], seconds: float) -> list[int]:
        """The connections whose last natively answered heartbeat is at least `seconds` old."""
        return self._server.silent(list(connections), seconds)

    def lock_batch(
        self, group: str, client: tuple[str, str], queues: Sequence[tuple[str, str, int]]
    ) -> tuple[list[tuple[str, str, int]], str | None]:
        """Lock (topic, broker, queue id) for a client, by its id and IP address; return the queues
        it holds now, and the remark for the client if a limit refused the others."""
        return self._server.lock_batch(group, client, queues)

    def unlock_batch(
        self, group: str, client_id: str, queues: Sequence[tuple[str, str, int]]
    ) -> None:
        """Unlock the queues that the client holds."""
        self._server.unlock_batch(group, client_id, queues)

    def counters(self) -> dict[str, int]:
        """Counts since the start, and the requests that wait now; see `_core.Server.counters`."""
        return self._server.counters()

    def certificate_end(self) -> int | None:
        """When the certificate in use expires, seconds since 1970; None without a file."""
        return self._watch.ends_at

    def take_traffic(self) -> list[Traffic]:
        """The messages that the plane stored, read and delivered since the last call."""
        return self._server.take_traffic()

    def set_overload(self, busy_ms: int, patience_ms: Mapping[str, int] | None) -> None:
        """Refuse sends while the log's lock is held for longer than `busy_ms`.

        patience_ms: longest wait of a request, by family; other families have no limit. None
        leaves the queues alone.
        """
        self._server.set_overload(busy_ms, patience_ms)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections stay open."""
        self._server.stop_accepting()

    def release_holds(self) -> None:
        """Answer every held request, and hold no more."""
        self._server.release_holds()

    def _start_thread(self, name: str, body: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=body, name=name, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)  # after the start: only a started thread can be joined

    def _serve(self, family: Family) -> None:
        if family.rests:
            _go_behind()
        while True:
            try:
                request = self._next(family.name)
            except _core.ServerStopped:
                return
            # Wall time, because the thread holds the GIL even while it waits for a core.
            began = time.monotonic()
            if isinstance(request, Request):
                self._answer(request)
            del request  # frees the frame; dropping an unanswered request answers its client
            if family.rests:
                self._stopping.wait(min(REST_TIMES * (time.monotonic() - began), REST_SECONDS_MAX))

    def _next(self, queue: str) -> Request | Event | None:
        """The next entry of a queue; None if none came in time, or if the core failed."""
        name = f"mq-{queue}"
        # After a failure the wait is short, so that a recovery is noticed soon.
        wait_s = REST_SECONDS_MAX if self._services.is_failing(name) else WAIT_SECONDS
        try:
            taken = self._server.next(queue, wait_s)
        except _core.ServerStopped:
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            logger.exception("%s failed; it will try again", name)
            self._services.failed(name, f"{type(error).__name__}: {error}")
            self._stopping.wait(REST_SECONDS_MAX)
            return None
        self._services.succeeded(name)
        return taken

    def _answer(self, request: Request) -> None:
        processor = self._processors.get(request.code, self._default)
        try:
            reply = NO_REPLY if processor is None else processor(request)
        except Refused as refused:
            reply = refused.response
        except BaseException as error:  # a Rust panic is a BaseException; the thread must continue
            _fail(request, error)
            return
        try:
            _give(request, reply)
        except Exception as error:
            _fail(request, error)

    def _follow_events(self) -> None:
        while True:
            try:
                event = self._next(EVENTS)
            except _core.ServerStopped:
                return
            if not isinstance(event, Event):
                continue
            level = logging.WARNING if event.kind in NOTABLE_EVENTS else logging.DEBUG
            logger.log(level, "connection from %s: %s, %s", event.remote, event.kind, event.detail)
            if self._on_event is not None:
                with self._services.round("mq-events"):
                    self._on_event(event)


def _go_behind() -> None:
    """Lower this thread's priority below the threads that do not rest, on Linux.

    As a batch thread it does not preempt the worker that wakes it either. The nice value alone does
    not ensure that when the worker has just used more than its share.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            usual = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, max(usual, REST_NICE))
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _give(request: Request, reply: Reply) -> None:
    """Hand a processor's reply to the Rust plane."""
    if isinstance(reply, Response):
        request.respond(reply.code, reply.remark, reply.fields, reply.body)
    elif isinstance(reply, Hold):
        codes = None if reply.tag_codes is None else list(reply.tag_codes)
        request.hold(reply.topic, reply.queue_id, reply.offset, reply.timeout, codes)
    elif reply is AGAIN:
        request.again()
    elif reply is NO_REPLY:
        request.no_reply()
    elif isinstance(reply, AgainAfter):
        reply.start(partial(_go_on, request))
    elif reply is not LATER:
        raise TypeError(f"a processor of code {request.code} returned {reply!r}, not a Reply")


def _go_on(request: Request, error: Exception | None) -> None:
    if error is None:
        request.again()
    else:
        _fail(request, error)


def _fail(request: Request, error: BaseException) -> None:
    logger.error("request %s from %s failed", request.code, request.remote, exc_info=error)
    try:
        request.fail(f"{type(error).__name__}: {error}")
    except RuntimeError:
        logger.debug("request %s had been answered before it failed", request.code)
