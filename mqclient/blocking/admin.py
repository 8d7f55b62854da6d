"""The blocking face of Admin; `admin_groups.py` has its methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from mqclient.admin.admin import TIMEOUT_DEFAULT
from mqclient.admin.admin import Admin as AsyncAdmin
from mqclient.admin.channel import Engine
from mqclient.blocking.admin_groups import (
    Access,
    Brokers,
    Groups,
    Messages,
    NameServers,
    Offsets,
    Producers,
    Resets,
    Topics,
)
from mqclient.blocking.loop_thread import LoopThread
from mqclient.blocking.sync_client import SyncClient
from mqclient.engine.client import TransportLike
from mqclient.settings.checks import Duration
from mqclient.settings.clients import ClientOptions


class Admin(SyncClient[AsyncAdmin]):
    """Reads and changes a cluster: `topics`, `brokers`, `groups`, `producers`, `offsets`,
    `resets`, `messages`, `namesrv`, `access`.

    namesrv: "host:port", several by ";" or as a list; else NAMESRV_ADDR; else 127.0.0.1:9876.
    timeout: seconds or timedelta for one answer. transport: what to send with, made when None.
    engine: the older way to give one, an `Engine`. Options: the fields of ClientSettings
    but `namespace`, as administration sees names as brokers store them.

        with Admin("127.0.0.1:9876") as admin:
            print(admin.topics.names())
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
        client = AsyncAdmin(namesrv, timeout=timeout, transport=transport, engine=engine, **options)
        super().__init__(client)
        self.access = Access(client.access, self._where)
        self.brokers = Brokers(client.brokers, self._where)
        self.topics = Topics(client.topics, self._where)
        self.groups = Groups(client.groups, self._where)
        self.namesrv = NameServers(client.namesrv, self._where)
        self.producers = Producers(client.producers, self._where)
        self.offsets = Offsets(client.offsets, self._where)
        self.resets = Resets(client.resets, self._where)
        self.messages = Messages(client.messages, self._where)

    def _where(self) -> LoopThread:
        return self._running
