"""The client engine that producer, consumer and admin use: a member of an instance.

A `Client` has the life of one producer, consumer or admin: its state, its tasks, its groups. The
`Instance` that it joins at its start has the client id, the connections, routes and heartbeats.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, NoReturn, TypeVar

from mqclient.engine.heartbeat_backup import HeartbeatBackup, Sending
from mqclient.engine.instance import Instance, Member, every, join
from mqclient.engine.namespace import Namespace
from mqclient.engine.outages import Outages
from mqclient.engine.process import forked, process_id
from mqclient.engine.routes import TopicRoute
from mqclient.engine.transport_like import RequestHandler
from mqclient.errors import ClientTimeout, ClosedError, UnreachableError
from mqclient.settings.clients import ClientOptions, connection_of
from mqcommon.message import MessageQueue, ReceivedMessage
from mqcommon.wire.bodies.heartbeat import ConsumerData
from mqcommon.wire.bodies.route import MASTER_ID
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame

__all__ = ["Client", "State"]

State = Literal["new", "running", "closing", "closed"]

log = logging.getLogger(__name__)
R = TypeVar("R")


class Client:
    """The core of every client: built anywhere, and bound to the loop that starts it."""

    every = staticmethod(every)

    def __init__(self, options: ClientOptions) -> None:
        self.settings = settings = connection_of(options)
        self._given_transport = options.transport
        self.namespace = Namespace(settings.namespace)
        self._pid = process_id()
        self._state: State = "new"
        self.running = False
        """True between start and close; to be read only."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._member = Member(settings)
        self._joined: Instance | None = None
        self._route_listeners: list[Callable[[str], None]] = []
        self._begun = asyncio.Event()
        """Set when `start` has ended, well or not."""
        self._gone = asyncio.Event()
        self.ending = asyncio.Event()
        """Set when close() begins, or when a task of ours failed; see `failure`."""
        self.failure: BaseException | None = None
        """The error that ended one of the client's tasks; None while all run."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle a client; make one in each process")

    # --- life

    async def start(self, begin: Callable[[], Awaitable[None]] | None = None) -> None:
        """Join an instance, or start one, then run `begin`; a client that is started stays so.

        Of several callers at once one starts it, and the others wait. If `begin` fails, the client
        is closed. Raises what `begin` raises, and ClosedError after a close or a fork.
        """
        self.check_process()
        if self._state == "new":
            self._joined = instance = join(self._member, self._given_transport)
            self.namesrv, self.routes = instance.namesrv, instance.routes
            self._state = "running"
            self.running = True
            try:
                if begin is not None:
                    await begin()
            except BaseException:
                await self.close(1.0)
                raise
            finally:
                self._begun.set()
        self.check_running()
        await self._begun.wait()
        self.check_running()

    async def close(self, timeout: float) -> None:
        """Unregister from the brokers and stop the tasks; the last client of an instance closes
        its connections. May be called twice.

        timeout: seconds for the brokers' answers, at most 3. Raises ClientTimeout if another call
        does not end within it.
        """
        self.check_loop()
        if self._state != "running":
            if self._state == "closing":
                await self._wait_gone(timeout)
            self._state = "closed"
            return
        self._state = "closing"
        self.running = False
        self.ending.set()
        for listener in self._route_listeners:
            self.routes.forget_listener(listener)
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._instance.remove(self._member, max(0.1, min(timeout, 3.0)))
        finally:
            self._state = "closed"
            self._gone.set()

    async def _wait_gone(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._gone.wait()
        except TimeoutError:
            raise ClientTimeout(
                f"another call closes this client, and has not ended within {timeout:g} s"
            ) from None

    @property
    def _instance(self) -> Instance:
        if self._joined is None:
            self.check_running()
        assert self._joined is not None
        return self._joined

    @property
    def client_id(self) -> str:
        """The id under which brokers know this client, from its start on.

        Clients that share connections have the same.
        """
        return "(not started)" if self._joined is None else self._joined.client_id

    @property
    def replies(self) -> "dict[str, asyncio.Future[ReceivedMessage]]":
        """Requests that wait for a reply message, by correlation id; see `Instance`."""
        return self._instance.replies

    @property
    def state(self) -> State:
        """The state of the client."""
        return self._state

    def check_running(self) -> None:
        """Raise ClosedError unless the client can be used by this process."""
        if self._pid != process_id():
            self.check_process()
        if self._state != "running":
            step = "call start() or use `with`" if self._state == "new" else "make a new one"
            raise ClosedError(f"this client is {_STATE_WORDS[self._state]}; {step}")
        self.check_loop()

    def check_loop(self) -> None:
        """Raise ClosedError on another event loop than the one that started the client."""
        if self._joined is not None and self._pid == process_id():
            self._joined.check_loop()

    def check_process(self) -> None:
        """Raise ClosedError in a forked child: its connections belong to the parent."""
        if process_id() != self._pid:
            raise ClosedError(forked(self._pid))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Run a task until it ends or the client closes; an exception is logged."""
        try:
            self.check_running()
        except ClosedError:
            work.close()
            raise
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

    # --- calls

    def mapped(self, address: str) -> str:
        """The address to connect to for an address that a NameServer advertised."""
        return self._instance.mapped(address)

    async def invoke(self, address: str, call: Call[R], timeout: float | None = None) -> R:
        """Ask a broker. address: as advertised. timeout: seconds, None is request_timeout.

        Raises BrokerError, UnreachableError, ClientTimeout, ClosedError.
        """
        wait = self.settings.connection.request_timeout if timeout is None else timeout
        return call.result(await self.call_broker(address, call.request, wait), address)

    async def invoke_namesrv(self, call: Call[R], timeout: float | None = None) -> R:
        """Ask a NameServer, the next one if it does not answer. Raises like `invoke`."""
        self.check_running()
        wait = self.settings.connection.request_timeout if timeout is None else timeout
        return await self.namesrv.invoke(call, wait)

    async def call_broker(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a frame to a broker and return its reply, with any code."""
        if self._state not in ("running", "closing"):
            self.check_running()
        return await self._instance.call(address, request, timeout)

    async def call_namesrv(self, request: Frame, timeout: float) -> Frame:
        """Send a frame to a NameServer and return its reply, with any code."""
        any_reply: Call[Frame] = Call(request, lambda reply: reply, _AnyCode())
        return await self.invoke_namesrv(any_reply, timeout)

    async def oneway(self, address: str, request: Frame, timeout: float) -> None:
        """Send a oneway request to a broker; returns when it is written."""
        self.check_process()
        await self._instance.oneway(address, request, timeout)

    def sending(self, address: str, call: Call[R]) -> Sending:
        """A request for `heartbeat_backup`. address: the broker's, as advertised."""
        return self._instance.sending(address, call)

    @property
    def heartbeat_backup(self) -> HeartbeatBackup:
        """Sends in our place while the event loop is busy."""
        return self._instance.heartbeat_backup

    @property
    def outages(self) -> Outages:
        """Logs the failures of brokers."""
        return self._instance.outages

    def compiled_transport(self) -> Any:
        """The transport if it is `transport.Transport`, else None; for FrameTemplate."""
        transport = self._instance.transport
        return transport if hasattr(transport, "request") else None

    def explain(self, address: str, error: Exception) -> Exception:
        """The error for a failure of the transport. address: the broker's, as advertised."""
        if not isinstance(error, UnreachableError):
            return error
        return self._instance.unreachable(address, error)

    async def route(self, topic: str) -> TopicRoute | None:
        """The route of a topic, None when the NameServer does not know it."""
        self.check_running()
        return await self.routes.get(topic)

    def on_route_change(self, listener: Callable[[str], None]) -> None:
        """Until the close, call `listener(topic)` when a route is new or differs from before."""
        self.routes.on_change(listener)
        self._route_listeners.append(listener)

    def address_of(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """The advertised address of a queue's broker; raises UnreachableError without one.

        broker_id: the wanted id, 0 is the master; another of the same name may be used.
        """
        address = self.routes.address(queue, broker_id)
        if address is None:
            raise UnreachableError(f"no broker {queue.broker_name!r} is known for {queue}")
        return address

    # --- groups, heartbeats and requests from brokers

    def add_producer(self, group: str) -> None:
        """Add a producer group to heartbeats; before the start."""
        self._member.producer_groups.add(group)

    def set_consumer(self, group: str, data: Callable[[], ConsumerData | None]) -> None:
        """Set the consumer group, before the start; `data` is called before each heartbeat."""
        self._member.consumer_group = group
        self._member.consumer_data = data

    async def heartbeat(self) -> None:
        """Send a heartbeat to every known broker; a failure is logged."""
        await self._instance.heartbeat()

    @property
    def broker_versions(self) -> dict[str, int]:
        """Version ordinals that brokers answered heartbeats with, by advertised address."""
        return self._instance.broker_versions

    async def introduce(self, topic: str, timeout: float) -> None:
        """Send a heartbeat to the topic's masters that do not know this client; see `Instance`."""
        await self._instance.introduce(topic, timeout)

    def on_request(self, code: RequestCode, handler: RequestHandler) -> None:
        """Serve a request code that brokers send, before the start: 39, 40, 220, 221, 307, 309,
        326."""
        self._member.handlers[int(code)] = handler


class _AnyCode(frozenset[int]):
    """A set that holds every response code."""

    def __contains__(self, _code: object) -> bool:
        return True


_STATE_WORDS = {"new": "not started", "closing": "closing", "closed": "closed"}
