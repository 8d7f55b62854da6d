"""The blocking face of Admin; `admin_groups.py` has its methods."""

from __future__ import annotations

from mqclient.admin.admin import Admin as AsyncAdmin
from mqclient.blocking.admin_groups import (
    Access,
    Brokers,
    DeadLetters,
    Groups,
    Lags,
    Messages,
    NameServers,
    Offsets,
    Plans,
    Producers,
    Resets,
    Topics,
)
from mqclient.blocking.producer import Producer
from mqclient.blocking.sync_client import SyncClient
from mqclient.settings.clients import AdminOptions
from mqclient.settings.declare import changed, explained, made_of, takes
from mqclient.settings.identity import Credentials
from mqclient.settings.producers import producer_options


@explained
class Admin(SyncClient):
    """Reads and changes a cluster: `topics`, `brokers`, `groups`, `producers`, `offsets`,
    `resets`, `plans`, `lags`, `messages`, `dead_letters`, `namesrv`, `access`.

        with Admin("127.0.0.1:9876") as admin:
            print(admin.topics.names())
    """

    @takes(AdminOptions)
    def __init__(self, options: AdminOptions) -> None:
        client = made_of(AsyncAdmin, options)
        super().__init__(client)
        self._options = options
        self.access = Access(client.access, self._where)
        self.brokers = Brokers(client.brokers, self._where)
        self.topics = Topics(client.topics, self._where)
        self.groups = Groups(client.groups, self._where)
        self.namesrv = NameServers(client.namesrv, self._where)
        self.producers = Producers(client.producers, self._where)
        self.offsets = Offsets(client.offsets, self._where)
        self.resets = Resets(client.resets, self._where)
        self.plans = Plans(client.plans, self._where)
        self.lags = Lags(client.lags, self._where)
        self.dead_letters = DeadLetters(client.dead_letters, self._where)
        self.messages = Messages(client.messages, self._where)

    def with_account(self, credentials: Credentials) -> Admin:
        """An Admin with this Admin's options, but with another account.

        The caller starts and closes it: `with admin.with_account(reader) as other`.
        """
        return made_of(Admin, changed(self._options, credentials=credentials))

    def producer(self, group: str, *, trace: bool = False, unit: str | None = None) -> Producer:
        """A producer with this Admin's NameServers, account and other options of every client.

        trace: send records of message trace. unit: last part of its client id. The caller starts
        and closes it: `with admin.producer("tools") as producer`.
        """
        return made_of(Producer, producer_options(self._options, group, trace=trace, unit=unit))
