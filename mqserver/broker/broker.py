"""Builds, starts and stops a broker. `stop` takes the steps of `start` back in reverse order."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.broker import table
from mqserver.broker.context import BrokerContext, NoNameServers
from mqserver.broker.creations import Creations
from mqserver.broker.opening import open_store
from mqserver.broker.published import broker_row, plane_settings
from mqserver.broker.relay import Relay
from mqserver.broker.replication.replication import Replication
from mqserver.broker.slow_groups import stop_slow_groups
from mqserver.broker.state import filters, groups, topics, unasked
from mqserver.broker.state.bounds import Bounds, Footprints
from mqserver.broker.state.consumers import Consumers
from mqserver.broker.state.filters import BloomShape, Filters
from mqserver.broker.state.loading import Loading
from mqserver.broker.state.producers import Producers
from mqserver.broker.state.saving import Saver
from mqserver.broker.stats.log import StatsLog
from mqserver.broker.stats.statistics import statistics_of
from mqserver.broker.transactions.checking import Checks
from mqserver.broker.unused import take_back_unused
from mqserver.config.loaded import Loaded
from mqserver.config.online import OnlineSettings
from mqserver.config.paths import broker_override
from mqserver.config.settings import (
    broker_settings,
    changed_online,
    store_settings,
)
from mqserver.registration.advertised import Advertised, advertised
from mqserver.runtime import file_modes
from mqserver.runtime.data_plane import Event, Tables
from mqserver.runtime.guard import Guard, guarded
from mqserver.runtime.listener import Listener
from mqserver.runtime.process_state import Hold
from mqserver.runtime.services import Services
from mqstore import Settings, Store, StoreError

if TYPE_CHECKING:
    from mqserver.health.http_listener import HttpListener
    from mqserver.registration.registrar import Registrar

log = logging.getLogger("mqserver.broker")

CLIENT_SCAN_S = 10.0
CLIENT_EXPIRY_S = 120.0
PROTECT_TURNS = 18
"""Scans between two checks for slow groups: three minutes."""
UNUSED_TURNS = 60
"""Scans between two searches for topics and groups without use: ten minutes."""
DRAIN_S = 5.0


class Broker:
    """A broker in this process: call `start`, then `stop`.

    store: settings of the store, made from `loaded` unless given. servers: number of listening
    servers in this process, which share its file descriptors. `start` raises SettingsError,
    StoreLocked, UnknownLayout, StoreDamaged or OSError, and then leaves nothing open.
    """

    def __init__(self, loaded: Loaded, store: Settings | None = None, servers: int = 1) -> None:
        self.settings = broker_settings(loaded)
        self._servers = servers
        self._hold = Hold()
        file_modes.use(loaded)
        self._loaded = loaded
        self._store_settings = store or store_settings(loaded)
        self.advertised: Advertised = advertised(
            self.settings.broker_ip1, self.settings.bind_address
        )
        self.port = self.settings.listen_port
        self.poisoned = False
        """After `stop`: whether the store could not be closed whole."""
        self.services = Services()
        self._tables = Tables()
        self._admin = Guard("adminAllowAddresses", self.settings.admin_allow_addresses)
        self._stopping = threading.Event()
        self._scanner = threading.Thread(target=self._scan, name="silent-clients", daemon=True)
        self._registrar: Registrar | None = None
        self._store: Store | None = None
        self._listener: Listener | None = None
        self._context: BrokerContext | None = None
        self._checks: Checks | None = None
        self._replication: Replication | None = None
        self._ha_port = 0
        self._health: HttpListener | None = None

    # --- what callers may ask

    @property
    def address(self) -> str:
        """The address that clients connect to, "host:port"."""
        return f"{self.advertised.host}:{self.settings.advertised_port or self.port}"

    @property
    def metrics_port(self) -> int | None:
        """Port of `/metrics`, None without `metricsListen`."""
        return self._health.port if self._health else None

    @property
    def context(self) -> BrokerContext:
        """State and store of a started broker."""
        assert self._context is not None, "the broker is not started"
        return self._context

    @property
    def away(self) -> dict[str, str]:
        """NameServers that do not answer, with the reason."""
        return self._registrar.away if self._registrar else {}

    # --- start

    def start(self) -> None:
        """Open the store, load the state, listen, register."""
        log.info("broker %s starts in process %d", self.settings.broker_name, os.getpid())
        with ExitStack() as opened:  # a failed start closes everything that it opened
            self._hold.take()
            opened.callback(self._hold.give_back)
            store = open_store(self.settings, self._store_settings)
            opened.callback(self._give_up, store)
            self.services.follow(store.failures)
            self._serve(store, opened)
            self.context.registrar = self._registrar = self._made_registrar()
            opened.pop_all()
        self._store = store
        self._scanner.start()
        assert self._listener is not None
        self._listener.accept()
        self._registrar.start()
        assert self._replication is not None
        self._replication.begin(self._registrar.namesrvs)
        log.info("broker %s accepts requests at %s", self.settings.broker_name, self.address)

    def _give_up(self, store: Store) -> None:
        """Close the store of a failed start. An error of that must not hide the first error."""
        try:
            store.close()
        except (StoreError, OSError) as error:
            log.error("broker %s: its store was not closed: %s", self.settings.broker_name, error)

    def _serve(self, store: Store, opened: ExitStack) -> None:
        context = self._built(store)
        self._context = context
        if self.settings.acl_enable:
            from mqserver.broker.acl.control import access_control

            context.acl = access_control(self.settings, self._tables)
        listener = Listener(
            plane_settings(self.settings, self._store_host(), self._servers),
            store,
            processors=guarded(table.processors_of(context), self._admin),
            families=table.families_of(self.settings),
            code_families=table.CODE_FAMILIES,
            default=(table.DEFAULT_FAMILY, table.not_supported),
            on_event=self._on_event,
            services=self.services,
        )
        context.lock, context.unlock = listener.lock_batch, listener.unlock_batch
        context.is_open, context.counters = listener.is_open, listener.counters
        context.certificate_end = listener.certificate_end
        context.stats.follow(listener.take_traffic)
        self._publish_broker()
        self._tables.attach(listener)
        self._listener = listener
        opened.callback(listener.stop, timeout=0.0)
        self._limit_waiting()
        self.port, _ = listener.start(accept=False)
        context.relay.start(listener)
        opened.callback(context.relay.close)
        context.store_host = self._store_host()
        self._publish_broker()
        if context.acl is not None:
            context.acl.start(listener.take_denials, self.services)
            opened.callback(context.acl.stop)
        if self.settings.metrics_listen:
            self._health = _health(context)
            self._health.start()
            opened.callback(self._health.stop)
        context.saver.start()
        opened.callback(context.saver.stop)
        self._replication = context.replication = Replication(context, store, self.services)
        self._ha_port = self._replication.open(self.port)
        opened.callback(self._replication.stop)
        if not self.settings.is_slave:
            self._checks = Checks(context)
            self._checks.start()
            opened.callback(self._checks.stop)

    def _built(self, store: Store) -> BrokerContext:
        """Build the broker's state, and load the state files of the store."""
        saver = Saver(store.save_state, self.services)
        bounds = Bounds(lambda: self.settings, trusts=self._admin.trusts)
        unasked_table = unasked.Unasked(bounds, _now_ms, saver.mark)
        footprints = Footprints(bounds)
        filter_table = self._filters(saver)
        topics_saved = partial(saver.when_saved, topics.FILE)
        context = BrokerContext(
            settings=self.settings,
            store=store,
            bounds=bounds,
            unasked=unasked_table,
            creations=Creations(lambda: context.registrar.announce_created(), topics_saved),
            topic_changes=Creations(
                lambda: context.registrar.register_topics(), topics_saved, "topic-changes"
            ),
            topics=topics.Topics(
                topics.built_in(self.settings),
                self._tables,
                _now_ms,
                saver.mark,
                lambda: context.registrar.announce_created(),
                self.settings.enable_lmq,
                bounds,
                unasked_table,
            ),
            groups=groups.Groups(
                self._tables,
                _now_ms,
                saver.mark,
                lambda: context.settings.auto_create_subscription_group,
                self.settings.enable_lmq,
                bounds,
                unasked_table,
            ),
            consumers=Consumers(self._tables, self._notify, filter_table.follow, footprints),
            producers=Producers(footprints),
            filters=filter_table,
            saver=saver,
            online=OnlineSettings(
                self._loaded,
                broker_override(self._loaded),
                self._changed,
                broker_settings,
                _now_ms,
                self._addresses,
            ),
            registrar=NoNameServers(),
            store_host=self._store_host(),
            monotonic=time.monotonic,
            now_ms=_now_ms,
            lock=lambda _group, _client, _queues: ([], None),
            unlock=lambda _group, _client, _queues: None,
            is_open=lambda _connection: True,
            relay=Relay(),
            counters=dict,
            stats=statistics_of(self.settings),
            boot_ms=_now_ms(),
            services=self.services,
        )
        self._load(context, store)
        return context

    def _load(self, context: BrokerContext, store: Store) -> None:
        """Load the state files, and have the changes of the tables saved."""
        saver = context.saver
        saver.add(topics.FILE, context.topics.render)
        saver.add(groups.FILE, context.groups.render)
        saver.add(filters.FILE, context.filters.render)
        saver.add(unasked.FILE, context.unasked.render)
        loading = Loading(
            store, self._store_settings.repair_damage, topics.built_in(self.settings), _now_ms
        )
        context.topics.load(loading.topics())
        context.groups.load(loading.groups())
        context.filters.load(loading.filters())
        context.unasked.load(loading.unasked())
        saver.mark(topics.FILE)
        saver.mark(groups.FILE)

    def _filters(self, saver: Saver) -> Filters:
        """The table of filters, which publishes filter bits if messages carry them."""
        settings = self.settings
        shape = BloomShape(
            settings.max_error_rate_of_bloom_filter, settings.expect_consumer_num_use_filter
        )
        publish = partial(self._tables.publish, "filters")
        return Filters(
            shape,
            settings.filter_data_clean_time_span,
            _now_ms,
            saver.mark,
            publish if settings.enable_calc_filter_bit_map else None,
            lambda: self.settings.max_filter_bytes,
        )

    def _made_registrar(self) -> Registrar:
        # The port is open by now: it did not wait for the client engine, TLS and asyncio to load.
        from mqserver.registration.registrar import Identity, Registrar

        context, settings, own = self.context, self.settings, self._addresses()
        return Registrar(
            Identity(
                settings.broker_cluster_name,
                settings.broker_name,
                settings.broker_id,
                self.address,
                f"{own['brokerIP2']}:{own['haListenPort']}",
            ),
            context.topics,
            lambda: context.settings,
            # A slave has the marks of ordered topics from its master.
            (lambda _topics: None) if settings.is_slave else context.topics.set_ordered,
            self.services,
            self._replication.master_is if self._replication else None,
        )

    # --- stop

    def stop(self) -> None:
        """Unregister, refuse sends, answer held requests, save, close the store; at most 10 s."""
        if self._store is not None and not self._stopping.is_set():
            log.info("broker %s is stopping: it unregisters", self.settings.broker_name)
        began = time.monotonic()
        self._stopping.set()
        if self._registrar is not None:
            self._registrar.stop()
        listener, context, store = self._listener, self._context, self._store
        if listener is None or context is None or store is None:
            return
        log.info(
            "unregistered after %.2f s; requests that the broker has taken get at most %.0f s",
            time.monotonic() - began,
            DRAIN_S,
        )
        listener.stop_accepting()
        if self._checks is not None:
            self._checks.stop()
        context.accepting = False
        self._publish_broker()
        listener.release_holds()
        if self._health is not None:
            self._health.stop()
        if context.acl is not None:
            context.acl.stop()
        context.relay.close()
        listener.stop(timeout=DRAIN_S)
        if self._replication is not None:
            self._replication.stop()
        context.creations.stop()
        context.topic_changes.stop()
        self._scanner.join(timeout=1.0)
        context.saver.stop()
        self._store = None
        self._close_store(store, began)
        self._hold.give_back()

    def _close_store(self, store: Store, began: float) -> None:
        """Flush the store and close it. began: when the stop began."""
        end, closing = store.max_physical_offset(), time.monotonic()
        log.info(
            "requests are answered after %.2f s; the broker now closes its store", closing - began
        )
        name = self.settings.broker_name
        try:
            store.close()
        except (StoreError, OSError) as error:  # OSError: the disk is full, or a save failed
            self.poisoned = True
            log.error("broker %s stopped; the next start recovers its store: %s", name, error)
            return
        now = time.monotonic()
        log.info(
            "broker %s stopped after %.2f s: its store was closed in %.2f s, its log ends at %d",
            *(name, now - began, now - closing, end),
        )

    # --- tables and events

    def _addresses(self) -> dict[str, str | int]:
        """The addresses in use, by setting."""
        host = self.advertised.host
        slaves = self.settings.broker_ip2 or host
        return {"brokerIP1": host, "brokerIP2": slaves, "haListenPort": self._ha_port}

    def _store_host(self) -> str:
        port = self.settings.advertised_port or self.port
        ip = self.advertised.ip
        return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"

    def _publish_broker(self) -> None:
        self._tables.publish("broker", {"": broker_row(self.context)})

    def _limit_waiting(self) -> None:
        if self._listener is not None:
            busy_ms = self.settings.os_page_cache_busy_time_out_mills
            self._listener.set_overload(busy_ms, table.patience_of(self.settings))

    def _changed(self, loaded: Loaded) -> None:
        """Apply an online update; a new permission is registered with the NameServers."""
        before, context = self.settings, self.context
        self.settings = context.settings = broker_settings(loaded)
        context.store.set_cleaning(changed_online(self._store_settings, loaded).as_dict())
        self._admin.allow(self.settings.admin_allow_addresses)
        self._publish_broker()
        self._tables.forget_heartbeats()  # autoCreateSubscriptionGroup may have changed
        self._limit_waiting()
        if before.broker_permission != self.settings.broker_permission:
            context.topics.bump()
            context.registrar.announce()
        if before.namesrv_addr != self.settings.namesrv_addr and self._registrar is not None:
            self._registrar.look_again()

    def _on_event(self, event: Event) -> None:
        """Remove the client of a closed connection from every group."""
        self.context.forget(event.connection)

    def _notify(self, group: str, connections: list[int], lost: bool) -> None:
        """Send NOTIFY_CONSUMER_IDS_CHANGED (40) to every member, if broker and group allow."""
        context = self.context
        if not context.settings.notify_consumer_ids_changed_enable or self._listener is None:
            return
        config = context.groups.get(group)
        if not lost and config is not None and not config.notify_consumer_ids_changed_enable:
            return
        changed = Frame(int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED), {"consumerGroup": group})
        for connection in connections:
            context.relay.tell(connection, changed)

    def _scan(self) -> None:
        """Run every 10 s: sample statistics, note midnights, close silent connections."""
        refusal: str | None = None
        turns = count(1)
        lines = StatsLog(self.context.stats, time.time)
        due = time.monotonic()
        # The rate is fixed, because the statistics take their samples here.
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            due = max(due + CLIENT_SCAN_S, time.monotonic())
            with self.services.round(self._scanner.name):
                self.context.stats.sample()
                lines.look()
                if not self.settings.is_slave:
                    refusal = self._log_refusal(refusal)
                context = self.context
                context.days.look(context.store.runtime())
                self.close_silent(CLIENT_EXPIRY_S)
                turn = next(turns)
                if turn % PROTECT_TURNS == 0:
                    stop_slow_groups(context)
                if turn % UNUSED_TURNS == 0 and not self.settings.is_slave:
                    take_back_unused(context)

    def close_silent(self, seconds: float) -> None:
        """Close connections of producers and consumers that sent no heartbeat for `seconds`."""
        context, listener = self.context, self._listener
        assert listener is not None
        since = context.monotonic() - seconds
        silent = {*context.consumers.silent_since(since), *context.producers.silent_since(since)}
        for connection in listener.silent([*silent], seconds):
            log.warning(
                "closed connection %d, as its client sent no heartbeat for %.0f s",
                connection,
                seconds,
            )
            listener.close_connection(connection)

    def _log_refusal(self, before: str | None) -> str | None:
        """Log when the store starts or stops refusing messages, with the reason."""
        now = self.context.store.refusal()
        if now != before and now is not None:
            log.error("the store refuses messages: %s", now)
        elif now != before:
            log.warning("the store accepts messages again")
        return now


def _health(context: BrokerContext) -> HttpListener:
    """Make the server of `/metrics`, `/live` and `/ready` of a broker."""
    from mqserver.health.endpoints import health_listener, require

    require()
    from mqserver.broker.metrics import BrokerMetrics

    def unready() -> str | None:
        if not context.accepting:
            return "the broker is stopping"
        replication = context.replication
        if context.settings.is_slave:
            return (replication and replication.unready()) or context.services.unready()
        return context.store.refusal() or context.services.unready()

    return health_listener(context.settings.metrics_listen, BrokerMetrics(context).collect, unready)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
