"""Bodies about topics: configuration, registration at a NameServer, statistics."""

import struct
import zlib
from operator import itemgetter
from typing import Self

from msgspec import field

from mqcommon import fastjson
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies import registration
from mqcommon.wire.bodies.base import Body, BodyError, fastjson_text
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.headers.base import Int32, Name, java_number, named

_INT32 = struct.Struct(">i")


class _TopicName(Body):
    """The only field of a TopicConfig that may be given by position."""

    topic_name: Name


class TopicConfig(_TopicName, kw_only=True):
    """A topic as its broker keeps it. perm: 4 read + 2 write + 1 inherit."""

    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False

    def to_plain(self) -> dict[str, object]:
        """Plain fields for JSON; written by hand, because a registration has ten thousand rows."""
        return {
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic_name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }

    @classmethod
    def from_plain(cls, plain: object) -> Self:
        """As `from_plain` of every body; a row in the usual form of brokers is taken unchanged."""
        if type(plain) is dict and plain.keys() == _TOPIC_KEYS:
            values = _topic_values(plain)
            if tuple(map(type, values)) == _TOPIC_TYPES and all(map(_fits, _numbers(values))):
                name, reads, writes, perm, kind, flag, order = values
                return cls(
                    name,
                    read_queue_nums=reads,
                    write_queue_nums=writes,
                    perm=perm,
                    topic_filter_type=kind,
                    topic_sys_flag=flag,
                    order=order,
                )
        return super().from_plain(plain)


_TOPIC_COLUMNS = (
    ("topicName", str),
    ("readQueueNums", int),
    ("writeQueueNums", int),
    ("perm", int),
    ("topicFilterType", str),
    ("topicSysFlag", int),
    ("order", bool),
)
_TOPIC_KEYS = {name for name, _ in _TOPIC_COLUMNS}
_TOPIC_TYPES = tuple(kind for _, kind in _TOPIC_COLUMNS)
_topic_values = itemgetter(*(name for name, _ in _TOPIC_COLUMNS))
_numbers = itemgetter(*(at for at, (_, kind) in enumerate(_TOPIC_COLUMNS) if kind is int))


def _fits(number: int) -> bool:
    return -(2**31) <= number < 2**31


class TopicConfigSerializeWrapper(Body):
    """All topics of a broker, or the changed ones, with the version of its table."""

    topic_config_table: dict[Name, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)

    def to_json(self) -> bytes:
        """As every body does; the table is written by the core."""
        table = registration.topic_table(self.topic_config_table)
        version = fastjson.dumps(self.data_version.to_plain())
        return f'{{"dataVersion":{version},"topicConfigTable":{table}}}'.encode()


class RegisterBrokerBody(Body):
    """Body of REGISTER_BROKER (103)."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = field(
        default_factory=TopicConfigSerializeWrapper
    )
    filter_server_list: list[Name] = field(default_factory=list)

    def to_json(self) -> bytes:
        """As every body does; the table is written by the core."""
        filters = fastjson.dumps(self.filter_server_list).encode()
        wrapper = self.topic_config_serialize_wrapper.to_json()
        head = b'{"filterServerList":' + filters + b',"topicConfigSerializeWrapper":'
        return head + wrapper + b"}"

    def encode(self, compressed: bool = False) -> bytes:
        """Write the body in the form that the header's `compressed` names.

        The compressed form is one zlib stream of length-prefixed pieces: data version, topics
        as `name reads writes perm filterType`, filter servers. It loses topic_sys_flag and order.
        """
        if not compressed:
            return self.to_json()
        wrapper = self.topic_config_serialize_wrapper
        pieces = [wrapper.data_version.to_json()]
        topics = [_topic_line(config) for config in wrapper.topic_config_table.values()]
        tail = fastjson.dumps(self.filter_server_list)
        stream = (
            b"".join(map(_with_length, pieces))
            + _INT32.pack(len(topics))
            + b"".join(map(_with_length, [*topics, tail.encode()]))
        )
        return zlib.compress(stream, 9)

    @classmethod
    def decode(cls, data: bytes, compressed: bool = False) -> Self:
        """Read what `encode` wrote; raises BodyError on anything else."""
        if not compressed:
            return cls.from_json(data)
        stream = registration.unpack(data)
        try:
            return cls._from_stream(stream)
        except (struct.error, ValueError, TypeError, IndexError) as error:
            raise BodyError(f"compressed registration: {error}") from error

    @classmethod
    def _from_stream(cls, stream: bytes) -> Self:
        version, position = _take(stream, 0)
        (count,) = _INT32.unpack_from(stream, position)
        position += 4
        table = {}
        for _ in range(count):
            line, position = _take(stream, position)
            config = _topic_of(line.decode())
            table[config.topic_name] = config
        servers, _ = _take(stream, position)
        names = fastjson.loads(servers)
        return cls(
            TopicConfigSerializeWrapper(table, DataVersion.from_json(version)),
            [named(fastjson_text(name)) for name in names] if isinstance(names, list) else [],
        )


def _topic_line(config: TopicConfig) -> bytes:
    return (
        f"{config.topic_name} {config.read_queue_nums} {config.write_queue_nums} "
        f"{config.perm} {config.topic_filter_type}"
    ).encode()


def _topic_of(line: str) -> TopicConfig:
    """Read a topic's line; 5.x appends a sixth word of attributes, which we ignore."""
    name, reads, writes, perm, kind = line.split(" ")[:5]
    return TopicConfig(
        named(name),
        read_queue_nums=java_number(reads, 32),
        write_queue_nums=java_number(writes, 32),
        perm=java_number(perm, 32),
        topic_filter_type=kind,
    )


def _with_length(piece: bytes) -> bytes:
    return _INT32.pack(len(piece)) + piece


def _take(stream: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _INT32.unpack_from(stream, position)
    end = position + 4 + length
    if length < 0 or end > len(stream):
        raise IndexError(f"piece of {length} bytes at {position} does not fit {len(stream)}")
    return stream[position + 4 : end], end


class TopicOffset(Body):
    """Extent of one queue. last_update_timestamp: ms of the last message, 0 if there is none."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStatsTable(Body):
    """Extent of each queue of a topic: the answer to 202."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)


class QueueTimeSpan(Body):
    """Times of one queue for a group, in ms; the *_str fields hold the same as text."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


class QueryConsumeTimeSpanBody(Body):
    """The answer to 303."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)
