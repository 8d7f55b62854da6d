"""Admin: reads and changes a cluster. The async face; mqclient.Admin is the blocking one."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

from mqclient.admin.access import Access
from mqclient.admin.brokers import Brokers
from mqclient.admin.channel import Channel, Engine
from mqclient.admin.groups import Groups
from mqclient.admin.messages import Messages
from mqclient.admin.namesrv import NameServers
from mqclient.admin.offsets import Offsets
from mqclient.admin.producers import Producers
from mqclient.admin.resets import Resets
from mqclient.admin.topics import Topics
from mqclient.engine.client import Client, TransportLike
from mqclient.settings.checks import Duration, seconds
from mqclient.settings.clients import ClientOptions, client_settings

TIMEOUT_DEFAULT = 5.0
"""Seconds for one answer; statistics get three times as long."""


class Admin:
    """Reads and changes a cluster: `topics`, `brokers`, `groups`, `producers`, `offsets`,
    `resets`, `messages`, `namesrv`, `access`.

    namesrv: "host:port", several by ";" or as a list; else NAMESRV_ADDR; else 127.0.0.1:9876.
    timeout: seconds or timedelta for one answer. transport: what to send with, made when None;
    mqclient.mock has one without sockets. engine: the older way to give one, an `Engine`. Options:
    the fields of ClientSettings but `namespace`, as administration sees names as brokers store
    them.

    async with Admin("127.0.0.1:9876") as admin:
        print(await admin.topics.names())
    """

    def __init__(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        timeout: Duration = TIMEOUT_DEFAULT,
        transport: TransportLike | None = None,
        engine: Engine | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if options.get("namespace") is not None:
            raise ValueError(
                "Admin cannot work in a namespace, as administration sees names as brokers store "
                "them; write it into the names of topics and groups: NAMESPACE%TOPIC"
            )
        settings = client_settings(namesrv, options)
        self._engine: Engine = engine or Client(settings, transport)
        self._namesrv = ";".join(settings.namesrv)
        channel = Channel(self._engine, seconds(timeout), self._namesrv)
        self.access = Access(channel)
        self.brokers = Brokers(channel)
        self.topics = Topics(channel, self.brokers)
        self.groups = Groups(channel, self.brokers)
        self.namesrv = NameServers(channel)
        self.producers = Producers(channel)
        self.offsets = Offsets(channel)
        self.resets = Resets(channel)
        self.messages = Messages(channel, self.brokers, self.topics, self.groups, self.offsets)

    def __repr__(self) -> str:
        return f"<Admin {self._namesrv}>"

    @property
    def client_id(self) -> str:
        """The id under which servers know this client."""
        return self._engine.client_id

    async def start(self) -> None:
        """Start the client; `async with` does this. Connections open when they are needed."""
        await self._engine.start()

    async def close(self, timeout: Duration = 20.0) -> None:
        """Close the connections. timeout: seconds, at most. May be called twice."""
        await self._engine.close(seconds(timeout))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
