"""What every processor may ask: state, store, and the few doors out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import localtime
from typing import TYPE_CHECKING, Protocol

from mqserver.broker.creations import Creations
from mqserver.broker.relay import Relay
from mqserver.broker.state.bounds import Bounds
from mqserver.broker.state.consumers import Consumers
from mqserver.broker.state.days import Days
from mqserver.broker.state.filters import Filters
from mqserver.broker.state.groups import Groups
from mqserver.broker.state.producers import Producers
from mqserver.broker.state.saving import Saver
from mqserver.broker.state.topics import Topics
from mqserver.broker.stats.statistics import Statistics
from mqserver.config.online import OnlineSettings
from mqserver.config.settings import BrokerSettings
from mqserver.plane import Queue
from mqserver.services import Services
from mqstore import GetResult, PutResult, QueryResult

if TYPE_CHECKING:
    from mqserver.broker.acl.control import AccessControl


class StoreDoor(Protocol):
    """What the processors use of `mqstore.Store`; see there."""

    def put(
        self,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        flag: int = 0,
        sys_flag: int = 0,
        properties: bytes = b"",
        born_timestamp_ms: int | None = None,
        born_host: str = "",
        store_host: str = "",
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        wait_store_ok: bool = True,
        delay_level: int = 0,
        batch: bool = False,
    ) -> PutResult:
        """Append; wait until it is as durable as configured."""
        ...

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        tag_codes: list[int] | None = None,
        sql: str | None = None,
        retried: Mapping[str, str] | None = None,
    ) -> GetResult:
        """Read messages of one queue."""
        ...

    def get_at(self, physical_offset: int) -> bytes | None:
        """The record at a physical offset."""
        ...

    def query(
        self, topic: str, key: str, max_count: int = 32, begin_ms: int = 0, end_ms: int = 0
    ) -> QueryResult:
        """Records by key."""
        ...

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First readable offset."""
        ...

    def max_offset(self, topic: str, queue_id: int) -> int:
        """One past the last offset."""
        ...

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Offset by store time."""
        ...

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time at an offset, -1 if there is none."""
        ...

    def is_on_disk(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message is cold."""
        ...

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """A committed offset."""
        ...

    def commit(
        self, group: str, topic: str, queue_id: int, offset: int, entries_max: int | None = None
    ) -> bool:
        """Commit an offset; False if the pair is new and the table of offsets is full."""
        ...

    def committed_all(self) -> dict[str, dict[int, int]]:
        """Every committed offset."""
        ...

    def take_reset(self, group: str, topic: str, queue_id: int) -> GetResult | None:
        """What a pull is answered once after a reset."""
        ...

    def set_cleaning(self, settings: dict[str, object]) -> None:
        """Take the settings of cleaning among these."""
        ...

    def clean_soon(self) -> None:
        """Let old files go, whatever the hour."""
        ...

    def clean_expired_queues(self) -> tuple[int, int, int]:
        """Drop what queues say about messages that are gone."""
        ...

    def clone_offsets(self, from_group: str, to_group: str, topic: str) -> int:
        """Give a group the offsets of another."""
        ...

    def remove_group(self, group: str, topic: str | None = None) -> int:
        """Forget the offsets of a group."""
        ...

    def clean_unused_topics(self, topics: set[str]) -> tuple[int, int, int]:
        """Empty the queues of all other topics."""
        ...

    def store_time_range(self) -> tuple[int, int] | None:
        """Store times of the first and the last message."""
        ...

    def min_physical_offset(self) -> int:
        """Start of the log."""
        ...

    def max_physical_offset(self) -> int:
        """End of the log."""
        ...

    def runtime(self) -> dict[str, str]:
        """Figures of the store."""
        ...

    def lock_held_ms(self) -> int:
        """How long the put lock has been held."""
        ...

    def refusal(self) -> str | None:
        """Why nothing is stored any more."""
        ...


class Announcer(Protocol):
    """The registrar, as the processors see it."""

    def announce(self) -> None:
        """Register the whole table soon, without waiting."""
        ...

    def announce_created(self) -> None:
        """Register the topics made since the last time, with a short wait for the answers."""
        ...

    def register_topics(self) -> None:
        """Register the topics that changed with every NameServer and wait for the answers."""
        ...


class NoNameServers:
    """An announcer for a broker that has not met its NameServers yet."""

    def announce(self) -> None:
        """Nobody listens."""

    def announce_created(self) -> None:
        """Nobody listens."""

    def register_topics(self) -> None:
        """Nobody listens."""


@dataclass(slots=True)
class BrokerContext:
    """One broker, as its processors see it.

    settings: replaced as a whole by an online update. store_host: "ip:port" told to clients.
    accepting: False once the broker is stopping. lock, unlock: the plane's queue locks.
    is_open: whether a connection still is. relay: requests to clients.
    monotonic: seconds. now_ms: wall clock. acl: None while access control is off. services: the
    threads that must go on. bounds: on what clients may invent.
    """

    settings: BrokerSettings
    store: StoreDoor
    topics: Topics
    groups: Groups
    consumers: Consumers
    producers: Producers
    filters: Filters
    saver: Saver
    online: OnlineSettings
    registrar: Announcer
    store_host: str
    monotonic: Callable[[], float]
    now_ms: Callable[[], int]
    lock: Callable[[str, str, list[Queue]], tuple[list[Queue], str | None]]
    unlock: Callable[[str, str, list[Queue]], None]
    is_open: Callable[[int], bool]
    relay: Relay
    counters: Callable[[], dict[str, int]]
    stats: Statistics
    boot_ms: int
    bounds: Bounds
    creations: Creations
    accepting: bool = True
    days: Days = field(default_factory=lambda: Days(lambda: localtime()[:3]))
    acl: AccessControl | None = None
    services: Services = field(default_factory=Services)
    certificate_end: Callable[[], int | None] = lambda: None

    def forget(self, connection: int) -> None:
        """A connection ended: its client leaves every group."""
        self.consumers.close(connection)
        self.producers.close(connection)
