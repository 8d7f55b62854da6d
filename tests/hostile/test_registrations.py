"""Registrations that are wrong: both readers agree, and the NameServer forgets them with their
sender."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from zlib import compress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqcommon.wire.bodies import registration
from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.topics import RegisterBrokerBody
from mqcommon.wire.codes import RequestCode
from mqserver.namesrv.processors import _taken
from mqserver.runtime.processor_api import Response
from tests.examples import examples
from tests.fakes import FakeRequest
from tests.hostile.inputs import JUNK, bodies, spoiled, spoiled_bytes
from tests.namesrv.servers import SocketlessNames

TOPIC = {
    "order": False,
    "perm": 6,
    "readQueueNums": 4,
    "topicFilterType": "SINGLE_TAG",
    "topicName": "T",
    "topicSysFlag": 0,
    "writeQueueNums": 4,
}
GOOD = {
    "filterServerList": ["127.0.0.1:1"],
    "topicConfigSerializeWrapper": {
        "dataVersion": {"counter": 3, "timestamp": 1_700_000_000_000},
        "topicConfigTable": {"T": TOPIC, "%RETRY%g": {**TOPIC, "topicName": "%RETRY%g"}},
    },
}
LINES = ["T 4 4 6 SINGLE_TAG", "%RETRY%g 1 1 6 SINGLE_TAG"]


def piece(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def stream(version: object, count: int, lines: list[str], servers: object) -> bytes:
    middle = struct.pack(">i", count) + b"".join(map(piece, lines))
    return piece(json.dumps(version)) + middle + piece(json.dumps(servers))


VERSION = GOOD["topicConfigSerializeWrapper"]["dataVersion"]  # type: ignore[index]
PLAIN = stream(VERSION, len(LINES), LINES, ["127.0.0.1:1"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Uncompressed streams with something wrong in a line, a number, a length or a byte."""
    words = st.one_of(
        st.sampled_from(["T", "4", "+5", "-1", "٣", " 7", "2147483648", "", "x" * 300, "\x00"]),
        st.text(st.characters(codec="utf-8"), max_size=8),
    )
    lines = draw(st.lists(st.lists(words, max_size=7).map(" ".join), max_size=3))
    count = draw(st.one_of(st.just(len(lines)), st.integers(-2, 5)))
    version = draw(st.one_of(st.just(VERSION), spoiled(VERSION)))
    servers = draw(st.one_of(st.just(["127.0.0.1:1"]), JUNK))
    made = stream(version, count, [*LINES[:1], *lines], servers)
    return draw(st.one_of(st.just(made), spoiled_bytes(made), spoiled_bytes(PLAIN)))


def agreed(body: bytes, compressed: bool) -> None:
    """The tolerant reader gives the same result as the fast one, and refuses every body that the
    fast reader refuses for good."""
    try:
        found = registration.read(body, compressed)
    except BodyError:
        assert compressed, "text goes on to the reader that forgives"
        with pytest.raises(BodyError):
            RegisterBrokerBody.decode(body, compressed)
        return
    try:
        slowly = RegisterBrokerBody.decode(body, compressed)
    except BodyError:
        assert found is None, "the reader that forgives must take what the short way takes"
        return
    if found is not None:
        wrapper = slowly.topic_config_serialize_wrapper
        assert found == _taken(wrapper, slowly.filter_server_list)


def row(**more: object) -> bytes:
    table = {"T": {**TOPIC, **more}}
    wrapper = {"dataVersion": VERSION, "topicConfigTable": table}
    return json.dumps({**GOOD, "topicConfigSerializeWrapper": wrapper}).encode()


@given(body=bodies(GOOD))
@example(row(topicName=None))
@example(row(topicName=["T"]))
@example(row(topicFilterType={}))
@example(row(topicName="x" * 263))
@example(json.dumps({**GOOD, "filterServerList": ["a\x00b"]}).encode())
@example(json.dumps({**GOOD, "filterServerList": ["x" * 263]}).encode())
@examples(200)
def test_both_readers_agree_on_text(body: bytes) -> None:
    agreed(body, compressed=False)


@given(plain=streams())
@example(stream(VERSION, 1, ["T 4 4 6 SINGLE_TAG"], ["x" * 263]))
@example(stream(VERSION, 1, ["T 4 4 6 SINGLE_TAG"], ["a\x00b"]))
@example(stream(VERSION, 1, ["T ٣ 4 6 SINGLE_TAG"], []))
@examples(150)
def test_both_readers_agree_on_compressed_streams(plain: bytes) -> None:
    agreed(compress(plain), compressed=True)


@given(body=st.one_of(st.binary(max_size=60), spoiled_bytes(compress(PLAIN))))
@examples(60)
def test_both_readers_agree_on_what_is_compressed_badly(body: bytes) -> None:
    agreed(body, compressed=True)


connections = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SocketlessNames]:
    folder: Path = tmp_path_factory.mktemp("names")
    yield SocketlessNames(folder)


FIELDS = {
    "brokerName": "b",
    "brokerAddr": "127.0.0.1:10911",
    "clusterName": "C",
    "haServerAddr": "127.0.0.1:10912",
    "brokerId": "0",
    "compressed": "false",
    "bodyCrc32": "0",
}
FIELD_TEXTS = st.one_of(
    st.sampled_from(["", "-1", "1", "2147483648", str(2**63), "true", "x" * 300, "\x00", "b"]),
    st.text(st.characters(codec="utf-8"), max_size=8),
)


@given(
    body=st.one_of(bodies(GOOD), streams().map(compress)),
    changes=st.dictionaries(st.sampled_from(sorted(FIELDS)), FIELD_TEXTS, max_size=3),
    version=st.sampled_from([0, 37, 407, 2**31 - 1]),
)
@examples(200)
def test_a_wrong_registration_ends_with_its_sender(
    server: SocketlessNames, body: bytes, changes: dict[str, str], version: int
) -> None:
    connection = next(connections)
    request = FakeRequest(
        RequestCode.REGISTER_BROKER,
        {**FIELDS, **changes},
        body,
        version=version,
        connection=connection,
    )
    reply = server(request)
    assert isinstance(reply, Response)
    assert reply.code in (0, 1)
    words = reply.remark or ""
    assert not words.startswith(("TypeError", "AttributeError", "KeyError", "UnicodeEncodeError"))
    if reply.code == 0:
        for topic in server.names.routes.topics():
            route = FakeRequest(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            asked = server(route)
            assert isinstance(asked, Response)
            assert asked.code in (0, 17)
    server.names.routes.close(connection, request.remote)
    assert server.names.routes.topics() == []
    assert server.names.routes.clusters().broker_addr_table == {}
