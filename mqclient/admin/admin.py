"""Admin: reads and changes a cluster. The async face; mqclient.Admin is the blocking one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mqclient.admin.access import Access
from mqclient.admin.brokers import Brokers
from mqclient.admin.channel import Channel
from mqclient.admin.groups import Groups
from mqclient.admin.namesrv import NameServers
from mqclient.admin.offsets import Offsets
from mqclient.admin.producers import Producers
from mqclient.admin.resets import Resets
from mqclient.admin.topics import Topics
from mqclient.engine.async_client import AsyncClient
from mqclient.engine.client import Client
from mqclient.settings.clients import AdminOptions
from mqclient.settings.declare import changed, explained, made_of, takes
from mqclient.settings.identity import Credentials

if TYPE_CHECKING:
    from mqclient.admin.dead_letters import DeadLetters
    from mqclient.admin.lag import Lags
    from mqclient.admin.messages import Messages
    from mqclient.admin.plans import Plans
    from mqclient.producer.producer import Producer


@explained
class Admin(AsyncClient):
    """Reads and changes a cluster: `topics`, `brokers`, `groups`, `producers`, `offsets`,
    `resets`, `plans`, `lags`, `messages`, `dead_letters`, `namesrv`, `access`.

        async with Admin("127.0.0.1:9876") as admin:
            print(await admin.topics.names())
    """

    @takes(AdminOptions)
    def __init__(self, options: AdminOptions) -> None:
        self._options = options
        self._client = Client(options)
        self._namesrv = ";".join(self._client.settings.servers)
        self._channel = channel = Channel(self._client, options.timeout, self._namesrv)
        self.access = Access(channel)
        self.brokers = Brokers(channel)
        self.topics = Topics(channel, self.brokers)
        self.groups = Groups(channel, self.brokers)
        self.namesrv = NameServers(channel)
        self.producers = Producers(channel)
        self.offsets = Offsets(channel)
        self.resets = Resets(channel)

    def __repr__(self) -> str:
        return f"<Admin {self._namesrv}>"

    # The modules of these groups are slow to import, and most programs use none of them.

    @cached_property
    def plans(self) -> Plans:
        """Changes of a group's offsets that are worked out first, shown, and then made."""
        from mqclient.admin.plans import Plans

        return Plans(self._channel, self.groups, self.offsets, self.resets)

    @cached_property
    def messages(self) -> Messages:
        """Single messages."""
        from mqclient.admin.messages import Messages

        return Messages(self._channel, self.brokers, self.topics, self.groups, self.offsets)

    @cached_property
    def lags(self) -> Lags:
        """How far groups are behind."""
        from mqclient.admin.lag import Lags

        return Lags(self._channel, self.topics, self.offsets)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """Messages that groups could not consume."""
        from mqclient.admin.dead_letters import DeadLetters

        return DeadLetters(self._channel, self.topics, self.offsets, self.messages, self.producer)

    def with_account(self, credentials: Credentials) -> Admin:
        """An Admin with this Admin's options, but with another account.

        The caller starts and closes it: `async with admin.with_account(reader) as other`.
        """
        return made_of(Admin, changed(self._options, credentials=credentials))

    def producer(self, group: str, *, trace: bool = False, unit: str | None = None) -> Producer:
        """A producer with this Admin's NameServers, account and other options of every client.

        trace: send records of message trace. unit: last part of its client id. The caller starts
        and closes it: `async with admin.producer("tools") as producer`.
        """
        from mqclient.producer.producer import Producer
        from mqclient.settings.producers import producer_options

        return made_of(Producer, producer_options(self._options, group, trace=trace, unit=unit))
