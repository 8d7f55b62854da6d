"""Registrations written and read by the core are those of the general writer and reader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from zlib import compress

import pytest

from mqcommon import fastjson
from mqcommon.wire.bodies import registration
from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.topics import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import decode
from mqserver.namesrv.processors import _registered
from mqserver.runtime.processor_api import Request
from tests.common.wire.golden import FOLDER, frames

ODD = ["plain", "%RETRY%g", 'quote"back\\slash', "Überweisung", "line\nend", "\u2028", "zz", "aa"]


def body_of(names: list[str]) -> RegisterBrokerBody:
    rows = {
        name: TopicConfig(
            name,
            read_queue_nums=number,
            write_queue_nums=number + 1,
            perm=6,
            topic_filter_type="MULTI_TAG",
            topic_sys_flag=number % 4,
            order=bool(number % 2),
        )
        for number, name in enumerate(names)
    }
    return RegisterBrokerBody(TopicConfigSerializeWrapper(rows, DataVersion(3, 1_700_000_000_000)))


@pytest.mark.parametrize("names", [[], ["T"], ODD])
def test_it_is_written_as_any_other_body(names: list[str]) -> None:
    body = body_of(names)
    assert body.to_json().decode() == fastjson.dumps(body.to_plain())
    wrapper = body.topic_config_serialize_wrapper
    assert wrapper.to_json().decode() == fastjson.dumps(wrapper.to_plain())


@pytest.mark.parametrize("compressed", [False, True])
def test_what_a_java_broker_recorded_is_read_the_short_way(compressed: bool) -> None:
    read = 0
    session = "broker-register-compressed" if compressed else "broker-register"
    for recorded in frames(FOLDER / f"{session}.jsonl.gz"):
        frame = decode(recorded.data)
        if frame.code != RequestCode.REGISTER_BROKER or frame.is_response:
            continue
        assert frame.fields.get("compressed", "false") == str(compressed).lower()
        found = registration.read(frame.body, compressed)
        slowly = RegisterBrokerBody.decode(frame.body, compressed)
        wrapper = slowly.topic_config_serialize_wrapper
        assert found is not None
        assert (found.version, found.filter_servers) == (wrapper.data_version, [])
        assert found.topics == {
            name: (row.read_queue_nums, row.write_queue_nums, row.perm, row.topic_sys_flag)
            for name, row in wrapper.topic_config_table.items()
        }
        read += len(found.topics)
    assert read > 8


def test_equal_rows_are_one_object() -> None:
    rows = {name: TopicConfig(name, read_queue_nums=4, write_queue_nums=4) for name in ("a", "b")}
    found = registration.read(RegisterBrokerBody(TopicConfigSerializeWrapper(rows)).encode())
    assert found is not None
    assert found.topics["a"] is found.topics["b"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b'{"filterServerList":[]}'])
def test_anything_else_is_left_to_the_reader_that_forgives(body: bytes) -> None:
    assert registration.read(body) is None


def test_ours_compressed_is_read_the_short_way() -> None:
    names = [f"Topic-{number:05}" for number in range(10_000)] + ["Überweisung"]
    body = body_of(names)
    found = registration.read(body.encode(compressed=True), compressed=True)
    assert found is not None
    wrapper = body.topic_config_serialize_wrapper
    assert found.version == wrapper.data_version
    assert found.topics == {
        name: (row.read_queue_nums, row.write_queue_nums, row.perm, 0)
        for name, row in wrapper.topic_config_table.items()
    }


WHOLE = compress(b"\0" * 100)
NO_STREAMS = {
    "bomb": (compress(b"\0" * (32 << 20), 9), "32[0-9]{3} bytes grow over the bound of 32"),
    "cut short": (WHOLE[:-1], "the zlib stream is cut short"),
    "followed": (WHOLE + b"more", "4 bytes follow the zlib stream"),
    "other": (b"no zlib", "no zlib stream"),
}


@pytest.mark.parametrize("why", NO_STREAMS)
def test_the_first_reader_refuses_bodies_that_unpack_too_large(why: str) -> None:
    body, wanted = NO_STREAMS[why]
    for read in (registration.read, RegisterBrokerBody.decode):
        with pytest.raises(BodyError, match=f"^compressed registration: {wanted}"):
            read(body, compressed=True)


def test_a_bomb_is_refused_once(monkeypatch: pytest.MonkeyPatch) -> None:
    body, _ = NO_STREAMS["bomb"]
    decoded: list[bytes] = []
    monkeypatch.setattr(RegisterBrokerBody, "decode", lambda body, _: decoded.append(body))
    request = SimpleNamespace(body=body, version=407)
    with pytest.raises(BodyError):
        _registered(cast(Request, request), compressed=True)
    assert not decoded


@pytest.mark.parametrize("body", [compress(b""), WHOLE])
def test_what_is_compressed_and_unusual_is_left_to_it_too(body: bytes) -> None:
    assert registration.read(body, compressed=True) is None


def test_a_field_of_another_type_is_an_error() -> None:
    with pytest.raises(TypeError):
        registration.topic_table({"T": TopicConfig("T", read_queue_nums="four")})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["perm", "readQueueNums", "writeQueueNums", "topicSysFlag"])
def test_a_row_with_a_number_that_java_cannot_hold_is_refused(name: str) -> None:
    row = TopicConfig("T").to_plain()
    assert TopicConfig.from_plain({**row, name: 2**31 - 1}).to_plain()[name] == 2**31 - 1
    with pytest.raises(BodyError, match=name):
        TopicConfig.from_plain({**row, name: 2**31})
