"""Shared state of the clients of one event loop: client id, connections, routes and heartbeats.

An `Instance` is one client in brokers' eyes. Clients share one if their connection settings are
equal and the protocol allows it. Rules: RocketMQ 4.9 `MQClientInstance`, `MQClientManager`,
`ClientRemotingProcessor`. Intervals are RocketMQ's: routes and heartbeats every 30 s.
"""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakSet

from mqclient.engine.heartbeat_backup import HeartbeatBackup, Sending
from mqclient.engine.outages import Outages
from mqclient.engine.process import other_loop, process_id
from mqclient.engine.routes import NameServers, RouteTable
from mqclient.engine.transport_like import RequestHandler, TransportLike
from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqclient.settings.clients import ConnectionOptions
from mqcommon.message import ReceivedMessage
from mqcommon.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from mqcommon.wire.bodies.route import MASTER_ID
from mqcommon.wire.calls import group_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import FrameFlag, RequestCode, ResponseCode, SerializeType
from mqcommon.wire.frame import Frame

__all__ = ["Instance", "Member", "every", "join"]

R = TypeVar("R")
log = logging.getLogger("mqclient.engine")
FIRST_HEARTBEAT = 1.0
"""Seconds after the start until the first periodic heartbeat."""
CHECK = int(RequestCode.CHECK_TRANSACTION_STATE)
FOR_ALL = frozenset(
    (
        CHECK,
        int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED),
        int(RequestCode.RESET_CONSUMER_CLIENT_OFFSET),
    )
)
"""One-way requests: every member gets them and checks whether they concern it."""


class Member:
    """A client's additions to its instance; complete before the client starts."""

    def __init__(self, settings: ConnectionOptions) -> None:
        self.settings = settings
        self.handlers: dict[int, RequestHandler] = {}
        self.producer_groups: set[str] = set()
        self.consumer_group: str | None = None
        self.consumer_data: Callable[[], ConsumerData | None] = lambda: None

    @property
    def checks(self) -> bool:
        """Whether brokers may ask this member about its group's transactions."""
        return CHECK in self.handlers


class Instance:
    """A client id, a transport, routes and heartbeats; belongs to one loop and one process."""

    def __init__(self, settings: ConnectionOptions, transport: TransportLike | None) -> None:
        self.settings = settings
        connection = settings.connection
        self._address_map = connection.address_map or {}
        self.is_shared = transport is None
        self.client_id = settings.new_client_id()
        self.loop = asyncio.get_running_loop()
        self.process = process_id()
        self.transport = _transport(settings) if transport is None else transport
        self.transport.on_request(self._serve)
        self._introduced: set[str] = set()
        """Connected addresses of brokers that have had a heartbeat on their connection."""
        self.transport.on_close(self._introduced.discard)
        self.namesrv = NameServers(settings.servers, self.transport, settings.client_id.unit)
        self.routes = RouteTable(self.namesrv, connection.request_timeout)
        self.replies: dict[str, asyncio.Future[ReceivedMessage]] = {}
        """Requests of producers that wait for a reply message, by correlation id."""
        self.broker_versions: dict[str, int] = {}
        """Version ordinals that brokers answered heartbeats with, by advertised address."""
        self.members: list[Member] = []
        self._beating = asyncio.Lock()
        self.outages = Outages(quiet=1.2 * connection.heartbeat_interval)
        self.heartbeat_backup = HeartbeatBackup(self.loop, self._send_in_place)
        poll, beat = connection.route_poll_interval, connection.heartbeat_interval
        self._tasks = [
            self.loop.create_task(every(poll, self.routes.poll, first=poll)),
            self.loop.create_task(every(beat, self.heartbeat, first=FIRST_HEARTBEAT)),
        ]

    # --- members

    def admits(self, member: Member) -> bool:
        """Whether a member may share this instance on the running loop.

        A broker knows a group's member by its connection and client id, so a consumer group, and a
        group whose transactions are checked, may be here once. Producers here have one group: a
        broker that unregisters one group pushes no more replies to the client id
        (`ProducerManager.unregisterProducer`).
        """
        if not self.is_shared or self.process != process_id():
            return False
        if self.loop is not asyncio.get_running_loop() or self.settings != member.settings:
            return False
        if member.consumer_group and member.consumer_group in self._consumer_groups():
            return False
        if member.checks and any(other.checks for other in self.members):
            return False
        groups = self._producer_groups()
        return not groups or not member.producer_groups or groups == member.producer_groups

    def check_loop(self) -> None:
        """Raise ClosedError if the running event loop is not the instance's."""
        with contextlib.suppress(RuntimeError):  # no loop runs
            if asyncio.get_running_loop() is not self.loop:
                raise other_loop()

    def add(self, member: Member) -> None:
        """Add a member; the next heartbeat announces its groups to the brokers."""
        if not member.producer_groups <= self._producer_groups():
            self._introduced.clear()
        self.members.append(member)

    async def remove(self, member: Member, timeout: float) -> None:
        """Unregister the groups that no other member uses; after the last member, close.

        timeout: seconds for the brokers' answers.
        """
        self.members.remove(member)
        is_last = not self.members
        if is_last:
            with _joining:
                _instances.discard(self)
            self.namesrv.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(timeout):
                if is_last:
                    self.heartbeat_backup.stop()
                else:
                    self._keep_alive()
                await self._unregister(member)
        except TimeoutError:
            log.info("brokers did not acknowledge that client %s unregistered", self.client_id)
        finally:
            if is_last:
                await self.transport.aclose()

    def _producer_groups(self) -> set[str]:
        return {group for member in self.members for group in member.producer_groups}

    def _consumer_groups(self) -> set[str]:
        return {member.consumer_group for member in self.members if member.consumer_group}

    async def _unregister(self, member: Member) -> None:
        """Unregister between two heartbeats, because these would register the groups again."""
        await self.heartbeat_backup.quiet()
        async with self._beating:
            goodbyes = [
                group_calls.unregister_client(self.client_id, producer_group=group)
                for group in member.producer_groups - self._producer_groups()
            ]
            group = member.consumer_group
            if group and member.consumer_data() and group not in self._consumer_groups():
                goodbyes.append(group_calls.unregister_client(self.client_id, consumer_group=group))
            brokers = self.routes.brokers().values()
            addresses = {address for by_id in brokers for address in by_id.values()}
            await asyncio.gather(
                *(self._part(address, call) for address in addresses for call in goodbyes)
            )

    async def _part(self, address: str, call: Call[None]) -> None:
        try:
            await self.invoke(address, call, self.settings.connection.request_timeout)
        except RocketMQError as error:
            log.debug("unregistering at %s failed: %s", address, error)

    # --- calls

    def mapped(self, address: str) -> str:
        """The address to connect to for an address that a NameServer advertised."""
        return self._address_map.get(address, address)

    async def invoke(self, address: str, call: Call[R], timeout: float) -> R:
        """Ask a broker. address: as advertised. timeout: seconds."""
        return call.result(await self.call(address, call.request, timeout), address)

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a frame to a broker and return its reply, with any code."""
        request.serialize = self.settings.connection.serialize or SerializeType.JSON
        try:
            return await self.transport.call(self.mapped(address), request, timeout)
        except UnreachableError as error:
            raise self.unreachable(address, error) from error

    def sending(self, address: str, call: Call[R]) -> Sending:
        """A request that the heartbeat backup may send to a broker."""
        call.request.serialize = self.settings.connection.serialize or SerializeType.JSON
        return Sending(self.mapped(address), call.request)

    def _send_in_place(self, sending: Sending) -> None:
        """Send a request while the loop is busy, on another thread."""
        try:
            self.transport.block(*sending, self.settings.connection.request_timeout)
        except RocketMQError as error:
            self.loop.call_soon_threadsafe(self._failed_in_place, sending, error)

    def _failed_in_place(self, sending: Sending, error: RocketMQError) -> None:
        text, address = "request %d to %s failed: %s", sending.address
        name = self._name_of(address)
        self.outages.failed(name, text, sending.request.code, address, error)

    async def oneway(self, address: str, request: Frame, timeout: float) -> None:
        """Send a oneway request to a broker; returns when it is written."""
        request.flag |= FrameFlag.ONEWAY
        request.serialize = self.settings.connection.serialize or SerializeType.JSON
        try:
            await self.transport.oneway(self.mapped(address), request, timeout)
        except UnreachableError as error:
            raise self.unreachable(address, error) from error

    def unreachable(self, address: str, error: Exception) -> UnreachableError:
        """An error which says that the dead address came from the NameServer, not from the user."""
        target = self.mapped(address)
        for name, addresses in self.routes.brokers().items():
            if address in addresses.values():
                used = f" (address_map: {target})" if target != address else ""
                return UnreachableError(
                    f"broker {name!r} does not answer at {address}{used}, the address that "
                    f"NameServer {self.namesrv} advertises for it: {error}; if the broker runs "
                    f"behind NAT or in a container, set its brokerIP1 or pass "
                    f"connection=Connection(address_map={{'{address}': 'HOST:PORT'}})",
                    address,
                )
        return UnreachableError(f"no server answers at {target}: {error}", target)

    # --- heartbeats

    async def heartbeat(self) -> None:
        """Send a heartbeat to every known broker; without a consumer only to masters.

        A failure is logged, and the broker is tried again next time.
        """
        async with self._beating:
            data, addresses = self._keep_alive()
            await asyncio.gather(*(self._beat(address, data) for address in addresses))

    def _keep_alive(self) -> tuple[HeartbeatData, list[str]]:
        """What to tell brokers of our groups, and at which addresses; noted for the backup."""
        data, addresses = self._heartbeat_data(), set[str]()
        if data.producer_data_set or data.consumer_data_set:
            addresses = {
                address
                for brokers in self.routes.brokers().values()
                for broker_id, address in brokers.items()
                if data.consumer_data_set or broker_id == MASTER_ID
            }

        def again() -> list[Sending]:
            return [self.sending(address, group_calls.heartbeat(data)) for address in addresses]

        self.heartbeat_backup.keep("heartbeat", self.settings.connection.heartbeat_interval, again)
        return data, sorted(addresses)

    async def introduce(self, topic: str, timeout: float) -> None:
        """Send a heartbeat to the topic's masters that have had none since they were connected.

        Only then can they send requests to a producer. timeout: seconds. A failure is logged.
        """
        if not self._strangers(topic):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, timeout)), self._beating:
                data = self._heartbeat_data()
                await asyncio.gather(*(self._beat(one, data) for one in self._strangers(topic)))

    def _strangers(self, topic: str) -> list[str]:
        route = self.routes.table.get(topic)
        masters = [] if route is None else [one.get(MASTER_ID) for one in route.brokers.values()]
        return [one for one in masters if one and self.mapped(one) not in self._introduced]

    def _heartbeat_data(self) -> HeartbeatData:
        consumers = [member.consumer_data() for member in self.members]
        return HeartbeatData(
            self.client_id,
            [ProducerData(group) for group in sorted(self._producer_groups())],
            [consumer for consumer in consumers if consumer is not None],
        )

    async def _beat(self, address: str, data: HeartbeatData) -> None:
        try:
            call, limit = group_calls.heartbeat(data), self.settings.connection.request_timeout
            self.broker_versions[address] = await self.invoke(address, call, limit)
            self._introduced.add(self.mapped(address))
            self.outages.answered(self._name_of(address))
        except (BrokerError, UnreachableError, ClientTimeout) as error:
            name = self._name_of(address)
            self.outages.failed(name, "heartbeat to broker %s failed: %s", address, error)

    def _name_of(self, address: str) -> str:
        """The name of the broker at an address; the address if no route has it."""
        for name, by_id in self.routes.brokers().items():
            if address in by_id.values() or address in map(self.mapped, by_id.values()):
                return name
        return address

    # --- requests from brokers

    async def _serve(self, address: str, request: Frame) -> Frame | None:
        code, fields = request.code, request.fields
        serving = [member for member in self.members if code in member.handlers]
        if code not in FOR_ALL:
            group = fields.get("consumerGroup", fields.get("group"))
            serving = [one for one in serving if one.consumer_group == group] or serving
            serving = serving[:1]
        if not serving:
            if request.is_oneway:
                return None
            remark = f" request type {code} not supported"
            return request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        try:
            for member in serving:
                reply = await member.handlers[code](address, request)
            return reply
        except Exception as error:
            log.exception("request %d from broker %s failed", code, address)
            return request.reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


def _transport(settings: ConnectionOptions) -> TransportLike:
    from mqclient.engine.transport import Transport

    return Transport(**settings.transport_arguments())


async def every(interval: float, work: Callable[[], Awaitable[None]], *, first: float) -> None:
    """Repeat work: after `first` seconds, then every `interval`. A failure does not end it."""
    await asyncio.sleep(first)
    while True:
        try:
            await work()
        except RocketMQError as error:
            log.warning("%s; trying again in %g s", error, interval)
        except Exception:
            log.exception("a periodic task failed; trying again in %g s", interval)
        await asyncio.sleep(interval)


_instances: "WeakSet[Instance]" = WeakSet()
"""Instances with members, of every loop of this process."""
_joining = threading.Lock()
"""Guards `_instances`, which loops of several threads share."""


def _forget() -> None:
    """In a forked child: another thread may have held the lock."""
    global _joining
    _joining = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def join(member: Member, transport: TransportLike | None) -> Instance:
    """Add a member to an instance of the running loop that admits it, or to a new one.

    transport: for a new instance that no other client joins; None makes one.
    """
    with _joining:
        found = None
        if transport is None:
            found = next((one for one in tuple(_instances) if one.admits(member)), None)
        if found is None:
            found = Instance(member.settings, transport)
            _instances.add(found)
        found.add(member)
        return found
