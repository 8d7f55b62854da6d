"""Routes of topics: asks the NameServers, caches routes, finds brokers' addresses.

A changed route is replaced as a whole; an answer "no such topic" keeps the old one in use.
Rules: RocketMQ 4.9 `MQClientInstance.updateTopicRouteInfoFromNameServer`.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from mqclient.engine import address_server
from mqclient.engine.parallel import in_parallel
from mqclient.engine.threads import in_thread
from mqclient.errors import (
    AddressServerError,
    BrokerError,
    ClientTimeout,
    NoRouteError,
    UnreachableError,
)
from mqclient.settings.checks import is_address_server
from mqcommon.message import MessageQueue
from mqcommon.names import AUTO_CREATE_TOPIC
from mqcommon.wire.bodies.route import MASTER_ID, TopicRouteData
from mqcommon.wire.bodies.route_bounds import order_counts
from mqcommon.wire.calls import namesrv_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.frame import Frame

__all__ = ["NameServers", "RouteTable", "TopicRoute"]

R = TypeVar("R")
log = logging.getLogger("mqclient.routes")


class CallsServers(Protocol):
    """The method of a transport that this module uses."""

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        """Send a request, wait for its reply."""


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """A topic's queues and brokers, ready to use.

    publish: queues to send to; subscribe: queues to read; brokers: broker name to broker id
    (0 = master) to advertised address; ordered: the queues come from the order configuration.
    provisional: made from the template topic, the broker will create the topic at the first send.
    """

    publish: tuple[MessageQueue, ...]
    subscribe: tuple[MessageQueue, ...]
    brokers: Mapping[str, Mapping[int, str]]
    clusters: tuple[str, ...] = ()
    ordered: bool = False
    provisional: bool = field(default=False, compare=False)


def read_route(topic: str, data: TopicRouteData) -> TopicRoute:
    """Compute the queues of a route as RocketMQ does.

    Publish queues come from the order configuration "broker:count;..." if it exists, or else from
    every writable broker with a master; subscribe queues from every readable broker.
    """
    brokers = {item.broker_name: dict(item.broker_addrs) for item in data.broker_datas}
    queue_datas = sorted(data.queue_datas, key=lambda item: item.broker_name)
    if data.order_topic_conf:
        counts = order_counts(data.order_topic_conf)
    else:
        counts = [
            (item.broker_name, item.write_queue_nums)
            for item in queue_datas
            if item.writable and MASTER_ID in brokers.get(item.broker_name, {})
        ]
    readable = [(item.broker_name, item.read_queue_nums) for item in queue_datas if item.readable]
    return TopicRoute(
        publish=_queues(topic, counts),
        subscribe=_queues(topic, readable),
        brokers=brokers,
        clusters=tuple(sorted({item.cluster for item in data.broker_datas if item.cluster})),
        ordered=bool(data.order_topic_conf),
    )


def _queues(topic: str, counts: Iterable[tuple[str, int]]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue(topic, name, i) for name, count in counts for i in range(count))


class NameServers:
    """The NameServers: starts with a random one, keeps it while it answers, then tries the next.

    addresses: "host:port" each, or one URL of an address server. The URL is fetched at the
    first call and then every two minutes; without a good answer the list stays as it is.
    unit: of the client; an address server may have a separate list for it.
    """

    def __init__(
        self, addresses: tuple[str, ...], transport: CallsServers, unit: str | None = None
    ) -> None:
        self._url = addresses[0] if is_address_server(addresses[0]) else ""
        if self._url and unit:
            self._url += f"-{unit}?nofix=1"
        self.addresses = () if self._url else addresses
        self._transport = transport
        self._current = random.randrange(len(addresses))
        self._asked_next = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._trouble = ""

    def __str__(self) -> str:
        return ", ".join(self.addresses) or self._url

    async def invoke(self, call: Call[R], timeout: float) -> R:
        """Ask the current NameServer, and the others when it does not answer.

        timeout: seconds for each NameServer. Raises BrokerError as answered, UnreachableError or
        ClientTimeout if none answers, saying so if an address is probably another kind of server.
        """
        if self._url:
            await self._look_up()
        failures, addresses, first = [], self.addresses, self._current
        for step in range(len(addresses)):
            at = (first + step) % len(addresses)
            address = addresses[at]
            try:
                reply = await self._transport.call(address, call.request, timeout)
                if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise UnreachableError(_wrong_door(address), address)
                return call.result(reply, f"NameServer {address}")
            except (UnreachableError, ClientTimeout) as error:
                failures.append((address, error))
                if self._current % len(addresses) == at:  # else another call has moved on already
                    self._current = (at + 1) % len(addresses)
        raise _unreachable(failures) from failures[0][1]

    def close(self) -> None:
        """Stop asking the address server."""
        if self._asking is not None:
            self._asking.cancel()

    async def _look_up(self) -> None:
        """Wait for the address server only while no address is known."""
        if time.monotonic() >= self._asked_next:
            wait = address_server.PERIOD_S if self._asked_next else address_server.FIRST_S
            self._asked_next = time.monotonic() + wait
            self._asking = asyncio.create_task(self._ask_address_server())
        if not self.addresses and self._asking is not None:
            await asyncio.shield(self._asking)
        if not self.addresses:
            self._asked_next = 0.0
            raise UnreachableError(self._trouble, self._url)

    async def _ask_address_server(self) -> None:
        try:
            found = await in_thread(address_server.fetch_addresses, self._url)
        except AddressServerError as error:
            if self.addresses and str(error) != self._trouble:
                log.warning("%s; keeping %s", error, self)
            self._trouble = str(error)
            return
        self._trouble = ""
        if not self.addresses:
            self._current = random.randrange(len(found))
        elif found != self.addresses:
            log.info("address server %s: the NameServers are %s", self._url, ", ".join(found))
        self.addresses = found


def _wrong_door(address: str) -> str:
    return (
        f"{address} is a broker, not a NameServer; give the NameServer's address, "
        f"usually {address.rpartition(':')[0]}:9876"
    )


def _unreachable(
    failures: Sequence[tuple[str, Exception]],
) -> UnreachableError | ClientTimeout:
    reasons = "; ".join(f"{address}: {_reason(address, error)}" for address, error in failures)
    timed_out = all(isinstance(error, ClientTimeout) for _, error in failures)
    text = (
        f"no NameServer answers ({reasons}); check that it runs (mqserver namesrv start) "
        f"and that the address is right"
    )
    return ClientTimeout(text) if timed_out else UnreachableError(text, failures[0][0])


def _reason(address: str, error: Exception) -> str:
    port = address.rpartition(":")[2]
    if port in ("8080", "8081"):
        return f"port {port} belongs to a RocketMQ 5 proxy, not to a NameServer: {error}"
    if port in ("10911", "10909"):
        return f"port {port} is usually a broker, not a NameServer: {error}"
    return str(error) or type(error).__name__


class RouteTable:
    """Routes by topic. Concurrent requests for one topic share one call."""

    def __init__(self, namesrv: NameServers, timeout: float) -> None:
        self._namesrv = namesrv
        self._timeout = timeout
        self.table: dict[str, TopicRoute] = {}
        """The cached routes, provisional ones included; read them only."""
        self._asking: dict[str, asyncio.Task[TopicRoute | None]] = {}
        self._listeners: list[Callable[[str], None]] = []
        self.topics: set[str] = set()
        """Topics whose routes are polled."""

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener(topic)` whenever a route is new or differs from before."""
        self._listeners.append(listener)

    def forget_listener(self, listener: Callable[[str], None]) -> None:
        """Undo `on_change`."""
        self._listeners.remove(listener)

    def known(self, topic: str) -> TopicRoute | None:
        """The cached route, without a call; None for a provisional one too."""
        route = self.table.get(topic)
        return None if route is None or route.provisional else route

    async def get(self, topic: str) -> TopicRoute | None:
        """The route of a topic, fetched if it is not cached; None if there is none."""
        return self.known(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Ask the NameServer now. A topic that was deleted keeps its cached route."""
        self.topics.add(topic)
        task = self._asking.get(topic)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.ensure_future(self._ask(topic))
            self._asking[topic] = task
            task.add_done_callback(lambda done: self._forget(topic, done))
        return await asyncio.shield(task)

    async def for_sending(self, topic: str, queues_max: int) -> TopicRoute:
        """The route for sends; a topic that does not exist uses the template topic's route.

        queues_max: queues of a topic that a send creates.
        Raises NoRouteError when there is neither.
        """
        route = await self.get(topic)
        if route is not None and not route.publish:
            route = await self.refresh(topic)  # a master may be back
        if route is None:
            template = await self.refresh(AUTO_CREATE_TOPIC)
            if template is not None and template.publish:
                route = _from_template(topic, template, queues_max)
                self.table.setdefault(topic, route)
        if route is None or not route.publish:
            why = "it does not exist and autoCreateTopicEnable is off"
            raise await self.no_route(topic, route, why)
        return route

    async def no_route(
        self, topic: str, route: TopicRoute | None = None, why: str = "it does not exist"
    ) -> NoRouteError:
        """Build the error that says why a topic cannot be used, and what to do."""
        where = f"no route for topic {topic!r} at NameServer {self._namesrv}"
        first = self._namesrv.addresses[0]
        if route is not None:
            text = (
                f"topic {topic!r} has no writable queue with a living master at NameServer "
                f"{self._namesrv}; look: mqadmin topicRoute -n {first} -t {topic}"
            )
            return NoRouteError(text, topic, str(self._namesrv))
        cluster = await self._some_cluster()
        if cluster is None:
            text = f"{where}: no broker is registered there; start one: mqserver broker start"
            return NoRouteError(f"{text} -n {first}", topic, str(self._namesrv))
        text = f"{where}: {why}; create it: mqadmin updateTopic -n {first} -c {cluster} -t {topic}"
        return NoRouteError(text, topic, str(self._namesrv))

    def not_readable(self, topic: str) -> NoRouteError:
        """Build the error for a topic whose queues may not be read, as dead letters may not."""
        first = self._namesrv.addresses[0]
        text = (
            f"topic {topic!r} exists, but no broker lets its queues be read; look at perm and the "
            f"counts of queues: mqadmin topicRoute -n {first} -t {topic}; perm 6 allows it: "
            f"mqadmin updateTopic -n {first} -b BROKER -t {topic} -r READ_QUEUES -w WRITE_QUEUES "
            f"-p 6"
        )
        return NoRouteError(text, topic, str(self._namesrv))

    async def _some_cluster(self) -> str | None:
        info = await self._namesrv.invoke(namesrv_calls.cluster_info(), self._timeout)
        return min(info.cluster_addr_table, default=None)

    async def _ask(self, topic: str) -> TopicRoute | None:
        data = await self._namesrv.invoke(namesrv_calls.route(topic), self._timeout)
        if data is None:
            return self.known(topic)
        route = read_route(topic, data)
        before = self.table.get(topic)
        if before != route or (before is not None and before.provisional):
            self.table[topic] = route
            for listener in self._listeners:
                listener(topic)
        return self.table[topic]

    def _forget(self, topic: str, task: "asyncio.Task[TopicRoute | None]") -> None:
        if self._asking.get(topic) is task:
            del self._asking[topic]
        if not task.cancelled():
            task.exception()  # every caller got the error already; do not warn again

    async def refresh_all(self, topics: Iterable[str]) -> None:
        """Ask for the routes of topics, several at a time. Raises the first error."""
        await in_parallel(self.refresh, topics)

    async def poll(self) -> None:
        """Refresh every topic in use once; stop if no NameServer answers."""
        with contextlib.suppress(BrokerError, UnreachableError, ClientTimeout):
            await self.refresh_all(sorted(self.topics))

    # --- brokers

    def brokers(self) -> dict[str, Mapping[int, str]]:
        """Every broker in any cached route: name to broker id to advertised address."""
        return {
            name: addresses
            for route in self.table.values()
            for name, addresses in route.brokers.items()
        }

    def address(
        self, queue: MessageQueue, broker_id: int = MASTER_ID, *, only_this: bool = False
    ) -> str | None:
        """Advertised address of a queue's broker.

        broker_id: the wanted id. If it is missing, a slave's successor or any other of the same
        name is taken, unless `only_this`. None when there is none.
        """
        route = self.table.get(queue.topic)
        addresses = (route.brokers if route else {}).get(queue.broker_name)
        if addresses is None:
            addresses = self.brokers().get(queue.broker_name, {})
        found = addresses.get(broker_id)
        if found is None and not only_this:
            found = addresses.get(broker_id + 1) if broker_id != MASTER_ID else None
            found = found or next(iter(addresses.values()), None)
        return found


def _from_template(topic: str, template: TopicRoute, queues_max: int) -> TopicRoute:
    """The expected route of a topic that the broker will create."""
    counts: dict[str, int] = {}
    writable = {queue.broker_name for queue in template.publish}
    for queue in template.subscribe:
        if queue.broker_name not in writable:
            continue
        counts[queue.broker_name] = min(counts.get(queue.broker_name, 0) + 1, queues_max)
    queues = _queues(topic, counts.items())
    return replace(template, publish=queues, subscribe=queues, ordered=False, provisional=True)
