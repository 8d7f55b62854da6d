"""The client engine that producer, consumer and admin share: one client in brokers' eyes.

A `Client` owns the transport, the routes, the heartbeats and the handlers of brokers' requests.
Everything runs on one asyncio loop. Intervals are RocketMQ's: routes and heartbeats every 30 s.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from mqclient.config import ClientSettings
from mqclient.errors import BrokerError, ClientTimeout, ClosedError, RocketMQError, UnreachableError
from mqclient.namespace import Namespace
from mqclient.process import process_id
from mqclient.routes import NameServers, RouteTable, TopicRoute
from mqclient.wire import calls
from mqclient.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from mqclient.wire.bodies.route import MASTER_ID
from mqclient.wire.codes import FrameFlag, RequestCode, ResponseCode, SerializeType
from mqclient.wire.frame import Frame
from mqstore.message import MessageQueue

__all__ = ["Client", "TransportLike"]

log = logging.getLogger(__name__)
R = TypeVar("R")
FIRST_HEARTBEAT = 1.0
"""Seconds after the start until the first periodic heartbeat."""

RequestHandler = Callable[[str, Frame], Awaitable[Frame | None]]


class TransportLike(Protocol):
    """The methods of mqclient.transport.Transport and of the mock that the engine uses."""

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a request, wait for its reply."""

    async def oneway(self, address: str, request: Frame, timeout: float) -> None:
        """Send a request that is not answered; returns when it is written."""

    def on_request(self, callback: RequestHandler) -> None:
        """Call back for each request from a broker; the frame returned is the reply."""

    def on_close(self, callback: Callable[[str], None]) -> None:
        """Call back when a connection is lost."""

    async def aclose(self) -> None:
        """Close every connection."""


class Client:
    """One client: an id, a transport, routes, heartbeats. Built anywhere, started on a loop."""

    def __init__(self, settings: ClientSettings, transport: TransportLike | None = None) -> None:
        self.settings = settings
        self.client_id = settings.client_id()
        self.namespace = Namespace(settings.namespace)
        self._transport = transport
        self._pid = process_id()
        self._state = "new"
        self.running = False
        """True between start and close; to be read only."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._handlers: dict[int, RequestHandler] = {}
        self._producer_groups: set[str] = set()
        self._consumer_data: Callable[[], ConsumerData | None] = lambda: None
        self._beating = asyncio.Lock()
        self._introduced: set[str] = set()
        """Connected addresses of brokers that have had a heartbeat on their connection."""
        self.broker_versions: dict[str, int] = {}
        """Version ordinals that brokers answered heartbeats with, by advertised address."""
        self._gone = asyncio.Event()
        self.ending = asyncio.Event()
        """Set when close() begins, or when a task of ours failed; see `failure`."""
        self.failure: BaseException | None = None
        """The error that ended one of the engine's tasks; None while all run."""

    # --- life

    async def start(self) -> None:
        """Start heartbeats and route polling. Raises ClosedError after a close or a fork."""
        if self._state != "new":
            raise ClosedError(f"this client is {self._state}; make a new one")
        self.check_process()
        self._state = "running"
        self.running = True
        if self._transport is None:
            from mqclient.transport import Transport

            self._transport = Transport(**self.settings.transport())
        self._transport.on_request(self._serve)
        self._transport.on_close(self._introduced.discard)
        self.namesrv = NameServers(self.settings.namesrv, self._transport, self.settings.unit_name)
        self.routes = RouteTable(self.namesrv, self.settings.request_timeout)
        poll = self.settings.route_poll_interval
        beat = self.settings.heartbeat_interval
        self.spawn(self.every(poll, self.routes.poll, first=poll), "route polling")
        self.spawn(self.every(beat, self.heartbeat, first=FIRST_HEARTBEAT), "heartbeats")

    async def close(self, timeout: float) -> None:
        """Unregister from the brokers, stop the tasks, close the connections. May be called twice.

        timeout: seconds for the brokers' answers, at most 3.
        """
        if self._state != "running":
            if self._state == "closing":
                await self._gone.wait()
            self._state = "closed"
            return
        self._state = "closing"
        self.running = False
        self.ending.set()
        tasks, self._tasks = self._tasks, set()
        self.namesrv.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(max(0.1, min(timeout, 3.0))):
                await self._unregister()
        except TimeoutError:
            log.info("brokers did not acknowledge that client %s unregistered", self.client_id)
        self._state = "closed"
        if self._transport is not None:
            await self._transport.aclose()
        self._gone.set()

    def check_running(self) -> None:
        """Raise ClosedError unless the client can be used by this process."""
        if self._pid != process_id():
            self.check_process()
        if self._state != "running":
            step = "call start() or use `with`" if self._state == "new" else "make a new one"
            raise ClosedError(f"this client is {_STATE_WORDS[self._state]}; {step}")

    def check_process(self) -> None:
        """Raise ClosedError in a forked child: its connections belong to the parent."""
        if process_id() != self._pid:
            raise ClosedError(
                f"this client was made in process {self._pid} and cannot be used in the forked "
                f"process {process_id()}; make a new one after the fork"
            )

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Run a task until it ends or the client closes; an exception is logged."""
        task = asyncio.get_running_loop().create_task(work, name=f"mqclient {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        log.error("%s failed", task.get_name(), exc_info=task.exception())
        if self._state == "running":
            self.failure = task.exception()
            self.ending.set()

    async def every(
        self, interval: float, work: Callable[[], Awaitable[None]], *, first: float
    ) -> None:
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

    # --- calls

    def mapped(self, address: str) -> str:
        """The address to connect to for an address that a NameServer advertised."""
        return self.settings.address_map.get(address, address)

    async def invoke(self, address: str, call: calls.Call[R], timeout: float | None = None) -> R:
        """Ask a broker. address: as advertised. timeout: seconds, None is request_timeout.

        Raises BrokerError, UnreachableError, ClientTimeout, ClosedError.
        """
        wait = self.settings.request_timeout if timeout is None else timeout
        return call.result(await self.call_broker(address, call.request, wait), address)

    async def invoke_namesrv(self, call: calls.Call[R], timeout: float | None = None) -> R:
        """Ask a NameServer, the next one if it does not answer. Raises like `invoke`."""
        self.check_running()
        wait = self.settings.request_timeout if timeout is None else timeout
        return await self.namesrv.invoke(call, wait)

    async def call_broker(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a frame to a broker and return its reply, with any code."""
        transport = self._transport
        if transport is None or self._state not in ("running", "closing"):
            self.check_running()
        assert transport is not None
        request.serialize = self.settings.serialize or SerializeType.JSON
        target = self.settings.address_map.get(address, address)
        try:
            return await transport.call(target, request, timeout)
        except UnreachableError as error:
            raise self._unreachable(address, target, error) from error

    async def call_namesrv(self, request: Frame, timeout: float) -> Frame:
        """Send a frame to a NameServer and return its reply, with any code."""
        any_reply: calls.Call[Frame] = calls.Call(request, lambda reply: reply, _AnyCode())
        return await self.invoke_namesrv(any_reply, timeout)

    async def oneway(self, address: str, request: Frame, timeout: float) -> None:
        """Send a oneway request to a broker; returns when it is written."""
        self.check_process()
        assert self._transport is not None
        request.flag |= FrameFlag.ONEWAY
        request.serialize = self.settings.serialize or SerializeType.JSON
        target = self.mapped(address)
        try:
            await self._transport.oneway(target, request, timeout)
        except UnreachableError as error:
            raise self._unreachable(address, target, error) from error

    def compiled_transport(self) -> Any:
        """The transport if it is mqclient.transport.Transport, else None; for FrameTemplate."""
        return self._transport if hasattr(self._transport, "request") else None

    def explain(self, address: str, error: Exception) -> Exception:
        """The error for a failure of the transport. address: the broker's, as advertised."""
        if not isinstance(error, UnreachableError):
            return error
        return self._unreachable(address, self.mapped(address), error)

    async def route(self, topic: str) -> TopicRoute | None:
        """The route of a topic, None when the NameServer does not know it."""
        self.check_running()
        return await self.routes.get(topic)

    def address_of(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """The advertised address of a queue's broker; raises UnreachableError without one.

        broker_id: the wanted id, 0 is the master; another of the same name may be used.
        """
        address = self.routes.address(queue, broker_id)
        if address is None:
            raise UnreachableError(f"no broker {queue.broker_name!r} is known for {queue}")
        return address

    def _unreachable(self, address: str, target: str, error: Exception) -> UnreachableError:
        """An error which says that the dead address came from the NameServer, not from the user."""
        for name, addresses in self.routes.brokers().items():
            if address in addresses.values():
                used = f" (address_map: {target})" if target != address else ""
                return UnreachableError(
                    f"broker {name!r} does not answer at {address}{used}, the address that "
                    f"NameServer {self.namesrv} advertises for it: {error}; if the broker runs "
                    f"behind NAT or in a container, set its brokerIP1 or pass "
                    f"address_map={{'{address}': 'HOST:PORT'}}",
                    address,
                )
        return UnreachableError(f"no server answers at {target}: {error}", target)

    # --- groups and heartbeats

    def add_producer(self, group: str) -> None:
        """Add a producer group to heartbeats."""
        self._producer_groups.add(group)

    def set_consumer(self, data: Callable[[], ConsumerData | None]) -> None:
        """Set the consumer group of heartbeats; `data` is called before each."""
        self._consumer_data = data

    async def heartbeat(self) -> None:
        """Send a heartbeat to every known broker; without a consumer only to masters.

        A failure is logged, and the broker is tried again next time.
        """
        data = self._heartbeat_data()
        if not data.producer_data_set and not data.consumer_data_set:
            return
        addresses = {
            address
            for brokers in self.routes.brokers().values()
            for broker_id, address in brokers.items()
            if data.consumer_data_set or broker_id == MASTER_ID
        }
        async with self._beating:
            await asyncio.gather(*(self._beat(address, data) for address in sorted(addresses)))

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
        consumer = self._consumer_data()
        return HeartbeatData(
            self.client_id,
            [ProducerData(group) for group in sorted(self._producer_groups)],
            [] if consumer is None else [consumer],
        )

    async def _beat(self, address: str, data: HeartbeatData) -> None:
        try:
            self.broker_versions[address] = await self.invoke(address, calls.heartbeat(data))
            self._introduced.add(self.mapped(address))
        except (BrokerError, UnreachableError, ClientTimeout) as error:
            log.warning("heartbeat to broker %s failed: %s", address, error)

    async def _unregister(self) -> None:
        consumer = self._consumer_data()
        goodbyes = [
            self._part(address, calls.unregister_client(self.client_id, producer_group=group))
            for address in self._addresses()
            for group in self._producer_groups
        ]
        if consumer is not None:
            goodbyes += [
                self._part(
                    address,
                    calls.unregister_client(self.client_id, consumer_group=consumer.group_name),
                )
                for address in self._addresses()
            ]
        await asyncio.gather(*goodbyes)

    def _addresses(self) -> list[str]:
        brokers: list[Mapping[int, str]] = list(self.routes.brokers().values())
        return sorted({address for addresses in brokers for address in addresses.values()})

    async def _part(self, address: str, call: calls.Call[None]) -> None:
        try:
            await self.invoke(address, call)
        except RocketMQError as error:
            log.debug("unregistering at %s failed: %s", address, error)

    # --- requests from brokers

    def on_request(self, code: RequestCode, handler: RequestHandler) -> None:
        """Serve a request code that brokers send: 39, 40, 220, 221, 307, 309, 326."""
        self._handlers[int(code)] = handler

    async def _serve(self, address: str, request: Frame) -> Frame | None:
        handler = self._handlers.get(request.code)
        if handler is None:
            if request.is_oneway:
                return None
            remark = f" request type {request.code} not supported"
            return request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        try:
            return await handler(address, request)
        except Exception as error:
            log.exception("request %d from broker %s failed", request.code, address)
            return request.reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


class _AnyCode(frozenset[int]):
    """A set that holds every response code."""

    def __contains__(self, _code: object) -> bool:
        return True


_STATE_WORDS = {"new": "not started", "closing": "closing", "closed": "closed"}
