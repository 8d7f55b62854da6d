"""Types of the compiled Rust core. Every function that waits releases the GIL."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Self, TypeVar, final, overload

from typing_extensions import disjoint_base

from mqcommon._core_ha import (
    HaMaster as HaMaster,
)
from mqcommon._core_ha import (
    HaSlave as HaSlave,
)
from mqcommon._core_offline import (
    COLUMN_LAYOUTS as COLUMN_LAYOUTS,
)
from mqcommon._core_offline import (
    ColumnBuilder as ColumnBuilder,
)
from mqcommon._core_offline import (
    ColumnsAhead as ColumnsAhead,
)
from mqcommon._core_offline import (
    LinesAhead as LinesAhead,
)
from mqcommon._core_offline import (
    Memory as Memory,
)
from mqcommon._core_offline import (
    RepairReport as RepairReport,
)
from mqcommon._core_offline import (
    Report as Report,
)
from mqcommon._core_offline import (
    Scan as Scan,
)
from mqcommon._core_offline import (
    cut_log as cut_log,
)
from mqcommon._core_offline import (
    json_lines as json_lines,
)
from mqcommon._core_offline import (
    rebuild as rebuild,
)
from mqcommon._core_range import (
    Conditions as Conditions,
)
from mqcommon._core_range import (
    RangeFailed as RangeFailed,
)
from mqcommon._core_range import (
    RangeReader as RangeReader,
)
from mqcommon._core_requests import (
    Accepted as Accepted,
)
from mqcommon._core_requests import (
    Pending as Pending,
)
from mqcommon._core_requests import (
    SendCounts as SendCounts,
)
from mqcommon._core_requests import (
    SentReply as SentReply,
)
from mqcommon._core_results import (
    GetResult as GetResult,
)
from mqcommon._core_results import (
    PutResult as PutResult,
)
from mqcommon._core_results import (
    QueryResult as QueryResult,
)
from mqcommon._core_write import (
    RowWriter as RowWriter,
)
from mqcommon._core_write import (
    SendFailed as SendFailed,
)

__all__ = [
    "COLUMN_LAYOUTS", "OPTIMISED", "Accepted", "ColumnBuilder", "ColumnsAhead", "Conditions",
    "Connector", "Event", "FrameTemplate", "GetResult", "HaMaster", "HaSlave", "LinesAhead",
    "Memory", "Pending", "PutResult", "QueryResult", "RangeFailed", "RangeReader",
    "RepairReport", "Report", "Request", "RowWriter", "Scan", "SendCounts", "SendFailed",
    "SentReply", "Server", "ServerStopped", "SettingError", "StateFiles", "Store",
    "StoreDamaged", "StoreError", "StoreLocked", "StorePoisoned", "UnknownLayout", "bench",
    "bloom_bits", "certificate_end", "check_sql", "cut_log", "damaged_records",
    "fastjson_dumps", "fastjson_to_strict", "json_lines", "next_log", "read_registration",
    "rebuild", "set_file_mode", "unpack_registration", "write_topic_table",
]  # fmt: skip

_T = TypeVar("_T")

OPTIMISED: Final[bool]
"""Whether this is an optimised build, not a build of the development profile."""

# --- errors (see mqstore/errors.py)

class StoreError(Exception):
    """A store operation failed; the text says which, with which value, and what to do."""

class StoreLocked(StoreError):
    """Another process has the store open."""

class UnknownLayout(StoreError):
    """The directory is not a store, or has other file sizes or an unknown version."""

class StoreDamaged(StoreError):
    """The log has damage other than a torn tail, and `damagePolicy` is "refuse"."""

class StorePoisoned(StoreError):
    """A write or fsync failed earlier; the store only serves reads until it is reopened."""

class SettingError(ValueError):
    """A setting is unknown, of the wrong type or out of its range."""

# --- the store engine (see mqstore/store.py)

@disjoint_base
class Store:
    """An open store directory; safe from any thread. Users have `mqstore.Store`.

    Every method raises RuntimeError in a process forked after the store was opened.
    """

    def __new__(
        cls, root: str | PathLike[str], settings: dict[str, object], create: bool
    ) -> Self: ...
    def put(
        self,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        flag: int = 0,
        sys_flag: int = 0,
        properties: bytes = ...,
        born_timestamp_ms: int | None = None,
        born_host: str = "127.0.0.1:0",
        store_host: str = "127.0.0.1:10911",
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        wait_store_ok: bool = True,
        delay_level: int = 0,
        batch: bool = False,
        was_accepted: bool = False,
    ) -> PutResult:
        """Append one message, or with `batch` a batch body, and wait until it is durable.

        body, properties: the bytes to store; the properties have no WAIT. Hosts are "ip:port".
        was_accepted: the store moves a message that it already has; `max_message_bytes` does not
        apply.
        Waits until the message is as durable as configured, at most `sync_flush_timeout_ms`.
        A refusal is a status, not an exception. Raises ValueError for a host of another form.
        """
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
        """Read messages of one queue from an offset. Waits for the disk, never for messages.

        tag_codes: Java's hash codes of the wanted tags; None for all. sql: an SQL92 expression
        over properties instead of tags; raises ValueError if it does not compile.
        retried: for a retry topic, the expression of each original topic.
        """
    def get_at(self, physical_offset: int) -> bytes | None:
        """The record that starts at a physical offset, or None."""
    def end_transaction(self, number: int, commits: bool, is_open: bool = False) -> str:
        """End a transaction: "first", "repeated", "contrary" or "unknown".

        number: queue offset of the transaction's first half message. is_open: the caller got
        "unknown" before and has found in the log that the transaction is open.
        """
    def reopen_transaction(self, number: int) -> None:
        """Undo an end that could not be stored."""
    def note_ended(self, number: int) -> None:
        """Record that a transaction has ended."""
    def is_ended(self, number: int) -> bool:
        """Whether a transaction is recorded as ended."""
    def know_transactions_from(self, number: int) -> None:
        """Declare that every ended transaction with this or a higher number is recorded."""
    def query(
        self,
        topic: str,
        key: str,
        max_count: int = 32,
        begin_ms: int = 0,
        end_ms: int = ...,
    ) -> QueryResult:
        """Records stored in a time range whose index key is `topic#key`, newest first."""
    def min_offset(self, topic: str, queue_id: int) -> int:
        """First readable offset of a queue, 0 when unknown."""
    def max_offset(self, topic: str, queue_id: int) -> int:
        """One past the last offset of a queue, 0 when unknown."""
    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The queue offset for a store time, by RocketMQ's rule (`getOffsetInQueueByTime`)."""
    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of the message at a queue offset in milliseconds, -1 if there is none."""
    def entries(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> list[tuple[int, int, int]]:
        """Physical offset, size and tags code of at most `count` entries of a queue."""
    def is_on_disk(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message is so old that RocketMQ treats it as on disk."""
    def store_time_range(self) -> tuple[int, int] | None:
        """Store times of the log's first and last message in milliseconds, or None."""
    def min_physical_offset(self) -> int:
        """Start of the log in bytes."""
    def max_physical_offset(self) -> int:
        """End of the log in bytes."""
    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset of a group in a queue, or None."""
    def commit(
        self, group: str, topic: str, queue_id: int, offset: int, entries_max: int | None = None
    ) -> bool:
        """Commit an offset. It is saved periodically and at close.

        False if the offset is new and `entries_max` offsets exist already.
        """
    def committed_all(self) -> dict[str, dict[int, int]]:
        """Every committed offset: "topic@group" to queue to offset."""
    def committed_of_group(self, group: str) -> dict[str, dict[int, int]]:
        """The committed offsets of a group: topic to queue to offset."""
    def reset_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group to another offset of a queue; the next pull gets it from `take_reset`.

        Until then, commits of the group have no effect, so a late commit does not undo the reset.
        """
    def take_reset(self, group: str, topic: str, queue_id: int) -> GetResult | None:
        """The reply to a group's first pull after a reset; None for every other pull."""
    def clone_offsets(self, from_group: str, to_group: str, topic: str) -> int:
        """Copy a group's offsets in a topic to another group; returns the number of queues."""
    def remove_group(self, group: str, topic: str | None = None) -> int:
        """Delete a group's committed offsets, in one topic or all; returns the number of queues."""
    def remove_offset(self, group: str, topic: str, queue_id: int) -> bool:
        """Delete a group's committed offset in one queue; returns whether there was one."""
    def save_state(self, name: str, text: bytes) -> None:
        """Write `config/{name}` atomically and durably, keeping the previous copy as .bak."""
    @overload
    def load_state(self, name: str, check: None = None) -> bytes | None: ...
    @overload
    def load_state(self, name: str, check: Callable[[bytes], _T]) -> _T | None:
        """Read `config/{name}`, or its .bak when the file is missing or damaged, or None.

        check: gets the bytes and raises an exception if they cannot be used; its result is
        returned. Raises StoreDamaged if files exist and none can be used.
        """
    def is_state_from_copy(self, name: str) -> bool:
        """Whether the last `load_state` of `config/{name}` had to use its .bak."""
    def set_state_aside(self, name: str, entries: list[tuple[str, str, str]]) -> None:
        """Move bad entries, (name, reason, text), to `mqstack/quarantine`, and log them."""
    def queues(self) -> dict[str, list[int]]:
        """Every existing consume queue: topic to queue ids."""
    def failures(self) -> dict[str, tuple[int, str | None]]:
        """Failed threads: number of failures, and the reason if the thread still fails."""
    def runtime(self) -> dict[str, str]:
        """Figures of the store by RocketMQ's runtime keys."""
    def lock_held_ms(self) -> int:
        """Milliseconds for which the put lock has been held, 0 if it is free."""
    def role(self) -> str:
        """What the store does with its log: "master", "slave" or "read_only"."""
    def set_role(self, role: str) -> None:
        """Change the role, or raise StoreError and keep it. Puts are refused meanwhile.

        A slave that becomes master first dispatches its log and reads `delayOffset.json` again.
        """
    def set_replica_wait(
        self,
        in_sync_replicas: int,
        slave_timeout_ms: int = 3_000,
        fall_behind_max_bytes: int = 268_435_456,
    ) -> None:
        """Make later puts wait until so many slaves have them, at most `slave_timeout_ms`.

        0, the default of an open store, waits for none (ASYNC_MASTER). A put gets
        SLAVE_NOT_AVAILABLE at once if fewer slaves are connected or they are
        `fall_behind_max_bytes` behind, and FLUSH_SLAVE_TIMEOUT if they are late.
        """
    def refusal(self) -> str | None:
        """Why the store refuses puts (poisoned, or the disk is full), or None."""
    def set_cleaning(self, settings: dict[str, object]) -> None:
        """Apply the cleaning settings among these (see `Settings.as_dict`), or SettingError."""
    def clean(self) -> tuple[int, int, int]:
        """Delete files older than `reserved_hours` now, without regard to `delete_when`.

        Deletes at most ten files of the log, with pauses, and then queues and index. Returns the
        numbers of deleted files of log, consume queues and index. A reader of a deleted message
        can finish.
        """
    def clean_soon(self) -> None:
        """Let the next 20 runs of the cleaning thread ignore `delete_when`; one starts now."""
    def clean_expired_queues(self) -> tuple[int, int, int]:
        """Delete queue and index entries of deleted messages; returns the numbers of `clean`."""
    def clean_unused_topics(self, topics: set[str]) -> tuple[int, int, int]:
        """Delete the messages of all topics except these and the store's own; returns like `clean`.

        The deletion is durable. If such a topic is created again, its queues continue with their
        offsets.
        """
    def delete_topic(self, topic: str) -> tuple[int, int, int]:
        """Delete the messages of one topic, as `clean_unused_topics` does."""
    def deletions(self) -> str:
        """The topics whose messages were deleted, as JSON for `take_deletions` of a slave."""
    def take_deletions(self, of_master: str) -> tuple[int, int, int]:
        """Delete what a master deleted, durably. of_master: the text of its `deletions`.

        What this log does not have yet is left for a later call. Returns as `clean` does. Raises
        StoreError for a text of another form, or if the deletions cannot be saved.
        """
    def flush(self) -> None:
        """Flush everything that was appended before the call, in the log and derived files."""
    def close(self) -> None:
        """Stop the threads, flush, dispatch to the end, and write offsets and checkpoint."""

@final
class StateFiles:
    """Files that are replaced atomically, see `mqcommon.files.StateFile`."""

    def __new__(cls, directory: str | PathLike[str], own: str | PathLike[str]) -> Self: ...
    def save(self, name: str, content: bytes) -> None:
        """Replace a file, durably, keeping the previous copy as .bak."""
    def load(self, name: str, check: Callable[[bytes], _T]) -> _T | None:
        """The result of `check` for a file or its previous copy; None if there is no file."""
    def set_aside(self, name: str, entries: list[tuple[str, str, str]]) -> None:
        """Save entries, (name, reason, text), that cannot be used."""

def bloom_bits(
    group: str, topic: str, error_percent: int, group_count: int
) -> tuple[int, list[int]]:
    """Size of RocketMQ's bloom filter in bits, and the bits of a group's filter for a topic."""

def set_file_mode(mode: int) -> None:
    """Set the permission bits of new store files of this process."""

def check_sql(text: str) -> None:
    """Compile an SQL92 expression. Raises ValueError with the reason if it is wrong."""

# --- logging (see mqcommon/core_logs.py)

def next_log(timeout: float) -> tuple[int, str, str] | None:
    """Wait up to `timeout` seconds for a log line of the core; None on timeout.

    Returns level (as in `logging`), Rust module and text. Releases the GIL.
    """

# --- fastjson (see mqcommon/fastjson.py)

def damaged_records(body: bytes) -> list[tuple[int, int, str]]:
    """The damaged records of a reply: start, size in bytes and reason of each.

    If the size of a record is damaged, the record extends to the end of the reply.
    """

def fastjson_to_strict(text: str) -> str:
    """Rewrite fastjson's dialect as strict JSON. Raises ValueError for bad text. Holds the GIL."""

def fastjson_dumps(value: object, pretty: bool, raw_key: type[str]) -> str:
    """Write `value` as fastjson does; see `mqcommon.fastjson.dumps`. Holds the GIL."""

# --- registrations (see mqcommon/wire/bodies/registration.py)

def read_registration(
    body: bytes, compressed: bool = False
) -> tuple[dict[str, tuple[int, int, int, int]], int, int, list[str]] | None:
    """Decode a registration: topics with their rows, counter, timestamp, filter servers.

    Raises ValueError for a compressed body that cannot be decompressed or gets too large.
    Releases the GIL while it decodes.
    """

def unpack_registration(body: bytes) -> bytes:
    """Decompress a registration. Raises and releases the GIL as `read_registration` does."""

def write_topic_table(table: dict[str, Any]) -> str:
    """Write a table of `TopicConfig` as fastjson does. Holds the GIL."""

# --- the client engine (see mqclient/engine/transport.py)

@final
class Connector:
    """Keeps one connection per address, on its own threads. Raises RuntimeError in a forked child.

    When a byte arrives at the other end of `wake_fd`, call `drain` for the outcomes.
    settings, all optional:
    - connect_timeout and idle_timeout in seconds;
    - max_frame_bytes, in_flight_max and outbound_limit_bytes, for each connection;
    - access_key, secret_key and security_token;
    - tls: None for plain connections, or a mapping of verify ("full", "ca" to ignore the host's
      name, or "none"), trust (PEM file of authorities; None for the system's), cert and key (PEM
      files of the client), key_password.

    Raises ValueError for a file that cannot be used.
    """

    def __new__(cls, wake_fd: int, settings: dict[str, Any]) -> Self: ...
    def submit(self, requests: list[tuple[Any, ...]]) -> None:
        """Encode and send requests from any thread, without waiting; chooses their opaques.

        Each is (address, future, timeout, oneway, code, fields, body, flag, remark, language,
        version, serialize). The timeout is in seconds and includes the time to connect. Each future
        gets one outcome. Consecutive requests to one address share a system call.
        """
    def request(
        self,
        template: FrameTemplate,
        values: _Values,
        body: bytes,
        timeout: float,
        future: object,
        oneway: bool,
        flush_comes: bool,
    ) -> bool:
        """Encode a request that `flush` sends. `drain` returns the future with the reply.

        flush_comes: whether the caller will flush soon. Returns True if it should flush now: 64 KiB
        are collected, or no other future is pending and no flush comes. Raises ValueError or
        TypeError for values that do not fit the open fields; then nothing is sent.
        """
    def post(
        self,
        template: FrameTemplate,
        values: _Values,
        body: bytes,
        timeout: float,
        pending: Pending,
        oneway: bool,
    ) -> None:
        """Encode a request, from any thread; sent at once if no other `Pending` is under way.

        Else it leaves with the next replies, or with 64 KiB, or within a millisecond. `drain`
        settles it. Raises as `request`, and RuntimeError after `close`.
        """
    def flush(self) -> None:
        """Send the collected requests with one system call per address."""
    def call(
        self, template: FrameTemplate, values: _Values, body: bytes, timeout: float
    ) -> tuple[int, Any]:
        """Send a request at once and wait for its outcome, with the GIL released.

        Returns kind and payload as in `drain`. On the main thread, Ctrl-C ends the wait within
        50 ms.
        """
    def drain(
        self,
    ) -> tuple[
        list[Any],
        list[Any],
        list[tuple[int, Any, Any | None, Any | None]],
    ]:
        """Take all outcomes: futures of templates' requests, their replies, and other events.

        A template decodes its replies; a one-way request that was written has the reply None. An
        event is (kind, payload, future, address). The payload of each kind is:
        - 0, a reply: the arguments of `mqcommon.wire.Frame`.
        - 1, no reply: (category, text); the category is "unreachable", "timeout", "busy",
          "bad_frame" or "closed".
        - 3, a server's request, without a future: (address, arguments of Frame). At most 64 MiB
          of them are kept between two calls.
        - 4, a closed connection, without a future: its address.
        - 5, only from `call`: a template's reply.
        - 6, servers' requests that were dropped since the last call, without a future: (number,
          bytes).
        """
    def reply(self, address: str, frame: bytes) -> None:
        """Send a reply to a server's request; drop it if the connection is closed."""
    def renew_tls(self, tls: Mapping[str, Any]) -> None:
        """Read the files of a "tls" setting again, for new connections.

        Raises ValueError for a file that cannot be used; then nothing changes.
        """
    def close(self, timeout: float) -> None:
        """Fail all pending requests, close, and wait up to `timeout` seconds for the threads."""

_Values = tuple[str | int | None, ...]  # open fields of a template; None omits a field

@final
class FrameTemplate:
    """The shared part of requests with one code to one address.

    fields: (name, value) in wire order; each request gives the fields with value None.
    serialize: 0 for JSON, 1 for ROCKETMQ.
    reply: how replies are decoded. "sent" gives a SentReply if the message was stored. "pulled"
    gives (code, next, minimum and maximum offset, suggested broker id, body) for the codes 0 and
    19 to 21. Other replies, and all replies with "frame", are like those of kind 0 of `drain`.

    Raises ValueError for a bad argument.
    """

    def __new__(
        cls,
        address: str,
        code: int,
        fields: list[tuple[str, str | None]],
        serialize: int,
        reply: str,
    ) -> Self: ...
    @property
    def address(self) -> str:
        """Address of the server, "host:port"."""

# --- the server (see mqserver/runtime/listener.py)

_Queue = tuple[str, str, int]  # topic, broker name, queue id
_Traffic = tuple[str, str, str, int, list[int]]

class ServerStopped(Exception):
    """The server was stopped and hands out no more requests."""

@final
class Server:
    """A broker's or a NameServer's sockets. Raises RuntimeError in a forked child.

    settings: kind ("broker" or "namesrv") and port (0 for a free one). Optional are:
    - host, fast_port, worker_threads, max_connections, data_plane ("native" or "python");
    - max_frame_bytes; max_unfinished_bytes of all connections, at least twice max_frame_bytes;
      max_reply_bytes of unread replies of all clients, at least max_frame_bytes: above it, large
      replies are refused; max_handoff_bytes of requests in Python's hands, at least twice
      max_frame_bytes: above it, requests are refused;
    - idle_timeout in seconds;
    - families (name to queue capacity), routes (code to family), default_family (of the other
      codes; None leaves them unanswered);
    - tls, a mapping: mode ("disabled", "permissive" or "enforcing"); cert, key and key_password
      (self-signed if absent); client_auth ("none", "optional" or "require"); trust (None accepts
      any certificate); handshake_timeout in seconds.

    Raises ValueError for a bad setting.
    """

    def __new__(cls, settings: Mapping[str, object], store: Store | None = None) -> Self: ...
    def start(self, accept: bool = True) -> tuple[int, int | None]:
        """Bind and serve the main and the fast port; returns both ports. Raises OSError.

        accept: False leaves connections in the kernel's queue until `accept`.
        """
    def accept(self) -> None:
        """Accept waiting connections and all later ones."""
    def next(self, family: str, timeout: float) -> Request | Event | None:
        """Wait up to `timeout` seconds for a request of `family`, with the GIL released.

        Returns None on timeout, and an Event for the family "events". Raises ServerStopped after
        `stop`. On the main thread, Ctrl-C ends the wait within 50 ms.
        """
    def publish(
        self, table: str, version: int, rows: Mapping[str, object | None], replace: bool = False
    ) -> None:
        """Apply changes of a table atomically; None deletes a row, `replace` deletes all others.

        Raises ValueError unless the version is larger than the table's last one. Rows by table:
        - "broker": "" to a mapping.
        - "topics": topic to (perm, read_queues, write_queues, multi_tag, order).
        - "groups": group to (consume_enable, consume_broadcast_enable, retry_max_times,
          retry_queues, broker_id, slow_broker_id).
        - "subscriptions": group to (broadcasting, {topic: (expression_type, sub_string,
          sub_version, [codes])}).
        - "filters": topic to (bits, [(expression, [bit])]).
        - "answers": "105|std|TOPIC" or "38|GROUP" to a body.
        - "acl": "" to the rules of access control.
        - "tls": "" to the setting "tls". New connections use its files; raises ValueError if they
          cannot be used.
        - "heartbeats": connection to None. Its next heartbeat goes to Python; with `replace`, the
          next heartbeat of every connection.
        """
    def send(self, connection: int, frame: bytes) -> bool:
        """Send a one-way request to a client without waiting; False if the client is gone."""
    def ask(self, connection: int, frame: bytes) -> int:
        """Send a request to a client without waiting; return its new opaque.

        Raises ConnectionError, or BlockingIOError if the client takes or answers nothing.
        """
    def next_client_reply(self, timeout: float) -> tuple[int, int, bytes | None] | None:
        """Wait for the next reply of any client: connection, opaque, frame; raises ServerStopped.

        The frame is None if the connection closed or the reply is too large. None after `timeout`
        seconds or `wake_client_replies`.
        """
    def wake_client_replies(self) -> None:
        """Let `next_client_reply` return None; if nobody waits in it, its next call."""
    def forget_client_reply(self, connection: int, opaque: int) -> None:
        """Drop this reply if it arrives later."""
    def connections(self) -> list[tuple[int, str, float]]:
        """Open connections: number, "ip:port", seconds since the last byte arrived."""
    def is_open(self, connection: int) -> bool:
        """Whether a connection is open."""
    def close_connection(self, connection: int) -> None:
        """Close a connection."""
    def silent(self, connections: Sequence[int], seconds: float) -> list[int]:
        """The connections among these whose last native heartbeat is older than `seconds`."""
    def lock_batch(
        self, group: str, client: tuple[str, str], queues: Sequence[_Queue]
    ) -> tuple[list[_Queue], str | None]:
        """Lock queues for a client (id and IP address); returns the queues that it holds, and a
        remark."""
    def unlock_batch(self, group: str, client_id: str, queues: Sequence[_Queue]) -> None:
        """Unlock these queues, if the client holds them."""
    def counters(self) -> dict[str, int]:
        """Counts since the start, and the work that waits now.

        Counts have names like "native.310", "python.34", "bytes_in" and "replies_lost". Waiting
        work has "waiting.FAMILY", "head_wait_ms.FAMILY", "connections", "held",
        "unfinished_bytes", "pending_acks": replies that wait until their messages are durable, and
        "parked": requests that wait until their client has taken the replies to earlier ones.
        """
    def failures(self) -> dict[str, tuple[int, str | None]]:
        """Failed threads and tasks: number of failures, and the reason if it still fails."""
    def take_traffic(self) -> list[_Traffic]:
        """The traffic that was served natively since the last call.

        A row is kind ("put", "get" or "delivery"), topic, group ("" unless the kind is "get"),
        queue (-1 for any), and the list of requests, messages, bytes, milliseconds of waiting for
        the disk, and bytes of the log after the last message read. Several rows may have the same
        key.
        """
    def set_overload(self, busy_ms: int, patience_ms: Mapping[str, int] | None) -> None:
        """Limit waiting; requests beyond the limits get code 2.

        busy_ms: a send is refused if the put lock has been held for longer. patience_ms: the
        longest wait of a request by family; None for no limits. Raises ValueError for an unknown
        family.
        """
    def take_denials(self) -> tuple[int, tuple[str, str] | None]:
        """Number of requests that access control refused since the last call, and the newest of
        them: (address, reason)."""
    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections continue."""
    def release_holds(self) -> None:
        """Answer every held pull, and hold no more."""
    def stop(self, timeout: float) -> None:
        """Stop reading, wait up to `timeout` seconds for replies, and close all connections.

        Releases the GIL.
        """

@final
class Request:
    """A request that Python answers, exactly once: the second answer raises RuntimeError.

    A request that is dropped without an answer gets code 1.
    """

    code: Final[int]
    opaque: Final[int]
    flag: Final[int]
    version: Final[int]
    language: Final[int]
    remark: Final[str | None]
    serialize: Final[int]
    """0 JSON, 1 ROCKETMQ."""
    fields: Final[dict[str, str]]
    """Header fields, decoded on first access; empty if there are none."""
    body: Final[bytes]
    """A new copy of the body at each access."""
    connection: Final[int]
    remote: Final[str]
    """The client's "ip:port"."""
    oneway: Final[bool]
    fast_port: Final[bool]
    attempt: Final[int]
    """0 at first, 1 after `again` or a hold."""
    def respond(
        self,
        code: int,
        remark: str | None = None,
        fields: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> None:
        """Answer in the request's serialisation. Writes nothing if the request is one-way."""
    def fail(self, remark: str) -> None:
        """Answer with code 1, always in JSON, as RocketMQ does for an exception."""
    def no_reply(self) -> None:
        """End the request without a reply."""
    def hold(
        self, topic: str, queue_id: int, offset: int, timeout: float, tag_codes: list[int] | None
    ) -> None:
        """Hold the request until a message arrives at `offset` or later, at most `timeout` seconds.

        tag_codes: only a message with one of these tags counts; None for every message. The
        request then comes to its family again, with attempt 1.
        """
    def again(self) -> None:
        """Route the same frame again. The second call for a frame answers code 1."""

@final
class Event:
    """The end of a connection."""

    kind: Final[str]
    """ "closed", "idle", "bad_frame", "unread" (the client does not read) or "refused"."""
    connection: Final[int]
    remote: Final[str]
    detail: Final[str]

def certificate_end(path: str | PathLike[str]) -> int:
    """When the first certificate of a PEM file expires, in seconds since 1970.

    Raises ValueError for a file without a certificate.
    """

# --- the load generator (see mqclient/cli/bench.py)

def bench(kind: str, settings: str) -> str:
    """Run a "produce", "consume", "latency" or "connect" load. Settings and report are JSON."""
