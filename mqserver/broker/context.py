"""The context of all processors: the broker's state, its store, and the ways to send requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import localtime
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from mqcommon import names
from mqcommon.message import ReceivedMessage
from mqcommon.wire.codes import ResponseCode
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
from mqserver.broker.state.transactions import Copies
from mqserver.broker.state.unasked import Unasked
from mqserver.broker.stats.statistics import Statistics
from mqserver.config.online import OnlineSettings
from mqserver.config.settings import BrokerSettings
from mqserver.runtime.data_plane import Queue
from mqserver.runtime.processor_api import Refused, Request
from mqserver.runtime.services import Services
from mqstore import GetResult, PutResult, QueryResult

ACL_EXCEPTION = "org.apache.rocketmq.acl.common.AclException"
"""The beginning of the remark of a refusal by access control; clients look for it."""

if TYPE_CHECKING:
    from mqserver.broker.acl.control import AccessControl


class StoreDoor(Protocol):
    """The methods of `mqstore.Store` that the processors use; documented there."""

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
        was_accepted: bool = False,
    ) -> PutResult:
        """Append a message, and wait until it is as durable as configured."""
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

    def end_transaction(self, number: int, commits: bool, is_open: bool = False) -> str:
        """End a transaction: "first", "repeated", "contrary" or "unknown"."""
        ...

    def reopen_transaction(self, number: int) -> None:
        """Take back an end that could not be stored."""
        ...

    def note_ended(self, number: int) -> None:
        """Note that a transaction is ended."""
        ...

    def is_ended(self, number: int) -> bool:
        """Whether a transaction is known to be ended."""
        ...

    def know_transactions_from(self, number: int) -> None:
        """Say that every ended transaction from this number on was noted."""
        ...

    def query(
        self, topic: str, key: str, max_count: int = 32, begin_ms: int = 0, end_ms: int = ...
    ) -> QueryResult:
        """Records by key."""
        ...

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first readable offset."""
        ...

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset after the last message."""
        ...

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The offset of the message stored nearest to a time, the first of several."""
        ...

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """The store time of the message at an offset, -1 if there is none."""
        ...

    def is_on_disk(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message has to be read from the disk."""
        ...

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset of a group in a queue, None if there is none."""
        ...

    def commit(
        self, group: str, topic: str, queue_id: int, offset: int, entries_max: int | None = None
    ) -> bool:
        """Commit an offset; False if the pair is new and the table of offsets is full."""
        ...

    def committed_all(self) -> dict[str, dict[int, int]]:
        """Every committed offset."""
        ...

    def committed_of_group(self, group: str) -> dict[str, dict[int, int]]:
        """The committed offsets of a group, by topic and queue."""
        ...

    def entries(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> list[tuple[int, int, int]]:
        """Physical offset, size and tags code of entries of a queue."""
        ...

    def take_reset(self, group: str, topic: str, queue_id: int) -> GetResult | None:
        """The answer to the first pull after an offset reset, None if there was no reset."""
        ...

    def set_cleaning(self, settings: dict[str, object]) -> None:
        """Apply the settings for cleaning."""
        ...

    def clean_soon(self) -> None:
        """Delete expired files at the next check, whatever the hour."""
        ...

    def clean_expired_queues(self) -> tuple[int, int, int]:
        """Delete the queue files whose messages are deleted."""
        ...

    def clone_offsets(self, from_group: str, to_group: str, topic: str) -> int:
        """Copy the offsets of a group to another group."""
        ...

    def remove_group(self, group: str, topic: str | None = None) -> int:
        """Delete the offsets of a group."""
        ...

    def remove_offset(self, group: str, topic: str, queue_id: int) -> bool:
        """Delete the offset of a group in one queue; whether there was one."""
        ...

    def clean_unused_topics(self, topics: set[str]) -> tuple[int, int, int]:
        """Delete the messages of all topics except these, durably."""
        ...

    def flush(self) -> None:
        """Make the log, the queues and the offsets durable."""
        ...

    def delete_topic(self, topic: str) -> tuple[int, int, int]:
        """Delete the messages of a topic, durably."""
        ...

    def deletions(self) -> str:
        """The topics whose messages were deleted, as text for `take_deletions`."""
        ...

    def take_deletions(self, of_master: str) -> tuple[int, int, int]:
        """Delete what the master of this slave deleted, durably."""
        ...

    def store_time_range(self) -> tuple[int, int] | None:
        """The store times of the first and the last message, in ms."""
        ...

    def min_physical_offset(self) -> int:
        """The physical offset at which the log starts."""
        ...

    def max_physical_offset(self) -> int:
        """The physical offset at which the log ends."""
        ...

    def runtime(self) -> dict[str, str]:
        """The store's figures, by RocketMQ's names."""
        ...

    def lock_held_ms(self) -> int:
        """How long the put lock has been held, in ms."""
        ...

    def refusal(self) -> str | None:
        """Why the store refuses messages, None if it accepts them."""
        ...


class Announcer(Protocol):
    """The methods of the registrar that the processors use."""

    def announce(self) -> None:
        """Register the whole table soon, without waiting."""
        ...

    def announce_created(self) -> None:
        """Register the topics created since the last call; wait a short time for the answers."""
        ...

    def register_topics(self) -> None:
        """Register the topics that changed with every NameServer and wait for the answers."""
        ...


class Replicas(Protocol):
    """What a broker says of its slaves, or as a slave; see `replication.Replication`."""

    def slaves(self) -> list[dict[str, Any]]:
        """A row for each connected slave."""
        ...

    def slave_status(self) -> dict[str, Any] | None:
        """Where this slave is, None for a master."""
        ...

    def figures(self) -> dict[str, str]:
        """What `brokerStatus` shows."""
        ...

    def unready(self) -> str | None:
        """Why a slave cannot serve yet, None if it can."""
        ...


class NoNameServers:
    """The announcer of a broker that has not started to register."""

    def announce(self) -> None:
        """Do nothing."""

    def announce_created(self) -> None:
        """Do nothing."""

    def register_topics(self) -> None:
        """Do nothing."""


class BrokerContext(Struct):
    """The parts of one broker that its processors use.

    settings: an online update replaces them as a whole. store_host: the "ip:port" that clients
    connect to. accepting: False when the broker is stopping. lock, unlock: the queue locks of the
    data plane. is_open: whether a connection is open. relay: sends requests to clients.
    monotonic: seconds. now_ms: wall clock. acl: None if access control is off. services: the
    background threads. bounds: limits on what clients can create. unasked: what they
    had created. copies: half messages that the
    checks stored again. replication: None until the broker listens.
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
    lock: Callable[[str, tuple[str, str], list[Queue]], tuple[list[Queue], str | None]]
    unlock: Callable[[str, str, list[Queue]], None]
    is_open: Callable[[int], bool]
    relay: Relay
    counters: Callable[[], dict[str, int]]
    stats: Statistics
    boot_ms: int
    bounds: Bounds
    unasked: Unasked
    creations: Creations
    topic_changes: Creations
    accepting: bool = True
    days: Days = field(default_factory=lambda: Days(lambda: localtime()[:3]))
    acl: AccessControl | None = None
    services: Services = field(default_factory=Services)
    copies: Copies = field(default_factory=Copies)
    replication: Replicas | None = None
    certificate_end: Callable[[], int | None] = lambda: None

    def check_readable(self, request: Request, message: ReceivedMessage) -> None:
        """Check that access control lets a request read the message that it named by an offset.

        Raises Refused. A delayed or half message has the rights of its own topic.
        """
        topic = message.topic
        if topic in names.SYSTEM_TOPICS:
            topic = message.properties.get("REAL_TOPIC", topic)
        acl = self.acl
        if acl is not None and not acl.may_read(request.fields, request.remote, topic):
            remark = f"{ACL_EXCEPTION}: No default permission for topic:{topic}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    def forget(self, connection: int) -> None:
        """Remove the client of a closed connection from every group."""
        self.consumers.close(connection)
        self.producers.close(connection)
