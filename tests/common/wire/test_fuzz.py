"""Decoders read any bytes or report the error."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from mqcommon.wire import Frame, FrameError, decode, encode
from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.groups import ConsumeStats
from mqcommon.wire.bodies.heartbeat import HeartbeatData
from mqcommon.wire.bodies.offsets import ResetOffsetBody
from mqcommon.wire.bodies.route import TopicRouteData
from mqcommon.wire.bodies.topics import RegisterBrokerBody
from mqcommon.wire.headers.base import HeaderError
from mqcommon.wire.headers.pull import PullMessageRequestHeader
from mqcommon.wire.headers.send import SendMessageRequestHeaderV2

TEXT = st.text(max_size=30)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
KEYS = ["brokerDatas", "queueDatas", "offsetTable", "consumerDataSet", "clientID", "brokerName"]
HEADER_KEYS = ["code", "extFields", "flag", "language", "opaque", "remark", "version"]
BODIES = [ConsumeStats, HeartbeatData, ResetOffsetBody, TopicRouteData, RegisterBrokerBody]


def framed(header: bytes, body: bytes, serialize: int) -> bytes:
    total = 4 + len(header) + len(body)
    return (
        total.to_bytes(4, "big")
        + bytes([serialize])
        + len(header).to_bytes(3, "big")
        + header
        + body
    )


@given(
    code=st.integers(0, 32767),
    fields=st.dictionaries(TEXT, TEXT, max_size=5),
    body=st.binary(max_size=50),
    opaque=INT32,
    flag=INT32,
    remark=st.none() | st.text(min_size=1, max_size=30),
    version=st.integers(0, 32767),
    serialize=st.sampled_from([0, 1]),
)
def test_frames_survive_the_wire(serialize, fields, **parts):
    frame = Frame(fields=fields, serialize=serialize, has_fields=bool(fields), **parts)
    assert decode(encode(frame)) == frame


@given(st.binary(max_size=200))
def test_any_bytes(data):
    with contextlib.suppress(FrameError):
        decode(data)


@given(st.binary(max_size=120), st.sampled_from([0, 1, 2]))
def test_any_header(header, serialize):
    try:
        frame = decode(framed(header, b"", serialize))
    except FrameError:
        return
    assert all(isinstance(value, str) for value in frame.fields.values())


@given(JSON | st.dictionaries(st.sampled_from(HEADER_KEYS), JSON))
def test_any_json_header(value):
    try:
        frame = decode(framed(json.dumps(value).encode(), b"", 0))
    except FrameError:
        return
    assert isinstance(frame.code, int)
    assert isinstance(frame.remark, str | None)
    assert decode(encode(frame)).fields == frame.fields


@given(st.dictionaries(st.sampled_from(KEYS) | TEXT, JSON, max_size=4), st.sampled_from(BODIES))
def test_any_json_body(value, kind):
    try:
        body = kind.from_json(json.dumps(value))
    except BodyError:
        return
    assert kind.from_json(body.to_json()) == body


@given(st.binary(max_size=100), st.booleans())
def test_any_registration(data, compressed):
    with contextlib.suppress(BodyError):
        RegisterBrokerBody.decode(data, compressed)


@given(st.dictionaries(st.sampled_from(list("abcdefghijklmn")), TEXT))
def test_any_header_fields(fields):
    for kind in (SendMessageRequestHeaderV2, PullMessageRequestHeader):
        try:
            kind.from_fields(fields)
        except HeaderError:
            continue
