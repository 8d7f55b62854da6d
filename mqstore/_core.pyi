"""Types of the compiled Rust core. Every function that waits releases the GIL."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Self, TypeVar, final, overload

from typing_extensions import disjoint_base

from mqstore._core_offline import (
    COLUMN_LAYOUTS as COLUMN_LAYOUTS,
)
from mqstore._core_offline import (
    ColumnBuilder as ColumnBuilder,
)
from mqstore._core_offline import (
    ColumnsAhead as ColumnsAhead,
)
from mqstore._core_offline import (
    LinesAhead as LinesAhead,
)
from mqstore._core_offline import (
    Memory as Memory,
)
from mqstore._core_offline import (
    RepairReport as RepairReport,
)
from mqstore._core_offline import (
    Report as Report,
)
from mqstore._core_offline import (
    Scan as Scan,
)
from mqstore._core_offline import (
    json_lines as json_lines,
)
from mqstore._core_offline import (
    rebuild as rebuild,
)

__all__ = [
    "COLUMN_LAYOUTS", "OPTIMISED", "ColumnBuilder", "ColumnsAhead", "Connector", "Event",
    "FrameTemplate", "GetResult", "LinesAhead", "Memory", "PutResult", "QueryResult",
    "RepairReport", "Report", "Request", "Scan", "SentReply", "Server", "ServerStopped",
    "SettingError", "StateFiles", "Store", "StoreDamaged", "StoreError", "StoreLocked",
    "StorePoisoned", "UnknownLayout", "bench", "bloom_bits", "certificate_end", "check_sql",
    "damaged_records", "fastjson_dumps", "fastjson_to_strict", "json_lines", "next_log",
    "read_registration", "rebuild", "set_file_mode", "unpack_registration", "write_topic_table",
]  # fmt: skip

_T = TypeVar("_T")

OPTIMISED: Final[bool]
"""Whether this is an optimised build; builds of the development profile are not."""

# --- errors (see mqstore/errors.py)

class StoreError(Exception):
    """A store operation failed; the text says which, with which value, and what to do."""

class StoreLocked(StoreError):
    """Another process has the store open."""

class UnknownLayout(StoreError):
    """The directory is no store, or has other file sizes or an unknown version."""

class StoreDamaged(StoreError):
    """Damage other than a torn tail, and `damagePolicy` is to refuse."""

class StorePoisoned(StoreError):
    """A write or fsync failed earlier; the store only serves reads until it is reopened."""

class SettingError(ValueError):
    """A setting is unknown, of the wrong type or out of its range."""

# --- the store engine (see mqstore/store.py)

@final
class PutResult:
    """Position of a stored message or batch."""

    @property
    def status(self) -> str:
        """RocketMQ's name of the outcome, "PUT_OK" for success."""
    @property
    def physical_offset(self) -> int:
        """Start of the first record, bytes from the start of the log; -1 if refused."""
    @property
    def size_bytes(self) -> int:
        """Bytes of all records together."""
    @property
    def queue_offset(self) -> int:
        """Queue offset of the first record."""
    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored, milliseconds since the epoch."""
    @property
    def record_offsets(self) -> list[int]:
        """Physical offset of each record; one for a single message."""

@final
class GetResult:
    """Result of a read of a queue."""

    @property
    def status(self) -> str:
        """RocketMQ's GetMessageStatus, "FOUND" when there are messages."""
    @property
    def next_begin_offset(self) -> int:
        """Where the next read should begin."""
    @property
    def min_offset(self) -> int:
        """First readable offset of the queue."""
    @property
    def max_offset(self) -> int:
        """One past the last offset of the queue."""
    @property
    def message_count(self) -> int:
        """Messages in `body`."""
    @property
    def suggest_slave(self) -> bool:
        """Whether a slave should serve the reader, because it lags far behind."""
    @property
    def behind_bytes(self) -> int:
        """Bytes of the log after the last message that the read looked at; 0 without one."""
    @property
    def body(self) -> bytes:
        """Whole records one after another; see `decode_messages`."""

@final
class QueryResult:
    """Result of a query by key."""

    @property
    def message_count(self) -> int:
        """Messages in `body`."""
    @property
    def index_last_update_timestamp_ms(self) -> int:
        """End timestamp of the newest index file, milliseconds since the epoch."""
    @property
    def index_last_update_physical_offset(self) -> int:
        """End physical offset of the newest index file."""
    @property
    def body(self) -> bytes:
        """Whole records one after another; see `decode_messages`."""

@disjoint_base
class Store:
    """An open store directory; safe from any thread. `mqstore.Store` is the documented face.

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
    ) -> PutResult:
        """Append one message, or with `batch` a batch body, and wait until it is durable.

        body: as stored. properties: stored text, WAIT already stripped. Hosts are "ip:port".
        Blocks until the message is as durable as configured, at most `sync_flush_timeout_ms`.
        A refusal is a status, not an exception; ValueError for a host that is no ip:port.
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
        """Read messages of one queue from an offset; waits for the disk, never for messages.

        tag_codes: Java string hashes of the wanted tags, None for all. sql: an SQL92 expression
        over properties instead of tags; ValueError if it does not compile.
        retried: for a retry topic, the expression of each original topic.
        """
    def get_at(self, physical_offset: int) -> bytes | None:
        """The record that starts at a physical offset, or None."""
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
        """RocketMQ's offset of a queue by store time."""
    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of the message at a queue offset in milliseconds, -1 if there is none."""
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
        """Commit an offset; persisted on the interval and at close.

        False if the offset is new and `entries_max` offsets exist already.
        """
    def committed_all(self) -> dict[str, dict[int, int]]:
        """Every committed offset: "topic@group" to queue to offset."""
    def committed_of_group(self, group: str) -> dict[str, dict[int, int]]:
        """The committed offsets of a group: topic to queue to offset."""
    def reset_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group to another offset of a queue; `take_reset` gives it to the next pull.

        Commits of the group until then have no effect: a late commit does not undo the reset.
        """
    def take_reset(self, group: str, topic: str, queue_id: int) -> GetResult | None:
        """The answer to a group's next pull after a reset, once; else None."""
    def clone_offsets(self, from_group: str, to_group: str, topic: str) -> int:
        """Copy a group's offsets in a topic to another group; returns the number of queues."""
    def remove_group(self, group: str, topic: str | None = None) -> int:
        """Delete a group's committed offsets, in one topic or all; returns the number of queues."""
    def save_state(self, name: str, text: bytes) -> None:
        """Write `config/{name}` atomically and durably, keeping the previous copy as .bak."""
    @overload
    def load_state(self, name: str, check: None = None) -> bytes | None: ...
    @overload
    def load_state(self, name: str, check: Callable[[bytes], _T]) -> _T | None:
        """Read `config/{name}`, or its .bak when the file is missing or damaged, or None.

        check: called with the bytes; raises if they cannot be used; its result is
        returned. Raises StoreDamaged if files exist and none can be used.
        """
    def set_state_aside(self, name: str, entries: list[tuple[str, str, str]]) -> None:
        """Save entries of a state file, (name, reason, text), in `mqstack/quarantine`; log them."""
    def queues(self) -> dict[str, list[int]]:
        """Every existing consume queue: topic to queue ids."""
    def failures(self) -> dict[str, tuple[int, str | None]]:
        """Threads that have failed: how many times, and why if they still do."""
    def runtime(self) -> dict[str, str]:
        """Figures of the store by RocketMQ's runtime keys."""
    def lock_held_ms(self) -> int:
        """Milliseconds for which the put lock has been held, 0 if it is free."""
    def refusal(self) -> str | None:
        """Why the store refuses puts (poisoned, or the disk is full), or None."""
    def set_cleaning(self, settings: dict[str, object]) -> None:
        """Apply the cleaning settings among these (see `Settings.as_dict`), or SettingError."""
    def clean(self) -> tuple[int, int, int]:
        """Delete files older than `reserved_hours` now, whatever `delete_when` says.

        At most ten files of the log, with pauses between them; queues and index follow. Returns
        the numbers of deleted files of log, consume queues and index. Messages still being
        read stay readable to their end.
        """
    def clean_soon(self) -> None:
        """Let the next 20 runs of the cleaning thread ignore `delete_when`; one starts now."""
    def clean_expired_queues(self) -> tuple[int, int, int]:
        """Delete queue and index entries of deleted messages; returns numbers like `clean`."""
    def clean_unused_topics(self, topics: set[str]) -> tuple[int, int, int]:
        """Empty the queues of all topics except these and the store's own; returns as `clean`.

        If such a topic is created again, its queues continue with their offsets.
        """
    def flush(self) -> None:
        """Flush everything appended so far, log and derived files."""
    def close(self) -> None:
        """Stop the threads, flush, dispatch to the end, write offsets and checkpoint."""

@final
class StateFiles:
    """Files that are replaced atomically, see `mqstore.files.StateFile`."""

    def __new__(cls, directory: str | PathLike[str], own: str | PathLike[str]) -> Self: ...
    def save(self, name: str, content: bytes) -> None:
        """Replace a file, durably, keeping the previous copy as .bak."""
    def load(self, name: str, check: Callable[[bytes], _T]) -> _T | None:
        """The result of `check` for a file or its previous copy; None without a file."""
    def set_aside(self, name: str, entries: list[tuple[str, str, str]]) -> None:
        """Save entries that cannot be used, (name, reason, text)."""

def bloom_bits(
    group: str, topic: str, error_percent: int, group_count: int
) -> tuple[int, list[int]]:
    """Bits of RocketMQ's bloom filter, and those that a group's filter for a topic sets."""

def set_file_mode(mode: int) -> None:
    """Set the permission bits of new store files of this process."""

def check_sql(text: str) -> None:
    """Compile an SQL92 expression; ValueError says what is wrong with it."""

# --- logging (see mqstore/logs.py)

def next_log(timeout: float) -> tuple[int, str, str] | None:
    """Wait up to `timeout` seconds for a log line of the core: level as in `logging`, Rust
    module, text. None on timeout. Releases the GIL."""

# --- fastjson (see mqstore/fastjson.py)

def damaged_records(body: bytes) -> list[tuple[int, int, str]]:
    """The damaged records of a reply: start, bytes and reason of each.

    A record whose size is damaged includes the rest of the reply.
    """

def fastjson_to_strict(text: str) -> str:
    """Rewrite fastjson's dialect as strict JSON. ValueError on bad text. Holds the GIL."""

def fastjson_dumps(value: object, pretty: bool, raw_key: type[str]) -> str:
    """Write `value` as fastjson does; see `mqstore.fastjson.dumps`. Holds the GIL."""

# --- registrations (see mqclient/wire/bodies/registration.py)

def read_registration(
    body: bytes, compressed: bool = False
) -> tuple[dict[str, tuple[int, int, int, int]], int, int, list[str]] | None:
    """Topics and rows, counter, timestamp, filter servers. Releases the GIL while it reads.

    ValueError for a compressed body that cannot be unpacked or grows too big.
    """

def unpack_registration(body: bytes) -> bytes:
    """The stream in a compressed registration; ValueError as above. Releases the GIL."""

def write_topic_table(table: dict[str, Any]) -> str:
    """Write a table of `TopicConfig` as fastjson does. Holds the GIL."""

# --- the client engine (see mqclient/transport.py)

@final
class Connector:
    """One connection per address, with threads of its own. RuntimeError in a forked child.

    Outcomes are fetched with `drain` after a byte arrives on the other end of `wake_fd`.
    settings (all optional): connect_timeout, idle_timeout (seconds), max_frame_bytes,
    in_flight_max, outbound_limit_bytes (a connection); access_key, secret_key, security_token;
    tls: None for plain connections, else a mapping of verify ("full", "ca" without the name,
    "none"), trust (PEM file of authorities, None: the system's), cert and key (PEM files to show),
    key_password. ValueError for a file that cannot be used.
    """

    def __new__(cls, wake_fd: int, settings: dict[str, Any]) -> Self: ...
    def submit(self, requests: list[tuple[Any, ...]]) -> None:
        """Encode and send requests from any thread, without waiting; chooses their opaques.

        Each is (address, future, timeout, oneway, code, fields, body, flag, remark, language,
        version, serialize); timeout in seconds to the reply, connecting included. Each future
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
    ) -> bool:
        """Encode a request, to be sent by `flush`. `drain` gives the future back.

        True if the flush should not wait: no other future is pending, or 64 KiB are collected.
        ValueError or TypeError for values that are not open fields; then nothing is sent.
        """
    def flush(self) -> None:
        """Send the collected requests, with one system call for each address."""
    def call(
        self, template: FrameTemplate, values: _Values, body: bytes, timeout: float
    ) -> tuple[int, Any]:
        """Send a request at once and block, GIL released; kind and payload as `drain` has them.

        On the main thread Ctrl-C ends the wait within 50 ms.
        """
    def drain(
        self,
    ) -> tuple[list[Any], list[Any], list[tuple[int, Any, Any | None, Any | None]]]:
        """Take all outcomes: futures of templates' requests, their replies, and other events.

        A template reads its replies. Other events are (kind, payload, future, address); kind
        0: reply, the arguments of `mqclient.wire.Frame`. 1: no reply, (category, text) with
        category "unreachable", "timeout", "busy", "bad_frame" or "closed". 2: one-way request
        written, None. 3: a server's request, (address, arguments of Frame). 4: connection
        closed, its address. The last two have no future. 5, of `call` only: a template's reply.
        """
    def reply(self, address: str, frame: bytes) -> None:
        """Send a reply to a server's request; dropped if the connection is gone."""
    def renew_tls(self, tls: Mapping[str, Any]) -> None:
        """Read the files of a "tls" setting; new connections are made with them.

        ValueError for a file that cannot be used; then nothing changes.
        """
    def close(self, timeout: float) -> None:
        """Fail all pending requests, close, wait up to `timeout` seconds for the threads."""

_Values = tuple[str | int | None, ...]  # open fields of a template; None omits a field

@final
class FrameTemplate:
    """The shared part of requests with one code to one address.

    fields: (name, value) in wire order; value None is given with each request. serialize: 0 JSON,
    1 ROCKETMQ. reply: "sent", a SentReply if the message was stored; "pulled", (code, next,
    minimum and maximum offset, suggested broker id, body) for the codes 0 and 19 to 21; other
    answers, and all if it is "frame", are those of kind 0. ValueError for a bad argument.
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

@final
class SentReply:
    """A broker's answer to a send that it stored; see mqclient.results.Stored."""

    code: Final[int]
    offset_msg_id: Final[str]
    queue_id: Final[int]
    queue_offset: Final[int]
    transaction_id: Final[str | None]
    region_id: Final[str | None]
    trace_on: Final[bool]

# --- the server (see mqserver/listener.py)

_Queue = tuple[str, str, int]  # topic, broker name, queue id
_Traffic = tuple[str, str, str, int, list[int]]

class ServerStopped(Exception):
    """The server was stopped: no more requests will come."""

@final
class Server:
    """A broker's or a NameServer's sockets. RuntimeError in a forked child.

    settings: kind ("broker" or "namesrv"), port (0 = a free one); optional: host, fast_port,
    worker_threads, data_plane ("native" or "python"), max_frame_bytes, max_unfinished_bytes (of
    all connections, at least twice max_frame_bytes), idle_timeout (seconds), max_connections,
    families (name to queue capacity), routes (code to family), default_family (None leaves other
    codes unanswered), tls (a mapping: mode "disabled", "permissive" or "enforcing"; cert, key and
    key_password, self-signed without; client_auth "none", "optional" or "require", trust, None to
    take any; handshake_timeout in seconds). ValueError for a bad one.
    """

    def __new__(cls, settings: Mapping[str, object], store: Store | None = None) -> Self: ...
    def start(self, accept: bool = True) -> tuple[int, int | None]:
        """Bind and serve the main port and the fast port. Raises OSError.

        accept: False leaves connections in the kernel's queue until `accept`.
        """
    def accept(self) -> None:
        """Accept waiting connections and all later ones."""
    def next(self, family: str, timeout: float) -> Request | Event | None:
        """Wait up to `timeout` seconds, GIL released, for a request of `family`.

        None on timeout; ServerStopped after `stop`. Family "events" gives an Event instead. On
        the main thread Ctrl-C ends the wait within 50 ms.
        """
    def publish(
        self, table: str, version: int, rows: Mapping[str, object | None], replace: bool = False
    ) -> None:
        """Apply changes of a table atomically; None deletes a row, `replace` deletes all others.

        ValueError unless versions rise per table. Tables and rows: "broker" ("" to a mapping),
        "topics" (perm, read_queues, write_queues, multi_tag, order), "groups" (consume_enable,
        consume_broadcast_enable, retry_max_times, retry_queues, broker_id, slow_broker_id),
        "subscriptions" (broadcasting, {topic: (expression_type,
        sub_string, sub_version, [codes])}), "filters" (topic to bits, [(expression, [bit])]),
        "answers" ("105|std|TOPIC" or "38|GROUP" to a body), "acl" (""), "tls" ("" to the setting
        of that name: read again for new connections, ValueError if the files cannot be used);
        "heartbeats" (connections to None: whose next one is handed off; with `replace` all).
        """
    def send(self, connection: int, frame: bytes) -> bool:
        """Send a one-way request to a client, without waiting; False if it is gone."""
    def call(self, connection: int, frame: bytes, timeout: float) -> bytes:
        """Send a request to a client and wait, GIL released, for its reply frame.

        The frame's opaque is replaced. ConnectionError, TimeoutError.
        """
    def connections(self) -> list[tuple[int, str, float]]: ...
    def is_open(self, connection: int) -> bool: ...
    def close_connection(self, connection: int) -> None: ...
    def silent(self, connections: Sequence[int], seconds: float) -> list[int]:
        """The connections among these whose last native heartbeat is older than this."""
    def lock_batch(
        self, group: str, client_id: str, queues: Sequence[_Queue]
    ) -> tuple[list[_Queue], str | None]: ...
    def unlock_batch(self, group: str, client_id: str, queues: Sequence[_Queue]) -> None: ...
    def counters(self) -> dict[str, int]:
        """Counts since the start ("native.310", "python.34", "bytes_in"...), and waiting work
        ("waiting.FAMILY", "head_wait_ms.FAMILY", "connections", "held", "parked": until their
        client has taken the answers to earlier ones, "unfinished_bytes")."""
    def failures(self) -> dict[str, tuple[int, str | None]]:
        """Threads and tasks that have failed: how many times, and why if they still do."""
    def take_traffic(self) -> list[_Traffic]:
        """Served natively since the last call: "put", "get" or "delivery", topic, group ("" unless
        a get), queue (-1: any); requests, messages, bytes, ms spent waiting for the disk, bytes of
        the log after the last message read. A row may appear several times."""
    def set_overload(self, busy_ms: int, patience_ms: Mapping[str, int] | None) -> None:
        """Answer 2 to sends while the log's lock is held for longer, and to requests that wait for
        longer than their family may (None: no limits). ValueError: no such family."""
    def take_denials(self) -> tuple[int, tuple[str, str] | None]: ...
    def stop_accepting(self) -> None: ...
    def release_holds(self) -> None: ...
    def stop(self, timeout: float) -> None:
        """Stop reading, wait up to `timeout` seconds, GIL released, for answers, close all."""

@final
class Request:
    """One frame for Python; answer it exactly once, else RuntimeError. If dropped, it answers 1."""

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
    """0; 1 after `again` or a hold."""
    def respond(
        self,
        code: int,
        remark: str | None = None,
        fields: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> None:
        """Answer in the request's serialisation; nothing is written if it was one-way."""
    def fail(self, remark: str) -> None:
        """Answer 1, always in JSON, as RocketMQ does for an exception."""
    def no_reply(self) -> None: ...
    def hold(
        self, topic: str, queue_id: int, offset: int, timeout: float, tag_codes: list[int] | None
    ) -> None:
        """Hold until a message with one of the tags (None: any) arrives at `offset` or above, or
        for `timeout` seconds; then the family gets it again, with attempt 1."""
    def again(self) -> None:
        """Route the same frame again, once; a second time answers 1."""

@final
class Event:
    """The end of a connection."""

    kind: Final[str]
    """ "closed", "idle", "bad_frame", "unread" (its client does not read) or "refused"."""
    connection: Final[int]
    remote: Final[str]
    detail: Final[str]

def certificate_end(path: str | PathLike[str]) -> int:
    """Expiry of the first certificate of a PEM file, seconds since 1970.

    ValueError for a file without a certificate.
    """

# --- the load generator (see mqclient/cli/bench.py)

def bench(kind: str, settings: str) -> str:
    """Run a "produce", "consume", "latency" or "connect" load, settings and report in JSON."""
