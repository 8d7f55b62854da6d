"""Numbers and names are held to what their declarations say, in headers and bodies alike."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, get_args, get_type_hints

import pytest
from msgspec.structs import fields

from mqcommon.wire.bodies.base import Body, BodyError
from mqcommon.wire.bodies.filters import BloomFilterData
from mqcommon.wire.bodies.groups import Connection, ProducerInfo, SubscriptionGroupWrapper
from mqcommon.wire.bodies.heartbeat import HeartbeatData, SubscriptionData
from mqcommon.wire.bodies.offsets import ConsumerOffsetSerializeWrapper, LockBatchRequestBody
from mqcommon.wire.bodies.registration import read
from mqcommon.wire.bodies.route import QueueData
from mqcommon.wire.bodies.topics import RegisterBrokerBody
from mqcommon.wire.headers import admin, clients, namesrv, offsets, pull, send
from mqcommon.wire.headers.base import NAME_LENGTH_MAX, Header, HeaderError, Int32, Name, camel

MODULES = (admin, clients, namesrv, offsets, pull, send)
HEADERS = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header
]
SAMPLES = {Int32: "1", Name: "n", int: "1", str: "s", bool: "true"}
BAD = {
    Int32: (str(1 << 31), str(-(1 << 31) - 1), "1_0", " 1", "x"),
    int: (str(1 << 63), "1_0", "1.5"),
    Name: ("a\0b", "a\nb", "x" * (NAME_LENGTH_MAX + 1)),
}


def kinds(header: type[Header]) -> dict[str, Any]:
    """Wire name to declared type, without None."""
    hints = get_type_hints(header, include_extras=True)
    found = {}
    for item in fields(header):
        hint = hints[item.name]
        if hint not in SAMPLES:
            hint = next(kind for kind in get_args(hint) if kind is not type(None))
        found[header.wire_names.get(item.name) or camel(item.name)] = hint
    return found


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: str(header.__name__))
def test_every_header_field_is_held_to_its_type(header: type[Header]) -> None:
    types = kinds(header)
    good = {name: SAMPLES[kind] for name, kind in types.items()}
    assert header.from_fields(good).to_fields() == good
    for name, kind in types.items():
        for value in BAD.get(kind, ()):
            with pytest.raises(HeaderError, match=rf"{name}=.* is bad: "):
                header.from_fields({**good, name: value})


def test_an_error_repeats_little_of_a_long_value() -> None:
    with pytest.raises(HeaderError) as failure:
        admin.TopicRequestHeader.from_fields({"topic": "x" * 100_000})
    assert len(str(failure.value)) < 300


QUEUE = {"topic": "t", "brokerName": "b", "queueId": 0}


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (SubscriptionData, {"topic": "t", "codeSet": [1 << 31]}),
        (SubscriptionData, {"topic": "t", "subVersion": 1 << 63}),
        (SubscriptionData, {"topic": "a\0b"}),
        (SubscriptionData, {"topic": ["t"]}),
        (HeartbeatData, {"clientID": "c" * 3_000}),
        (HeartbeatData, {"clientID": "c", "producerDataSet": [{"groupName": "../\0"}]}),
        (QueueData, {"brokerName": "b", "perm": 1 << 31}),
        (QueueData, {"brokerName": "b", "readQueueNums": "1_0"}),
        (Connection, {"clientId": "c", "clientAddr": "a", "version": 1 << 31}),
        (ProducerInfo, {"clientId": "c", "remoteIP": "a", "version": 1 << 31}),
        (BloomFilterData, {"bitPos": [1 << 31], "bitNum": 1}),
        (ConsumerOffsetSerializeWrapper, {"offsetTable": {"t@g": {str(1 << 31): 1}}}),
        (ConsumerOffsetSerializeWrapper, {"offsetTable": {"t@g": {"0": 1 << 63}}}),
        (SubscriptionGroupWrapper, {"subscriptionGroupTable": {"a\n": {"groupName": "a"}}}),
        *(
            (LockBatchRequestBody, {"consumerGroup": "g", "clientId": "c", "mqSet": [bean]})
            for bean in (
                {**QUEUE, "queueId": 1 << 31},
                {**QUEUE, "topic": "\x7f"},
                {**QUEUE, "topic": {}},
                {"topic": "t"},
            )
        ),
    ],
)
def test_a_body_is_held_to_its_types(kind: type[Body], plain: dict[str, object]) -> None:
    with pytest.raises(BodyError, match=kind.__name__):
        kind.from_json(json.dumps(plain))


def compressed(line: str) -> bytes:
    pieces = [b'{"counter":1,"timestamp":1}', line.encode(), b"[]"]
    sized = [struct.pack(">i", len(piece)) + piece for piece in pieces]
    return zlib.compress(sized[0] + struct.pack(">i", 1) + sized[1] + sized[2])


@pytest.mark.parametrize(
    "line",
    [
        f"t {1 << 31} 4 6 SINGLE_TAG",
        f"t 4 4 {1 << 31} SINGLE_TAG",
        "t 4 x 6 SINGLE_TAG",
        "t 4 4",
        f"{'t' * 3_000} 4 4 6 SINGLE_TAG",
        "t\0 4 4 6 SINGLE_TAG",
    ],
)
def test_a_compressed_registration_is_held_to_its_types(line: str) -> None:
    body = compressed(line)
    assert read(body, compressed=True) is None
    with pytest.raises(BodyError):
        RegisterBrokerBody.decode(body, compressed=True)


def test_a_long_topic_name_is_left_to_the_checks() -> None:
    line = f"{'t' * (NAME_LENGTH_MAX + 1)} 4 4 6 SINGLE_TAG"
    assert read(compressed(line), compressed=True) is None
    good = read(compressed("t 4 4 6 SINGLE_TAG"), compressed=True)
    assert good is not None
    assert good.topics == {"t": (4, 4, 6, 0)}
