"""Turns bytes on the wire and on disk into Python objects (compiled; see csrc/)."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Generic, Never, final

from typing_extensions import TypeVar

__all__ = [
    "BODY_BYTES_MAX",
    "DecodeError",
    "Outgoing",
    "ReceivedMessage",
    "UniqueIds",
    "any_has_flags",
    "decode_messages",
    "decode_properties",
    "decompress_body",
    "encode_batch",
    "encode_properties",
    "set_consume_start",
    "set_reader",
]

_V_co = TypeVar("_V_co", covariant=True, default=Any)

BODY_BYTES_MAX: Final[int]
"""Largest decompressed body: 64 MiB."""

class DecodeError(ValueError):
    """Bytes that should be a stored message are not; the text says where and why."""

@final
class ReceivedMessage(Generic[_V_co]):
    """A message as stored: RocketMQ's MessageExt, decoded lazily.

    `ReceivedMessage[Order]` is one whose `value` is an Order.

    Numbers are read at once. Topic, properties and body are decoded on first access and then
    kept; until then the object keeps its whole buffer alive. `detach()` and
    pickle copy the record out of it. `topic` and `reconsume_times` may be assigned, and
    `properties` is an ordinary dict that belongs to the message.
    """

    broker_name: str
    """Name of the broker it was read from, "" when read from disk."""
    transaction_id: str | None
    """Set by the client on transactional messages, else None."""
    reconsume_times: int
    """Number of failed deliveries."""

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        """Messages are made by decode_messages()."""
    @property
    def topic(self) -> str:
        """Name of the topic."""
    @topic.setter
    def topic(self, value: str) -> None: ...
    @property
    def queue_id(self) -> int:
        """Queue of the topic."""
    @property
    def queue_offset(self) -> int:
        """Position in the queue, in messages."""
    @property
    def commit_log_offset(self) -> int:
        """Physical offset: bytes from the start of the log."""
    @property
    def store_size(self) -> int:
        """Bytes of the whole record."""
    @property
    def body(self) -> bytes:
        """The body as sent, decompressed; DecodeError if that fails."""
    @property
    def value(self) -> _V_co:
        """The body as the consumer's deserializer reads it, once; the body itself without one.

        Raises UnreadableBodyError, which has this message.
        """
    @property
    def stored_body(self) -> bytes:
        """The body as stored, possibly compressed; `body_crc` covers these bytes."""
    @property
    def body_crc(self) -> int:
        """CRC-32 of the stored body, with the top bit cleared."""
    @property
    def properties(self) -> dict[str, str]:
        """Every property by name, including RocketMQ's own ones, in stored order."""
    @property
    def stored_properties(self) -> bytes:
        """The properties text as stored."""
    @property
    def consume_start_ms(self) -> int:
        """When its handler started, milliseconds since the epoch; assigning it also sets a
        property."""
    @consume_start_ms.setter
    def consume_start_ms(self, value: int) -> None: ...
    @property
    def tags(self) -> str | None:
        """The tag, or None."""
    @property
    def keys(self) -> tuple[str, ...]:
        """The index keys; empty without any."""
    @property
    def msg_id(self) -> str:
        """The producer's unique id; the offset id for a message without one."""
    @property
    def offset_msg_id(self) -> str:
        """Store host and physical offset as upper-case hex."""
    @property
    def flag(self) -> int:
        """The user's flag."""
    @property
    def sys_flag(self) -> int:
        """RocketMQ's flag: compression, transaction type, IPv6 hosts."""
    @property
    def prepared_transaction_offset(self) -> int:
        """Physical offset of the half message, else 0."""
    @property
    def born_timestamp_ms(self) -> int:
        """When the producer made it, milliseconds since the epoch."""
    @property
    def born_timestamp(self) -> datetime:
        """When the producer made it, aware, UTC."""
    @property
    def born_host(self) -> str:
        """The producer as "ip:port"."""
    @property
    def store_timestamp_ms(self) -> int:
        """When the broker stored it, milliseconds since the epoch."""
    @property
    def store_timestamp(self) -> datetime:
        """When the broker stored it, aware, UTC."""
    @property
    def store_host(self) -> str:
        """The broker as "ip:port"."""
    def detach(self) -> ReceivedMessage[_V_co]:
        """An equal message that holds a copy of its own record instead of the whole buffer."""

def decode_messages(
    body: bytes, broker_name: str = "", min_offset: int = -1, max_offset: int = -1
) -> list[ReceivedMessage]:
    """Decode the concatenated records of a pull, query or view reply.

    min_offset, max_offset: of the queue, if the messages need them as properties.
    Raises DecodeError naming the byte at which a record is malformed.
    """

def set_reader(
    messages: list[ReceivedMessage], reader: Callable[[ReceivedMessage], object] | None
) -> None:
    """Have `reader(message)` make the `value` of each message when it is first asked for."""

def set_consume_start(messages: list[ReceivedMessage], now_ms: int) -> None:
    """Set `consume_start_ms` of each message."""

def any_has_flags(messages: list[ReceivedMessage], flags: int) -> bool:
    """Whether the `sys_flag` of a message has one of some bits."""

def decode_properties(text: bytes) -> dict[str, str]:
    """Read the properties text of a message, in stored order; never raises."""

def encode_properties(properties: Mapping[str, str | None]) -> bytes:
    """Write properties as stored text; None values are omitted.

    Raises ValueError for a separator byte inside a name or value, TypeError for non-text.
    """

def decompress_body(body: bytes, sys_flag: int) -> bytes:
    """Undo the compression that a system flag names; DecodeError if that fails."""

@final
class UniqueIds:
    """Generates UNIQ_KEY ids: a prefix that is fixed for a millisecond, and a counter.

    head: returns the first 28 hex digits for a time in milliseconds since the epoch.
    """

    def __new__(cls, head: Callable[[int], bytes]) -> UniqueIds: ...
    def next(self) -> str:
        """The next id. Safe from any thread; raises what `head` raises."""
    def forget(self) -> None:
        """Read the prefix again in a forked child, which must not repeat its parent's ids."""

@final
class Outgoing:
    """The data of a message or a batch for a send request; made by mqclient.producer.outgoing."""

    topic: str
    """The topic."""
    body: bytes
    """The body as sent, possibly compressed."""
    properties: str
    """The properties text."""
    msg_id: str
    """Its unique id, a comma list for a batch."""
    flag: int
    """The flag that the user set."""
    sys_flag: int
    """Says how the body is compressed."""
    batch: bool
    """Whether the body holds several messages."""
    reconsume_times: int
    """For messages to a retry topic, else 0."""
    max_reconsume_times: int | None
    """For messages to a retry topic, else None."""
    born_timestamp_ms: int | None
    """Time of birth; None means now."""

    def __new__(
        cls,
        topic: str,
        body: bytes,
        properties: str,
        msg_id: str,
        flag: int = 0,
        batch: bool = False,
    ) -> Outgoing: ...
    def values(self) -> tuple[str | int | None, ...]:
        """The open fields of the request's header, in its order."""

def encode_batch(
    messages: Iterable[Any],
    kind: type,
    topic: str,
    plain: dict[str, str],
    ids: UniqueIds,
    check: Callable[[Any], object],
) -> tuple[bytes, str]:
    """Encode the body of a batch; returns it and the messages' unique ids as a comma list.

    kind, topic: class and topic of all messages. plain: their value of WAIT. check: called with a
    message that differs from this, is delayed or is empty; raises an error if it is not allowed.
    Raises ValueError for properties of over 32767 bytes or with separators inside.
    """
