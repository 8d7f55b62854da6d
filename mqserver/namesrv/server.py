"""Builds, starts and stops a NameServer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqserver.config.loaded import Loaded
from mqserver.config.online import OnlineSettings
from mqserver.config.paths import namesrv_override
from mqserver.config.settings import NamesrvSettings, namesrv_settings
from mqserver.namesrv.answers import LEGACY, STANDARD, answer_key
from mqserver.namesrv.bounds import Bounds
from mqserver.namesrv.kv import KeyValues
from mqserver.namesrv.processors import Names, processors_of, silence
from mqserver.namesrv.routes import Routes
from mqserver.registration.secret import SignatureCheck
from mqserver.runtime import file_modes
from mqserver.runtime.data_plane import Event, Tables
from mqserver.runtime.descriptors import connections_max
from mqserver.runtime.guard import Guard, guarded
from mqserver.runtime.listener import Listener
from mqserver.runtime.memory import HANDOFF_BYTES, REPLY_BYTES, memory_limit, within_memory
from mqserver.runtime.process_state import Hold
from mqserver.runtime.processor_api import Family
from mqserver.runtime.services import Services
from mqserver.tls.certificates import plane_tls

if TYPE_CHECKING:
    from mqserver.health.http_listener import HttpListener
    from mqserver.namesrv.product import ProductEnvironment

log = logging.getLogger("mqserver.namesrv")
FAMILY = "names"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_REQUESTS_WAITING_MAX = 50_000


class NameServer:
    """A NameServer in this process.

    servers: number of listening servers in this process, which share its file descriptors. Raises
    SettingsError if the key-value file is damaged; `start` raises OSError if it cannot listen.
    """

    def __init__(self, loaded: Loaded, servers: int = 1) -> None:
        self.settings = namesrv_settings(loaded)
        self._servers = servers
        self._hold = Hold()
        file_modes.use(loaded)
        self.services = Services()
        self._tables = Tables()
        self._answered: set[str] = set()
        self._admin = Guard("adminAllowAddresses", self.settings.admin_allow_addresses)
        self.names = Names(
            settings=self.settings,
            routes=Routes(
                time.monotonic,
                self.settings.broker_expiry / 1000,
                self._forget_answers,
                Bounds(lambda: self.settings, lambda host: self._admin.trusts(f"{host}:0")),
            ),
            kv=KeyValues(self.settings.kv_config_path),
            online=OnlineSettings(
                loaded,
                namesrv_override(loaded),
                self._changed,
                namesrv_settings,
                lambda: time.time_ns() // 1_000_000,
            ),
            brokers=Guard("brokerAllowAddresses", self.settings.broker_allow_addresses),
            signatures=SignatureCheck(self.settings.registration_secret),
            publish=self._keep_answer,
            is_open=lambda connection: self._listener.is_open(connection),
        )
        self._product: ProductEnvironment | None = None
        if self.settings.cluster_test:
            self._product = _product(self.settings)
            self.names.product = self._product.route
        self._listener = Listener(
            _plane_settings(self.settings, self._servers),
            None,
            processors=guarded(processors_of(self.names), self._admin),
            families={FAMILY: Family(FAMILY, _REQUESTS_WAITING_MAX, self.settings.handoff_threads)},
            code_families={},
            default=(FAMILY, silence),
            on_event=self._on_event,
            services=self.services,
        )
        self._stopping = threading.Event()
        self._scanner = threading.Thread(target=self._scan, name="dead-brokers", daemon=True)
        self.port = self.settings.listen_port
        self._health: HttpListener | None = None
        if self.settings.metrics_listen:
            self._health = _health(self.names, self._listener, self.services)

    @property
    def metrics_port(self) -> int | None:
        """Port of `/metrics`, None without `metricsListen`."""
        return self._health.port if self._health else None

    @property
    def address(self) -> str:
        """The address for clients on this machine, "host:port"."""
        host = self.settings.bind_address
        return f"{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{self.port}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator about the settings."""
        names = self.names
        is_open = names.brokers.is_open and not names.signatures.is_on
        if not is_open or self.settings.bind_address in LOOPBACK:
            return ()
        return (
            "any host of a private network may register as a broker; set registrationSecret on the "
            "NameServer and its brokers, or brokerAllowAddresses to the brokers' networks",
        )

    def counters(self) -> dict[str, int]:
        """The counters of the Rust data plane, such as "native.CODE" and "python.CODE"."""
        return self._listener.counters()

    def start(self) -> None:
        """Listen. Raises OSError if a port is in use; then nothing is left open."""
        self.port, _ = self._listener.start(accept=False)
        self._hold.take()
        try:
            if self._health is not None:
                self._health.start()
        except BaseException:
            self._listener.stop(timeout=0.0)
            self._hold.give_back()
            raise
        self._tables.attach(self._listener)
        self._scanner.start()
        self._listener.accept()

    def stop(self) -> None:
        """Stop listening and join all threads."""
        self._stopping.set()
        log.info("the NameServer is stopping")
        if self._health is not None:
            self._health.stop()
        self._listener.stop_accepting()
        self._listener.stop(timeout=5.0)
        if self._scanner.ident is not None:
            self._scanner.join(timeout=5.0)
        if self._product is not None:
            self._product.close()
        self._hold.give_back()
        log.info("the NameServer has stopped")

    def _scan(self) -> None:
        """Forget silent brokers, and close their connections."""
        while not self._stopping.wait(self.settings.scan_not_active_broker_interval / 1000):
            with self.services.round(self._scanner.name):
                for connection in self.names.routes.expire():
                    self._listener.close_connection(connection)

    def _on_event(self, event: Event) -> None:
        """Forget the broker of a closed connection."""
        self.names.routes.close(event.connection, event.remote)

    def _keep_answer(self, style: str, topic: str, body: bytes) -> None:
        """Publish a rendered route to the data plane; the caller holds the lock of the routes."""
        self._answered.add(topic)
        self._tables.publish("answers", {answer_key(style, topic): body})

    def _forget_answers(self, topics: Iterable[str]) -> None:
        """Withdraw the published routes of changed topics; the caller holds the routes' lock."""
        known = self._answered.intersection(topics)
        if known:
            self._answered -= known
            keys = [answer_key(style, topic) for topic in known for style in (STANDARD, LEGACY)]
            self._tables.publish("answers", dict.fromkeys(keys))

    def _changed(self, loaded: Loaded) -> None:
        """Apply an online update, which may change permissions and the content of routes."""
        settings = namesrv_settings(loaded)
        self._admin.allow(settings.admin_allow_addresses)
        self.names.brokers.allow(settings.broker_allow_addresses)
        with self.names.routes.lock:
            self.names.settings = self.settings = settings
            self._forget_answers(self.names.routes.topics())


def _health(names: Names, listener: Listener, services: Services) -> HttpListener:
    """Make the server of `/metrics`, `/live` and `/ready` of a NameServer."""
    from mqserver.health.endpoints import health_listener, require

    require()
    from mqserver.namesrv.metrics import NamesMetrics

    figures = NamesMetrics(names, listener.counters, listener.certificate_end, services.failures)
    return health_listener(names.settings.metrics_listen, figures.collect, services.unready)


def _product(settings: NamesrvSettings) -> ProductEnvironment:
    """The product environment of a test cluster."""
    from mqserver.namesrv.product import ProductEnvironment

    return ProductEnvironment(
        settings.product_env_name,
        settings.rmq_address_server_domain,
        settings.rmq_address_server_sub_group,
    )


def _plane_settings(settings: NamesrvSettings, servers: int) -> dict[str, object]:
    limit = memory_limit()
    return {
        "kind": "namesrv",
        "host": settings.bind_address,
        "port": settings.listen_port,
        "fast_port": None,
        "worker_threads": settings.worker_threads or None,
        "data_plane": "native",
        "max_frame_bytes": settings.max_frame_bytes,
        "max_header_bytes": settings.max_header_bytes,
        "max_header_fields": settings.max_header_fields,
        "frame_timeout": float(settings.max_frame_seconds),
        "min_frame_rate": settings.min_frame_bytes_per_second,
        "max_large_bytes": within_memory(settings.max_large_request_bytes, limit),
        "max_reply_bytes": within_memory(REPLY_BYTES, limit),
        "max_handoff_bytes": within_memory(HANDOFF_BYTES, limit),
        "max_unfinished_bytes": within_memory(settings.max_unfinished_frame_bytes, limit),
        "idle_timeout": float(settings.server_channel_max_idle_time_seconds),
        "max_connections": connections_max(settings.max_connections, servers),
        "store_host": f"127.0.0.1:{settings.listen_port}",
        "tls": plane_tls(settings.server_tls),
    }
