"""Registers the broker with every NameServer in parallel (server.md B.1).

One thread runs an event loop with the client's transport. Registration happens at start, then
periodically, before the answer to what created a topic, and again as soon as a NameServer that
was away may be back. Import this late: asyncio is heavy.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from zlib import crc32

from mqclient import address_server
from mqclient.transport import Transport
from mqclient.wire.bodies.common import DataVersion, KVTable
from mqclient.wire.bodies.topics import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqclient.wire.codes import FrameFlag, RequestCode
from mqclient.wire.frame import Frame
from mqclient.wire.headers.namesrv import (
    BrokerIdentityRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
)
from mqserver.broker.name_servers import NameServerList
from mqserver.broker.state.topics import READ_WRITE, Topics
from mqserver.config.settings import BrokerSettings
from mqserver.services import Services
from mqserver.tls import CertificateWatch, client_tls
from mqstore.lean import dataclass

log = logging.getLogger("mqserver.broker")

COALESCE_S = 0.05
"""Changes within this time are announced together."""
CREATED_WAIT_S = 0.1
"""A request that creates a topic waits this long at most for the NameServers' answers."""
RETRY_S = 1.0
"""A NameServer that did not answer is asked again after this, doubling up to the period."""
PERIOD_MIN_S, PERIOD_MAX_S = 10.0, 60.0
UNREGISTER_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Identity:
    """How the broker is known: what registrations and unregistrations say.

    address, ha_address: "host:port" told to clients and slaves.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str


class Registrar:
    """Keeps the NameServers' view of this broker fresh.

    settings: asked each time, because it may change online. ordered: told the topics that the
    NameServers' key-values call ordered.
    """

    def __init__(
        self,
        identity: Identity,
        topics: Topics,
        settings: Callable[[], BrokerSettings],
        ordered: Callable[[Iterable[str]], None],
        services: Services | None = None,
    ) -> None:
        self._identity = identity
        self._topics = topics
        self._settings = settings
        self._ordered = ordered
        self._services = services or Services()
        self._namesrvs = NameServerList(settings)
        self._thread = threading.Thread(target=self._run, name="registrar", daemon=True)
        self._first = threading.Event()
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: Transport | None = None
        self._wake: asyncio.Event | None = None
        self._announced = False
        self._stopping = False
        self._away: dict[str, str] = {}
        self._failure: str | None = None
        self._told: set[str] = set()
        self._trying: dict[str, asyncio.Task[None]] = {}
        self._registered: Mapping[str, TopicConfig] = {}
        self._sending = asyncio.Lock()
        self._queued: asyncio.Task[None] | None = None
        self._unanswered: set[asyncio.Task[None]] = set()

    @property
    def away(self) -> dict[str, str]:
        """NameServers that did not answer the last time, and why; all, if none can be told."""
        if self._failure is not None:
            return dict.fromkeys(self._namesrvs.addresses, self._failure)
        return dict(self._away)

    def start(self) -> None:
        """Start, register once with every NameServer and wait for the answers or their timeout."""
        if self._begun():
            self._first.wait(self._timeout + address_server.TIMEOUT_S + 1.0)

    def _begun(self) -> bool:
        """Start the thread unless there is nobody to register with."""
        if self._namesrvs.addresses or self._namesrvs.is_asked_for:
            self._thread.start()
            return True
        return False

    def look_again(self) -> None:
        """The NameServers were set online: register with those of now."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._mark, False)
        elif not self._thread.is_alive():
            self._begun()

    def announce(self) -> None:
        """Register the whole table soon, one-way, without waiting."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._mark)

    def _mark(self, announced: bool = True) -> None:
        self._announced |= announced
        if self._wake is not None:
            self._wake.set()

    def _lost(self, address: str) -> None:
        """A NameServer that answered is gone: it may be back soon, and know nothing."""
        self._told.discard(address)
        if address not in self._away and self._wake is not None:
            self._wake.set()

    def announce_created(self) -> None:
        """Register the topics made since the last time, and wait a little for the answers.

        A client that has our answer asks a NameServer next, on another connection: it finds the
        topic only if the NameServer has taken the registration, so a written one is not enough.
        Topics that are made while a round is under way share the next round.
        """
        loop = self._loop
        if loop is None:
            return
        self.announce()
        with suppress(TimeoutError, CancelledError, RuntimeError):  # also when it stops meanwhile
            asyncio.run_coroutine_threadsafe(self._created(), loop).result(CREATED_WAIT_S)

    def register_topics(self, names: Iterable[str]) -> None:
        """Register these topics with every NameServer and wait for the answers.

        With them goes what else has changed: a NameServer takes nothing of a version it has, so a
        registration must hold everything up to its version.
        """
        if self._loop is None:
            return
        wrapper = self._topics.wrapper()
        table, known = wrapper.topic_config_table, self._registered
        rows = {name: row for name, row in table.items() if known.get(name) is not row}
        rows |= {name: table[name] for name in names if name in table}
        some = TopicConfigSerializeWrapper(rows, wrapper.data_version)
        asyncio.run_coroutine_threadsafe(self._register(wrapper, some), self._loop).result()

    def stop(self) -> None:
        """Unregister everywhere, close the connections, end the thread."""
        self._stopping = True
        self._stopped.set()
        loop = self._loop
        if loop is None:
            return
        loop.call_soon_threadsafe(self._mark)
        self._thread.join(timeout=UNREGISTER_TIMEOUT_S + 2.0)

    # --- on the registrar's thread

    def _run(self) -> None:
        """Whatever ends the loop but a stop begins it anew: nobody else registers the broker."""
        while not self._stopping:
            with self._services.round(self._thread.name):
                asyncio.run(self._main())
            if not self._stopping:
                self._stopped.wait(RETRY_S)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._sending, self._queued = asyncio.Lock(), None
        self._told, self._trying, self._unanswered = set(), {}, set()
        settings = self._settings()
        tls = client_tls(settings.client_tls) if settings.use_tls else None
        self._transport = Transport(tls=tls)
        self._transport.on_close(self._lost)
        watch = CertificateWatch(tls, self._renew, services=self._services) if tls else None
        if watch is not None:
            watch.start()
        readdressing = asyncio.create_task(self._readdress())
        try:
            await self._follow(self._wake)
            await self._everywhere(self._unregister_at)
        finally:
            self._loop = None
            if watch is not None:
                watch.stop()
            for task in (readdressing, *self._trying.values()):
                task.cancel()
            self._first.set()
            await self._transport.aclose()

    def _renew(self, tls: Mapping[str, object]) -> None:
        """Files of `tls.client.*` are new: NameServers that refused the old may take them."""
        assert self._transport is not None
        self._transport.renew_tls(tls)
        self.look_again()

    async def _readdress(self) -> None:
        """Ask the address server now and then; who is new there is registered with at once."""
        wait = address_server.FIRST_S
        while True:
            await asyncio.sleep(wait)
            wait = address_server.PERIOD_S
            before = self._namesrvs.addresses
            with self._services.round("address-server"):
                await self._ask_where()
            if self._namesrvs.addresses != before:
                self._mark(announced=False)

    async def _ask_where(self) -> None:
        if self._namesrvs.is_asked_for:
            await asyncio.to_thread(self._namesrvs.refresh)

    async def _follow(self, wake: asyncio.Event) -> None:
        await self._ask_where()
        await self._try_register(forced=True)
        self._first.set()
        retry = RETRY_S
        while not self._stopping:
            delay = min(retry, self._period) if self.away else self._period
            retry = retry * 2 if self.away else RETRY_S
            try:
                await asyncio.wait_for(wake.wait(), delay)
                await asyncio.sleep(COALESCE_S)
            except TimeoutError:
                pass
            wake.clear()
            if self._stopping:
                return
            oneway, self._announced = self._announced, False
            await self._try_register(oneway=oneway)

    async def _try_register(self, forced: bool | None = None, oneway: bool = False) -> None:
        """Register everything; what fails here ends no thread and is tried again."""
        try:
            await self._register(self._topics.wrapper(), forced=forced, oneway=oneway)
        except Exception as error:
            log.exception("the registration cannot be made; will try again")
            self._failure = f"the registration cannot be made: {error}"
            self._services.failed(self._thread.name, self._failure)
        else:
            self._failure = None
            self._services.succeeded(self._thread.name)

    async def _created(self) -> None:
        """Wait for the round that takes what was created up to now: many creations, one round."""
        if self._queued is None:
            self._queued = asyncio.create_task(self._round())
        await asyncio.shield(self._queued)

    async def _round(self) -> None:
        """One round after the other; one whose NameServer is slow holds up the next no longer."""
        async with self._sending:
            self._queued = None
            # The whole table: a NameServer takes no other rows of a version that it has.
            wrapper = self._topics.wrapper()
            round_ = asyncio.create_task(self._register(wrapper, forced=True))
            self._unanswered.add(round_)
            round_.add_done_callback(self._round_done)
            await asyncio.wait({round_}, timeout=CREATED_WAIT_S)

    def _round_done(self, task: asyncio.Task[None]) -> None:
        self._unanswered.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the registration cannot be made; will try again", exc_info=error)
            self._services.failed(self._thread.name, f"the registration cannot be made: {error}")

    @property
    def _period(self) -> float:
        period = self._settings().register_name_server_period / 1000
        return min(max(period, PERIOD_MIN_S), PERIOD_MAX_S)

    @property
    def _timeout(self) -> float:
        return self._settings().register_broker_timeout_mills / 1000

    async def _register(
        self,
        whole: TopicConfigSerializeWrapper,
        some: TopicConfigSerializeWrapper | None = None,
        forced: bool | None = None,
        oneway: bool = False,
    ) -> None:
        """Register with every NameServer; the first answer's key-values order the topics.

        some: what has changed, enough for those that were told everything before.
        """
        settings = self._settings()
        forced = settings.force_register if forced is None else forced
        behind = [address for address in self._namesrvs.addresses if address not in self._told]
        frame = self._frame(self._permitted(some or whole, settings), settings, oneway)
        full = self._frame(self._permitted(whole, settings), settings, oneway) if behind else frame
        ordered: list[str] = []

        async def register_at(address: str) -> None:
            assert self._transport is not None
            must = forced or oneway or address in behind
            if not must and not await self._is_changed(address, whole):
                return
            request = replace(full if address in behind else frame)
            if oneway:
                await self._transport.oneway(address, request, self._timeout)
                return
            reply = await self._transport.call(address, request, self._timeout)
            if reply.code:
                raise ConnectionError(f"it answered code {reply.code}: {reply.remark}")
            self._told.add(address)
            if reply.body and not ordered:
                ordered.append(address)
                self._ordered(KVTable.from_json(reply.body).table)

        await self._everywhere(register_at)
        self._registered = whole.topic_config_table  # or they are not told

    @staticmethod
    def _permitted(
        wrapper: TopicConfigSerializeWrapper, settings: BrokerSettings
    ) -> TopicConfigSerializeWrapper:
        """A broker that may not read or write says so of every topic."""
        perm = settings.broker_permission
        if perm & READ_WRITE == READ_WRITE:
            return wrapper
        rows = {
            name: replace(config, perm=perm) for name, config in wrapper.topic_config_table.items()
        }
        return TopicConfigSerializeWrapper(rows, wrapper.data_version)

    def _frame(
        self, wrapper: TopicConfigSerializeWrapper, settings: BrokerSettings, oneway: bool
    ) -> Frame:
        body = RegisterBrokerBody(wrapper).encode(settings.compressed_register)
        me = self._identity
        header = RegisterBrokerRequestHeader(
            broker_name=me.broker_name,
            broker_addr=me.address,
            cluster_name=me.cluster,
            ha_server_addr=me.ha_address,
            broker_id=me.broker_id,
            compressed=settings.compressed_register,
            body_crc32=crc32(body) & 0x7FFFFFFF,
        )
        flag = int(FrameFlag.ONEWAY) if oneway else 0
        return Frame(int(RequestCode.REGISTER_BROKER), header.to_fields(), body, flag=flag)

    async def _is_changed(self, address: str, wrapper: TopicConfigSerializeWrapper) -> bool:
        """Ask whether a NameServer has this version already (code 322)."""
        assert self._transport is not None
        version: DataVersion = wrapper.data_version
        frame = Frame(
            int(RequestCode.QUERY_DATA_VERSION), self._identity_fields(), version.to_json()
        )
        reply = await self._transport.call(address, frame, self._timeout)
        return reply.code != 0 or QueryDataVersionResponseHeader.from_fields(reply.fields).changed

    async def _unregister_at(self, address: str) -> None:
        assert self._transport is not None
        frame = Frame(int(RequestCode.UNREGISTER_BROKER), self._identity_fields())
        await self._transport.call(address, frame, UNREGISTER_TIMEOUT_S)

    def _identity_fields(self) -> dict[str, str]:
        me = self._identity
        return BrokerIdentityRequestHeader(
            broker_name=me.broker_name,
            broker_addr=me.address,
            cluster_name=me.cluster,
            broker_id=me.broker_id,
        ).to_fields()

    async def _everywhere(self, act: Callable[[str], Awaitable[None]]) -> None:
        """Act at every NameServer at once; nobody waits for those that are away."""
        addresses = self._namesrvs.addresses
        for gone in self._away.keys() - set(addresses):
            del self._away[gone]
        for address in addresses:
            if address in self._away and address not in self._trying:
                self._trying[address] = trying = asyncio.create_task(self._at(address, act))
                trying.add_done_callback(partial(self._tried, address))
        present = [address for address in addresses if address not in self._away]
        await asyncio.gather(*(self._at(address, act) for address in present))

    def _tried(self, address: str, _task: asyncio.Task[None]) -> None:
        del self._trying[address]

    async def _at(self, address: str, act: Callable[[str], Awaitable[None]]) -> None:
        """Act at one NameServer; log when it stops and when it starts answering."""
        try:
            await act(address)
        except Exception as error:
            if address not in self._away:
                log.warning("NameServer %s: %s; will try again", address, error)
            self._away[address] = str(error)
            self._told.discard(address)
        else:
            if self._away.pop(address, None) is not None:
                log.warning("NameServer %s answers again", address)
