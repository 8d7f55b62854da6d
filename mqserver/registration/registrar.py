"""Registers the broker with every NameServer (`BrokerController.registerBrokerAll`).

One thread runs an event loop with the client's transport and a link to each NameServer. A link
registers at start, then periodically, before the broker answers a request that created a topic, and
again when a lost NameServer may be back.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress

from mqclient.engine import address_server
from mqclient.engine.transport import Transport
from mqcommon.wire.bodies.common import DataVersion
from mqserver.broker.state.topics import Topics
from mqserver.config.settings import BrokerSettings
from mqserver.registration.discovery import NameServerList
from mqserver.registration.link import Link, LinkContext
from mqserver.registration.requests import Identity, Requests
from mqserver.runtime.services import Services
from mqserver.tls.certificates import CertificateWatch, client_tls

__all__ = ["Identity", "Registrar"]

log = logging.getLogger("mqserver.broker")

CREATED_WAIT_S = 0.1
"""Longest time that a request that creates a topic waits for the NameServers. Requests do not wait
for a NameServer that was late, until it has answered."""
UNREGISTER_TIMEOUT_S = 3.0
RESTART_S = 1.0
"""Pause before a registrar that failed as a whole starts again."""


class Registrar:
    """Keeps the registrations of this broker at the NameServers up to date.

    settings: called each time, because settings may change online. ordered: called with the topics
    that the NameServers' key-values mark as ordered. services: records failures. master_is: called
    with the master's address and the address of its log, after each registration of a slave.
    """

    def __init__(
        self,
        identity: Identity,
        topics: Topics,
        settings: Callable[[], BrokerSettings],
        ordered: Callable[[Iterable[str]], None],
        services: Services | None = None,
        master_is: Callable[[str | None, str | None], None] | None = None,
    ) -> None:
        self._topics = topics
        self._settings = settings
        self._ordered = ordered
        self._services = services or Services()
        self._master_is = master_is
        self._requests = Requests(identity, settings)
        self._namesrvs = NameServerList(settings)
        self._thread = threading.Thread(target=self._run, name="registrar", daemon=True)
        self._first = threading.Event()
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._transport: Transport | None = None
        self._context: LinkContext | None = None
        self._links: dict[str, Link] = {}

    @property
    def away(self) -> dict[str, str]:
        """NameServers that did not answer the last request, with the reason."""
        links = tuple(self._links.values())
        return {link.address: link.trouble for link in links if link.trouble is not None}

    def start(self) -> None:
        """Start, register once with every NameServer and wait for the answers or their timeout."""
        if self._begun():
            timeout = self._settings().register_broker_timeout_mills / 1000
            self._first.wait(timeout + address_server.TIMEOUT_S + 1.0)

    def _begun(self) -> bool:
        """Start the thread if there is a NameServer to register with; returns whether there is."""
        is_wanted = bool(self._namesrvs.addresses) or self._namesrvs.is_asked_for
        if is_wanted and not self._stopping.is_set():
            self._thread.start()
            return True
        return False

    def look_again(self) -> None:
        """Register with the NameServers of the present settings, after an online change."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._look)
        elif not self._thread.is_alive():
            self._begun()

    def announce(self) -> None:
        """Register the whole table soon, without waiting."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._announce)

    def announce_created(self) -> None:
        """Register the topics created since the last call, before the request is answered.

        A client that gets our answer asks a NameServer next, on another connection. The client
        finds the topic for certain only if the NameServer has accepted the registration. So this
        waits for the answers of the NameServers that have been prompt so far.
        """
        self._wait(self._created, 2 * CREATED_WAIT_S)

    def register_topics(self) -> None:
        """Register the topics that changed with every NameServer and wait for the answers."""
        timeout = self._settings().register_broker_timeout_mills / 1000
        self._wait(self._changed, timeout)

    def _wait(self, act: Callable[[], Coroutine[None, None, None]], timeout: float) -> None:
        loop = self._loop
        if loop is None:
            return
        coroutine = act()
        try:
            done = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:  # the loop stopped meanwhile
            coroutine.close()
            return
        with suppress(TimeoutError, CancelledError):
            done.result(timeout)

    def stop(self) -> None:
        """Unregister at all NameServers, close the connections, end the thread."""
        self._stopping.set()
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)
        if self._thread.is_alive():
            self._thread.join(timeout=UNREGISTER_TIMEOUT_S + 2.0)

    # --- on the registrar's thread

    def _run(self) -> None:
        """Run the loop until `stop`; restart it after a failure, as nothing else registers."""
        while not self._stopping.is_set():
            with self._services.round(self._thread.name):
                asyncio.run(self._main())
            self._stopping.wait(RESTART_S)

    async def _main(self) -> None:
        self._stop, self._links = asyncio.Event(), {}
        settings = self._settings()
        tls = client_tls(settings.client_tls) if settings.use_tls else None
        self._transport = Transport(tls=tls)
        self._transport.on_close(self._lost)
        self._context = LinkContext(
            self._transport,
            self._requests,
            self._topics,
            self._settings,
            self._collect,
            self._take_order,
            self._take_master,
        )
        self._loop = asyncio.get_running_loop()
        watch = CertificateWatch(tls, self._renew, services=self._services) if tls else None
        if watch is not None:
            watch.start()
        readdressing = asyncio.create_task(self._readdress())
        try:
            if not self._stopping.is_set():
                await self._stop.wait()
        finally:
            self._loop = None
            if watch is not None:
                watch.stop()
            readdressing.cancel()
            links = self._links.values()
            await asyncio.gather(*(link.unregister(UNREGISTER_TIMEOUT_S) for link in links))
            self._first.set()
            await self._transport.aclose()

    def _renew(self, tls: Mapping[str, object]) -> None:
        """Use new files of `tls.client.*`; a NameServer that refused the old may accept them."""
        assert self._transport is not None
        self._transport.renew_tls(tls)
        self.look_again()

    async def _readdress(self) -> None:
        """Poll the address server, and register with new NameServers at once."""
        await self._ask_where()
        self._look()
        links = self._links.values()
        if links:
            await asyncio.wait([link.first for link in links])
        self._first.set()
        self._services.succeeded(self._thread.name)
        wait = address_server.FIRST_S
        while True:
            await asyncio.sleep(wait)
            wait = address_server.PERIOD_S
            with self._services.round("address-server"):
                await self._ask_where()
                self._follow_list()

    async def _ask_where(self) -> None:
        if self._namesrvs.is_asked_for:
            await asyncio.to_thread(self._namesrvs.refresh)

    def _follow_list(self) -> None:
        """Keep one link to each NameServer of the list, and stop the others; none after `stop`."""
        if self._stopping.is_set():
            return
        assert self._context is not None
        addresses = self._namesrvs.addresses
        for gone in self._links.keys() - set(addresses):
            self._links.pop(gone).stop()
        links = {at: self._links.get(at) or Link(at, self._context) for at in addresses}
        self._links = links

    def _look(self) -> None:
        self._follow_list()
        for link in self._links.values():
            link.register_soon()

    def _announce(self) -> None:
        for link in self._links.values():
            link.register_all()

    def _lost(self, address: str) -> None:
        """A connection to a NameServer has closed."""
        link = self._links.get(address)
        if link is not None:
            link.lost()

    def _collect(self) -> DataVersion:
        """Tell the links which topics changed since the last call."""
        changed, version = self._topics.take_changes()
        if changed:
            for link in self._links.values():
                link.changed(changed)
        return version

    def _take_order(self, link: Link, table: Mapping[str, str]) -> None:
        """The first NameServer of the list that answers says which topics are ordered."""
        first = next((one for one in self._links.values() if one.trouble is None), link)
        if first is link:
            self._ordered(table)

    def _take_master(self) -> None:
        """The first NameServer of the list that knows a live master says where it is."""
        said = [link.master for link in self._links.values() if link.trouble is None]
        named = next((one for one in said if one.master_addr), None)
        if self._master_is is not None:
            address = named.master_addr if named else None
            self._master_is(address, named.ha_server_addr if named else None)

    @property
    def namesrvs(self) -> list[str]:
        """The NameServers, each as "host:port"."""
        return self._namesrvs.addresses

    async def _created(self) -> None:
        """Register with all healthy NameServers; wait a short time for the prompt ones."""
        turns = {link: link.register_soon() for link in self._well()}
        prompt = {link: turn for link, turn in turns.items() if link.is_prompt}
        if not prompt:
            return
        _, late = await asyncio.wait(prompt.values(), timeout=CREATED_WAIT_S)
        for link, turn in prompt.items():
            link.is_late |= turn in late

    async def _changed(self) -> None:
        turns = [link.register_soon() for link in self._well()]
        if turns:
            await asyncio.wait(turns)

    def _well(self) -> list[Link]:
        """Links to NameServers that answered the last request, or have not had one yet."""
        return [link for link in self._links.values() if link.trouble is None]
