"""Whatever comes over a socket costs at most its connection."""

from __future__ import annotations

import contextlib
import struct

import pytest

from mqclient.engine.transport import Transport
from mqcommon.wire.frame import Frame
from mqserver.runtime.processor_api import Response
from tests.server.conftest import Servers
from tests.server.raw import DEADLINE, Raw, binary_frame, json_frame


def echo(request):
    return Response(0, None, request.fields, request.body)


@pytest.fixture
def port(servers: Servers) -> int:
    return servers.start({1: echo})[1]


@pytest.mark.parametrize(("frame", "serialize"), [(json_frame, 0), (binary_frame, 1)])
def test_a_reply_echoes_the_requests_serialisation(servers, port, frame, serialize):
    reply = servers.connect(port).ask(frame(1, 7, {"k": "vä"}, b"body"))
    assert reply == (0, 7, 1, None, {"k": "vä"}, b"body", serialize)


def test_absent_and_empty_fields_are_told_apart(servers):
    answers = {1: lambda _: Response(), 2: lambda _: Response(fields={})}
    raw = servers.connect(servers.start(answers)[1])
    assert raw.ask(json_frame(1, 1)).fields is None
    assert raw.ask(json_frame(2, 2)).fields == {}


def test_both_serialisations_on_one_connection(servers, port):
    raw = servers.connect(port)
    raw.send(json_frame(1, 1), binary_frame(1, 2), json_frame(1, 3))
    replies = {raw.read()[::6] for _ in range(3)}  # code and serialisation
    assert replies == {(0, 0), (0, 1)}


def test_frames_arrive_in_any_pieces(servers, port):
    raw = servers.connect(port)
    for byte in json_frame(1, 1, {"a": "b"}, b"x"):
        raw.socket.send(bytes([byte]))
    assert raw.read().opaque == 1
    frames = [json_frame(1, n, None, b"y" * n) for n in range(2, 200)]
    raw.send(*frames)
    assert {raw.read().opaque for _ in frames} == set(range(2, 200))


def test_a_large_body_goes_both_ways(servers, port):
    body = bytes(range(256)) * (12 << 12)  # 12 MiB
    assert servers.connect(port).ask(json_frame(1, 1, None, body)).body == body


def bad_frames():
    yield "garbage", b"GET / HTTP/1.1\r\n\r\n"
    yield "negative length", struct.pack(">i", -1)
    yield "too short for a header word", struct.pack(">ii", 3, 0)
    yield "over 16 MiB", struct.pack(">ii", 16 << 20, 10)
    yield "header longer than the frame", struct.pack(">ii", 8, 100) + b"1234"
    yield "unknown serialisation", struct.pack(">ii", 8, 9 << 24 | 4) + b"1234"
    yield "header is not JSON", struct.pack(">ii", 8, 4) + b"oops"
    yield "header is no object", struct.pack(">ii", 6, 2) + b"[]"
    yield "binary header cut off", struct.pack(">ii", 8, 1 << 24 | 4) + b"1234"


@pytest.mark.parametrize("bad", [pytest.param(frame, id=name) for name, frame in bad_frames()])
def test_a_bad_frame_costs_its_connection_only(servers, port, bad):
    good, other = servers.connect(port), servers.connect(port)
    other.ask(json_frame(1, 1))
    good.send(json_frame(1, 5))
    assert good.read().opaque == 5
    other.send(bad)
    assert other.is_closed()
    assert servers.wait_event("bad_frame").detail
    assert good.ask(json_frame(1, 6)).opaque == 6


def test_a_frame_limit_of_ones_own(servers):
    _, port = servers.start({1: echo}, max_frame_bytes=1000)
    raw = servers.connect(port)
    room = 1000 - len(json_frame(1, 1))
    assert raw.ask(json_frame(1, 1, None, b"x" * room)).code == 0
    raw.send(json_frame(1, 1, None, b"x" * (room + 1)))
    assert raw.is_closed()


def test_an_unknown_code_gets_3_from_a_broker_only(servers):
    raw = servers.connect(servers.start({1: echo}, kind="broker")[1])
    reply = raw.ask(binary_frame(999, 1))
    assert (reply.code, reply.remark, reply.serialize) == (3, " request type 999 not supported", 1)
    raw = servers.connect(servers.start({1: echo}, default=False)[1])
    raw.send(json_frame(999, 1))
    assert raw.ask(json_frame(1, 2)).opaque == 2


def test_replies_nobody_waits_for_are_dropped(servers, port):
    raw = servers.connect(port)
    raw.send(json_frame(0, 99, flag=1), json_frame(1, 1))
    assert raw.read().opaque == 1


def test_idle_connections_are_closed(servers):
    _, port = servers.start({1: echo}, idle_timeout=2.5)
    raw: Raw = servers.connect(port)
    assert raw.ask(json_frame(1, 1)).code == 0
    assert raw.is_closed()
    assert servers.wait_event("idle").connection == 1


def test_one_connection_too_many_is_closed_at_once(servers):
    listener, port = servers.start({1: echo}, max_connections=2)
    kept = [servers.connect(port) for _ in range(2)]
    for opaque, raw in enumerate(kept):
        assert raw.ask(json_frame(1, opaque)).code == 0
    assert servers.connect(port).is_closed()
    assert servers.wait_event("refused").connection == 0
    assert [raw.ask(json_frame(1, 9)).code for raw in kept] == [0, 0]
    assert listener.counters()["connections_refused"] == 1


@pytest.mark.parametrize("frame_of", [json_frame, binary_frame])
def test_a_header_over_a_limit_closes_its_connection(servers, frame_of):
    limits = {"max_header_bytes": 64 << 10, "max_header_fields": 64}
    listener, port = servers.start({1: echo}, **limits)
    fields = {f"k{number}": "v" for number in range(64)}
    assert servers.connect(port).ask(frame_of(1, 7, fields)).fields == fields
    many = servers.connect(port)
    many.send(frame_of(1, 8, fields | {"one more": "v"}))
    assert many.is_closed()
    long = servers.connect(port)
    long.send(frame_of(1, 9, {"k": "v" * (64 << 10)})[:100])  # the length alone is refused
    assert long.is_closed()
    assert listener.counters()["frames_bad"] == 2
    assert servers.connect(port).ask(frame_of(1, 10)).opaque == 10


def test_a_legal_message_of_the_longest_properties_passes(servers, port):
    properties = "\x01\x02" * (32_764 // 2)  # six bytes each as JSON
    fields = {"i": properties}
    assert servers.connect(port).ask(json_frame(1, 7, fields)).fields == fields


async def test_a_client_takes_replies_of_any_header_that_fits_a_frame(servers):
    """A client trusts its server: only the frame limit bounds a reply's header."""
    fields = {f"k{number}": "v" * 100 for number in range(5_000)}
    _, port = servers.start({1: lambda _: Response(0, "r" * (300 << 10), fields)})

    async with contextlib.aclosing(Transport()) as transport:
        reply = await transport.call(f"127.0.0.1:{port}", Frame(1), DEADLINE)
    assert reply.remark == "r" * (300 << 10)
    assert reply.fields == fields
