"""Every frame that RocketMQ put on the wire is read, and written again byte for byte."""

import pytest

from mqcommon.wire import Frame, FrameError, decode, encode
from mqcommon.wire.codes import LanguageCode, SerializeType
from tests.common.wire.golden import SESSIONS, frames

DOUBLED = {"acl-rocketmq.jsonl.gz"}
"""Java writes the fields of a signed send twice, alike, into a binary header; we do not."""


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name.split(".")[0])
def test_session(session):
    count = 0
    for recorded in frames(session):
        frame = decode(recorded.data)
        line = recorded.line
        assert frame.code == line["code"]
        assert frame.opaque == line["opaque"]
        assert frame.flag == line["flag"]
        assert frame.version == line["version"]
        assert frame.remark == line.get("remark")
        assert SerializeType(frame.serialize).name == line["serialize"]
        assert LanguageCode(frame.language).name == line["language"]
        if not recorded.hand_made and session.name not in DOUBLED:
            assert encode(frame) == recorded.data
        assert decode(encode(frame)) == frame
        count += 1
    assert count


def request(serialize=0, **changes) -> Frame:
    return Frame(105, {"topic": "主题"}, b"body", serialize=serialize, **changes)


@pytest.mark.parametrize("serialize", [0, 1])
def test_reply_echoes_opaque_and_serialisation(serialize):
    asked = request(serialize, opaque=-7)
    reply = decode(encode(asked.reply(17, "No topic")))
    assert reply == Frame(
        17, {}, b"", opaque=-7, flag=1, remark="No topic", serialize=serialize, has_fields=False
    )
    assert reply.is_response
    assert not asked.is_response


@pytest.mark.parametrize("serialize", [0, 1])
def test_cut_anywhere_is_an_error(serialize):
    data = encode(request(serialize, remark="r"))
    for end in range(len(data)):
        with pytest.raises(FrameError):
            decode(data[:end])


@pytest.mark.parametrize("serialize", [0, 1])
def test_a_broken_header_is_an_error_or_another_frame(serialize):
    data = encode(request(serialize))
    for position in range(4, len(data) - 4):
        for value in (0, 0x7F, 0xFF):
            broken = data[:position] + bytes([value]) + data[position + 1 :]
            try:
                decode(broken)
            except FrameError:
                continue


def test_codes_above_int16_do_not_fit_the_binary_header():
    assert decode(encode(Frame(200050))).code == 200050
    with pytest.raises(FrameError, match="200050"):
        encode(Frame(200050, serialize=1))


def test_frame_over_16_mib_is_refused():
    with pytest.raises(FrameError, match="16777216"):
        encode(Frame(10, body=bytes(16 * 1024 * 1024)))


def test_careless_json_is_read_as_java_reads_it():
    header = b'{"code":"11","extFields":{"queueId":3,"on":true,"x":null},"language":9,"new":1}'
    frame = decode(b"\0\0\0" + bytes([4 + len(header)]) + b"\0\0\0" + bytes([len(header)]) + header)
    assert frame.code == 11
    assert frame.fields == {"queueId": "3", "on": "true"}
    assert frame.language == LanguageCode.GO
