"""Messages, queues and their ids, shared by store, client and broker.

A producer sends a `Message`; a consumer or a log reader receives a `ReceivedMessage`.
"""

from __future__ import annotations

import ipaddress
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from mqcommon._codec import (
    DecodeError,
    Outgoing,
    ReceivedMessage,
    UniqueIds,
    any_has_flags,
    decode_messages,
    decode_properties,
    decompress_body,
    encode_properties,
    set_consume_start,
    set_reader,
)
from mqcommon._codec import encode_batch as _encode_batch
from mqcommon._core import COLUMN_LAYOUTS, ColumnBuilder, damaged_records
from mqcommon.names import is_of_a_group
from mqcommon.own_address import own_address
from mqcommon.property_names import DELIVER_AT, SET_BY_BROKERS, SYSTEM_PROPERTIES
from mqcommon.property_text import NAME_END, PAIR_END

__all__ = [
    "COLUMN_LAYOUTS",
    "DELAY_LEVEL_MAX",
    "DELIVER_AT",
    "SYSTEM_PROPERTIES",
    "ColumnBuilder",
    "DamagedRecord",
    "DecodeError",
    "Message",
    "MessageQueue",
    "OffsetMessageId",
    "Outgoing",
    "ReceivedMessage",
    "any_has_flags",
    "damaged_records",
    "decode_messages",
    "decode_properties",
    "decode_reply",
    "decompress_body",
    "encode_batch",
    "encode_properties",
    "is_body_sound",
    "offset_msg_id",
    "parse_offset_msg_id",
    "queue_of",
    "set_consume_start",
    "set_reader",
    "unique_id",
    "unique_id_origin",
]


DELAY_LEVEL_MAX = 18
"""The highest of RocketMQ's delay levels."""


class Message:
    """A message to send.

    topic: its name. body: bytes, sent unchanged. tags: one tag, matched by consumers'
    subscriptions. keys: one key or several, for queries by key. In a str, spaces separate keys; a
    list has one key per item.
    flag: a number for the application. properties: more values by name; RocketMQ's reserved names
    are refused. delay_level: 1 to 18 (RocketMQ's default levels: 1 s to 2 h), 0 for none.
    wait_store_ok: with False the broker acknowledges before its flush. deliver_at: delivery time,
    an aware datetime; supported only by brokers of RocketMQ 5.
    Raises TypeError or ValueError that names the wrong argument. To forward a received message, see
    `from_received`.

    >>> Message("TopicTest", b"Hi", tags="TagA", keys=["order-1", "user-7"]).keys
    ('order-1', 'user-7')
    """

    __slots__ = ("body", "born_timestamp_ms", "flag", "properties", "topic", "transaction_id")

    topic: str
    """Name of the topic."""
    body: bytes
    """The content that is sent."""
    flag: int
    """A number for the application, 32 bits."""
    properties: dict[str, str]
    """Every property that will be stored, including tags and keys, under RocketMQ's names."""
    transaction_id: str | None
    """Set by a transactional send."""
    born_timestamp_ms: int | None
    """Creation time in milliseconds since the epoch; None, and any batch, uses the time of the
    send."""

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        flag: int = 0,
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        wait_store_ok: bool = True,
        deliver_at: datetime | None = None,
    ) -> None:
        if not isinstance(topic, str) or not topic or topic.isspace():
            raise ValueError(f"topic must be a name, not {topic!r}")
        self.topic = topic
        self.body = body if type(body) is bytes else _as_bytes(body)
        self.flag = flag if flag == 0 else _checked_flag(flag)
        self.transaction_id = self.born_timestamp_ms = None
        wait = "true" if wait_store_ok is True else _wait_text(wait_store_ok)
        if tags is None and keys is None and not properties:
            self.properties = {"WAIT": wait}
        else:
            self.properties = {}
            if properties is not None and not isinstance(properties, Mapping):
                given = type(properties).__name__
                raise TypeError(f"properties must be a mapping of str to str, not {given}")
            for name, value in (properties or {}).items():
                self.put_property(name, value)
            if keys is not None and keys != ():
                self.properties["KEYS"] = _joined_keys(keys)
            if tags is not None:
                self.properties["TAGS"] = _checked_tag(tags)
            self.properties["WAIT"] = wait
        if delay_level != 0:
            self.delay_level = delay_level
        if deliver_at is not None:
            self.properties[DELIVER_AT] = _deliver_ms(deliver_at, delay_level)

    @classmethod
    def from_received(cls, message: ReceivedMessage, topic: str | None = None) -> Message:
        """A message to forward, with the body, tag, keys, flag and user properties of another.

        topic: destination; None uses the message's topic, or its original topic if it comes from a
        dead-letter or retry topic. Values written by clients of other languages are never refused.
        RocketMQ's own data about the message is not copied: its id, times, retries, delay and
        transaction. Raises DecodeError if the body cannot be decompressed.
        """
        stored = message.properties
        if topic is None:
            first = stored.get("RETRY_TOPIC") if is_of_a_group(message.topic) else None
            topic = first or message.topic
        made = cls(topic, message.body, flag=message.flag)
        dropped = (SYSTEM_PROPERTIES | SET_BY_BROKERS) - {"KEYS", "TAGS"}
        own = {name: value for name, value in stored.items() if name not in dropped}
        made.properties = own | made.properties
        return made

    @property
    def tags(self) -> str | None:
        """The tag, or None."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys; empty without any."""
        return tuple(word for word in self.properties.get("KEYS", "").split(" ") if word)

    @property
    def wait_store_ok(self) -> bool:
        """Whether the acknowledgement waits for the broker's flush."""
        return self.properties.get("WAIT", "true") != "false"

    @property
    def delay_level(self) -> int:
        """RocketMQ's delay level, 0 for none."""
        return int(self.properties.get("DELAY", "0"))

    @delay_level.setter
    def delay_level(self, level: int) -> None:
        if type(level) is not int or not 0 <= level <= DELAY_LEVEL_MAX:
            raise ValueError(
                f"delay_level must be 0 (none) or 1 to {DELAY_LEVEL_MAX} (1 s to 2 h), not "
                f"{level!r}; for another delay level of a broker set properties['DELAY']"
            )
        if level:
            self.properties["DELAY"] = str(level)
        else:
            self.properties.pop("DELAY", None)

    def put_property(self, name: str, value: str) -> None:
        """Set a user property.

        Raises ValueError for one of RocketMQ's names, an empty name or value, or the characters
        0x01 and 0x02, which separate stored properties. RocketMQ's Java clients can send and
        receive a value that holds 0x01, while others drop it: `from_received` keeps such a value.
        """
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"property {name!r}={value!r}: name and value must be str")
        if name in SYSTEM_PROPERTIES:
            raise ValueError(
                f"property {name!r} is reserved by RocketMQ; use another name, or "
                f"Message.from_received to send on a received message"
            )
        if not name.strip() or not value.strip():
            raise ValueError(f"property {name!r}={value!r}: name and value must not be blank")
        _check_separators(name, value)
        self.properties[name] = value

    def __repr__(self) -> str:
        return f"<Message {self.topic} tags={self.tags!r} keys={self.keys!r} {len(self.body)} B>"


def _as_bytes(body: object) -> bytes:
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    hint = "; encode it: body.encode()" if isinstance(body, str) else ""
    raise TypeError(f"body must be bytes, not {type(body).__name__}{hint}")


def _checked_flag(flag: object) -> int:
    if not isinstance(flag, int) or isinstance(flag, bool):
        raise TypeError(f"flag must be int, not {type(flag).__name__}")
    if not -(1 << 31) <= flag < 1 << 31:
        raise ValueError(f"flag must fit 32 bits, not {flag}")
    return flag


def _wait_text(wait_store_ok: object) -> str:
    if not isinstance(wait_store_ok, bool):
        raise TypeError(f"wait_store_ok must be bool, not {type(wait_store_ok).__name__}")
    return "true" if wait_store_ok else "false"


def _deliver_ms(deliver_at: datetime, delay_level: int) -> str:
    if not isinstance(deliver_at, datetime):
        raise TypeError(f"deliver_at must be a datetime, not {type(deliver_at).__name__}")
    if deliver_at.tzinfo is None:
        raise ValueError("deliver_at needs a time zone: datetime.now(UTC) + timedelta(hours=1)")
    if delay_level:
        raise ValueError("give delay_level or deliver_at, not both")
    return str(round(deliver_at.timestamp() * 1000))


def _joined_keys(keys: str | Iterable[str]) -> str:
    """Join keys as RocketMQ stores them, so that a query finds the message by each key."""
    if isinstance(keys, bytes) or not isinstance(keys, Iterable):
        raise TypeError(f"keys must be str or a list of str, not {type(keys).__name__}")
    words = keys.split(" ") if isinstance(keys, str) else list(keys)
    if isinstance(keys, str) and any(words):
        words = [word for word in words if word]
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"key {word!r} must be str")
        if not word or " " in word:
            raise ValueError(
                f"key {word!r} is empty or contains a space, which separates keys; "
                f"give each key as a separate item"
            )
    _check_separators("KEYS", *words)
    return " ".join(words)


def _checked_tag(tags: str) -> str:
    if not isinstance(tags, str):
        raise TypeError(f"tags {tags!r} must be str")
    if not tags.strip() or "||" in tags:
        raise ValueError(
            f"a message has one tag, not {tags!r}; '||' belongs in subscriptions, and "
            f"Message.from_received takes a received tag as it is"
        )
    _check_separators("TAGS", tags)
    return tags


def _check_separators(name: str, *values: str) -> None:
    for text in (name, *values):
        if NAME_END in text or PAIR_END in text:
            raise ValueError(
                f"property {name!r} holds 0x01 or 0x02, which separate properties, in {text!r}"
            )


class MessageQueue(Struct, frozen=True, order=True):
    """One queue of a topic on one broker; ordered by topic, broker name, queue id.

    >>> print(MessageQueue("TopicTest", "broker-a", 3))
    MessageQueue [topic=TopicTest, brokerName=broker-a, queueId=3]
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, "
            f"queueId={self.queue_id}]"
        )


class OffsetMessageId(NamedTuple):
    """The parts of an offset message id."""

    host: str
    """The broker's IP address."""
    port: int
    """The broker's port."""
    physical_offset: int
    """Physical offset of the record."""


def queue_of(message: ReceivedMessage) -> MessageQueue:
    """The queue that a message came from."""
    return MessageQueue(message.topic, message.broker_name, message.queue_id)


def offset_msg_id(host: str, port: int, physical_offset: int) -> str:
    """The offset message id: the broker's address and the offset of the record.

    host: an IP address, not a name. Returns 32 upper-case hex digits, 56 with IPv6.

    >>> offset_msg_id("127.0.0.1", 10911, 190)
    '7F00000100002A9F00000000000000BE'
    """
    address = ipaddress.ip_address(host).packed
    return (address + struct.pack(">iq", port, physical_offset)).hex().upper()


def parse_offset_msg_id(text: str) -> OffsetMessageId:
    """Read an offset message id; raises ValueError for any other text.

    >>> parse_offset_msg_id("7F00000100002A9F00000000000000BE").physical_offset
    190
    """
    if not isinstance(text, str):
        raise TypeError(f"a message id must be str, not {type(text).__name__}")
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) not in (16, 28) or len(text) != 2 * len(raw):
        raise ValueError(f"offset message id {text!r} is not 32 or 56 hex digits")
    port, physical_offset = struct.unpack(">iq", raw[-12:])
    return OffsetMessageId(str(ipaddress.ip_address(raw[:-12])), port, physical_offset)


def is_body_sound(stored_body: bytes, body_crc: int) -> bool:
    """Whether a stored body matches its checksum; the checksum 0 means that none was stored."""
    return not body_crc or zlib.crc32(stored_body) & 0x7FFFFFFF == body_crc


class DamagedRecord(NamedTuple):
    """A record in a broker's reply that differs from the record that was stored."""

    reason: str
    """Why the record is damaged."""
    position: int
    """Number of good messages in the reply before this record."""
    message: ReceivedMessage | None
    """Its header, if the fields can be read; do not trust the body."""

    def __str__(self) -> str:
        message = self.message
        if message is None:
            return f"record {self.position + 1} of the reply: {self.reason}"
        return (
            f"msgId {message.msg_id}, topic {message.topic}, queue {message.queue_id}, offset "
            f"{message.queue_offset}, broker {message.broker_name}, commit log offset "
            f"{message.commit_log_offset}: {self.reason}"
        )


def decode_reply(
    body: bytes, broker_name: str = "", min_offset: int = -1, max_offset: int = -1
) -> tuple[list[ReceivedMessage], list[DamagedRecord]]:
    """Like `decode_messages`, but checks each record and the CRC of its body.

    Returns the good messages and the damaged records. After a record with a damaged size, the rest
    of the reply cannot be read.
    """
    places = damaged_records(body)
    if not places:
        return decode_messages(body, broker_name, min_offset, max_offset), []
    messages: list[ReceivedMessage] = []
    damaged: list[DamagedRecord] = []
    end = 0
    for start, size, reason in places:
        whole = body[end:start]
        messages += decode_messages(whole, broker_name, min_offset, max_offset)
        header = _header(body[start : start + size], broker_name)
        damaged.append(DamagedRecord(reason, len(messages), header))
        end = start + size
    messages += decode_messages(body[end:], broker_name, min_offset, max_offset)
    return messages, damaged


def _header(record: bytes, broker_name: str) -> ReceivedMessage | None:
    """A damaged record as a message, so that a log line can name it."""
    try:
        message = decode_messages(record, broker_name)[0]
        str(message)  # reads every field
    except (DecodeError, UnicodeDecodeError):
        return None
    return message


class _Heads:
    """The prefix of UNIQ_KEY ids: IP, pid, random number (Java: class loader), time in the
    month."""

    def __init__(self) -> None:
        self._prefix = ""
        self._month_ms = self._month_end_ms = 0

    def head(self, now_ms: int) -> bytes:
        if not self._prefix:
            address = ipaddress.ip_address(own_address()).packed
            parts = address, struct.pack(">H", os.getpid() & 0xFFFF), os.urandom(4)
            self._prefix = b"".join(parts).hex().upper()
        if now_ms >= self._month_end_ms:
            self._month_ms, self._month_end_ms = _month_of(now_ms)
        return f"{self._prefix}{(now_ms - self._month_ms) & 0xFFFFFFFF:08X}".encode()

    def origin(self) -> tuple[str, int]:
        now_ms = time.time_ns() // 1_000_000
        head = self.head(now_ms)
        return head[:12].decode() + os.urandom(4).hex().upper(), self._month_ms

    def forget(self) -> None:
        """Generate a new prefix in a forked child, which must not repeat its parent's ids."""
        self._prefix = ""
        _unique_ids.forget()


def _month_of(now_ms: int) -> tuple[int, int]:
    """Start of the local month of a time, and of the next one, in milliseconds."""
    local = datetime.fromtimestamp(now_ms / 1000).astimezone()
    start = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    later = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return int(start.timestamp() * 1000), int(later.timestamp() * 1000)


_heads = _Heads()
_unique_ids = UniqueIds(_heads.head)
unique_id = _unique_ids.next
"""Makes a new client message id (RocketMQ's UNIQ_KEY): 32 upper-case hex digits.

Unique in practice among the producers of a cluster. Safe from any thread."""
os.register_at_fork(after_in_child=_heads.forget)


def unique_id_origin() -> tuple[str, int]:
    """Values from which native code generates unique ids.

    Returns a unique prefix of 20 digits, and the start of the month in milliseconds since the
    epoch.
    """
    return _heads.origin()


def encode_batch(
    messages: Sequence[Message], check: Callable[[Message], object]
) -> tuple[bytes, str]:
    """Encode messages of one topic as a batch; returns the body, and the unique ids as a comma
    list.

    check: called with a message that does not match the first one; it must raise an error.
    Raises ValueError for properties of over 32127 bytes or with separators inside.
    """
    first = messages[0]
    plain = {"WAIT": "true" if first.wait_store_ok else "false"}
    return _encode_batch(messages, Message, first.topic, plain, _unique_ids, check)
