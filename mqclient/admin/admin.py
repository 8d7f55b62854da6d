"""Admin: reads and changes a cluster. The async face; mqclient.Admin is the blocking one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

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
from mqclient.config import ClientSettings, Duration, namesrv_addresses, seconds
from mqclient.engine import Client, TransportLike
from mqclient.tls import Tls

TIMEOUT_DEFAULT = 5.0
"""Seconds for one answer; statistics get three times as long."""


class Admin:
    """Reads and changes a cluster: `topics`, `brokers`, `groups`, `producers`, `offsets`,
    `resets`, `messages`, `namesrv`, `access`.

    namesrv: "host:port", several by ";" or as a list; else NAMESRV_ADDR; else 127.0.0.1:9876.
    timeout: seconds or timedelta for one answer. address_map: broker address as advertised to the
    address to use, for brokers behind NAT. access_key, secret_key, security_token: the account that
    signs. tls: as for every client. transport: what to send with, made when None; mqclient.mock has
    one without sockets. engine: the older way to give one, an `Engine`.

    async with Admin("127.0.0.1:9876") as admin:
        print(await admin.topics.names())
    """

    def __init__(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        timeout: Duration = TIMEOUT_DEFAULT,
        address_map: Mapping[str, str] | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        security_token: str | None = None,
        tls: Tls | bool | None = None,
        transport: TransportLike | None = None,
        engine: Engine | None = None,
    ) -> None:
        settings = ClientSettings(
            namesrv=namesrv_addresses(namesrv),
            address_map=address_map or {},
            access_key=access_key,
            secret_key=secret_key,
            security_token=security_token,
            tls=tls,
        )
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

    async def close(self, timeout: Duration = TIMEOUT_DEFAULT) -> None:
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
