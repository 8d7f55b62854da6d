"""Sends Admin's calls to servers and names the server in errors."""

from __future__ import annotations

import contextlib
from typing import Protocol, TypeVar

from mqclient.engine.address_server import fetch_addresses
from mqclient.engine.threads import in_thread
from mqclient.errors import BrokerError, NoRouteError, RocketMQError, UnreachableError
from mqclient.settings.checks import is_address_server
from mqclient.settings.clients import ConnectionOptions
from mqcommon.message import MessageQueue
from mqcommon.names import retry_topic
from mqcommon.wire.bodies.route import BrokerData, TopicRouteData
from mqcommon.wire.calls import namesrv_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.frame import Frame

R = TypeVar("R")

SLOW_FACTOR = 3
"""Statistics, and requests that a broker relays to a client, wait this many timeouts."""


class Engine(Protocol):
    """The methods of the client's engine that Admin uses."""

    @property
    def client_id(self) -> str:
        """The client id under which servers know the channel."""
        ...

    settings: ConnectionOptions
    """The options for connecting."""

    def mapped(self, address: str) -> str:
        """The address to connect to for an address that a NameServer advertised."""
        ...

    def explain(self, address: str, error: Exception) -> Exception:
        """The error for a failure of the transport. address: the broker's, as advertised."""
        ...

    async def start(self) -> None:
        """Start the channel on the running loop."""
        ...

    async def close(self, timeout: float) -> None:
        """Close the connections. timeout: seconds, at most."""
        ...

    async def call_namesrv(self, request: Frame, timeout: float) -> Frame:
        """Ask a NameServer, trying the next one when it cannot be reached."""
        ...

    async def call_broker(self, address: str, request: Frame, timeout: float) -> Frame:
        """Ask the server at an address."""
        ...


class Channel:
    """Sends calls through the engine. timeout: seconds for one answer."""

    def __init__(self, engine: Engine, timeout: float, namesrv: str) -> None:
        self.engine = engine
        self.timeout = timeout
        self.namesrv = namesrv

    async def ask_namesrv(self, call: Call[R]) -> R:
        """Ask a NameServer. Raises BrokerError when it answers with an error."""
        reply = await self.engine.call_namesrv(call.request, self.timeout)
        return call.result(reply, self.namesrv)

    async def ask_every_namesrv(self, call: Call[R]) -> dict[str, R]:
        """Ask each NameServer, because each has its own copy of the data; answers by address.

        Raises the first error after all were asked.
        """
        answers: dict[str, R] = {}
        failures: list[RocketMQError] = []
        for address in await self.namesrv_addresses():
            try:
                answers[address] = await self.ask_broker(address, call)
            except RocketMQError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return answers

    async def namesrv_addresses(self) -> tuple[str, ...]:
        """The NameServers' addresses; an address server is asked for them."""
        if is_address_server(self.namesrv):
            return await in_thread(fetch_addresses, self.namesrv)
        return tuple(self.namesrv.split(";"))

    async def ask_broker(self, address: str, call: Call[R], *, slow: bool = False) -> R:
        """Ask one broker. slow: wait longer, for statistics or a client that the broker asks."""
        timeout = self.timeout * (SLOW_FACTOR if slow else 1)
        return call.result(await self.engine.call_broker(address, call.request, timeout), address)

    async def route(self, topic: str) -> TopicRouteData:
        """The route of a topic. Raises NoRouteError if the NameServer does not know the topic."""
        found = await self.ask_namesrv(namesrv_calls.route(topic))
        if found is None:
            words = f"no route for topic {topic!r} at NameServer {self.namesrv}"
            hint = f"list the topics: mqadmin topicList -n {self.namesrv}"
            raise NoRouteError(f"{words}; {hint}", topic, self.namesrv)
        return found

    async def group_addresses(self, group: str) -> list[str]:
        """One address of every broker that knows a group; NoRouteError if no member ever came."""
        topic = retry_topic(group)
        try:
            found = await self.addresses(topic)
        except NoRouteError as error:
            words = f"group {group!r} is not known: it never had a member"
            hint = f"list the groups: mqadmin consumerProgress -n {self.namesrv}"
            raise NoRouteError(f"{words}; {hint}", topic, self.namesrv) from error
        if not found:
            words = f"no broker that knows group {group!r} is up"
            raise NoRouteError(f"{words}; start its brokers", topic, self.namesrv)
        return found

    async def addresses(self, topic: str) -> list[str]:
        """One address of every broker that has a topic: the master's, else a slave's."""
        found = await self.route(topic)
        return [address for data in found.broker_datas if (address := reachable(data))]

    async def master_of(self, queue: MessageQueue) -> str:
        """The address of the master that has a queue; raises RocketMQError if there is none."""
        return master_in(await self.route(queue.topic), queue)

    async def ask_any(self, topic: str, call: Call[R], *, slow: bool = False) -> R:
        """Ask the brokers of a topic in turn until one answers without an error."""
        addresses = await self.addresses(topic)
        if not addresses:
            words = f"no broker of topic {topic!r} is up"
            raise NoRouteError(f"{words}; start its brokers", topic, self.namesrv)
        return await self._ask_in_turn(addresses, call, slow)

    async def ask_any_of_group(self, group: str, call: Call[R], *, slow: bool = False) -> R:
        """Ask the brokers that know a group in turn until one answers without an error."""
        return await self._ask_in_turn(await self.group_addresses(group), call, slow)

    async def _ask_in_turn(self, addresses: list[str], call: Call[R], slow: bool) -> R:
        """The first answer, else the last broker's error."""
        for address in addresses[:-1]:
            with contextlib.suppress(BrokerError, UnreachableError):
                return await self.ask_broker(address, call, slow=slow)
        return await self.ask_broker(addresses[-1], call, slow=slow)


def master_in(route: TopicRouteData, queue: MessageQueue) -> str:
    """As `Channel.master_of`, by a route of the queue's topic."""
    for data in route.broker_datas:
        if data.broker_name == queue.broker_name and data.master:
            return data.master
    raise RocketMQError(f"{queue}: the broker has no master now; try again later")


def reachable(data: BrokerData) -> str | None:
    """The address at which to ask a broker: its master's, otherwise its first slave's."""
    slaves = [data.broker_addrs[key] for key in sorted(data.broker_addrs)]
    return data.master or (slaves[0] if slaves else None)


class Room:
    """Base of the groups of Admin's methods."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
