"""Bytes that are no record cost a clear error, never a crash or a read outside the buffer."""

import sys
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mqcommon.message import DecodeError, decode_messages, decompress_body
from tests.common.golden import records
from tests.examples import examples

RECORD = records("store")[0][0]


def read_all(body: bytes) -> None:
    """Read every attribute of each record that decodes."""
    try:
        messages = decode_messages(body)
        for message in messages:
            _ = (str(message), message.tags, message.msg_id, message.detach())
    except DecodeError as error:
        assert str(error)


@pytest.mark.parametrize("length", range(1, len(RECORD)))
def test_a_record_cut_at_any_byte_is_refused(length):
    with pytest.raises(DecodeError, match="record at byte 0 of"):
        decode_messages(RECORD[:length])
    with pytest.raises(DecodeError, match=f"record at byte {len(RECORD)} of"):
        decode_messages(RECORD + RECORD[:length])


@pytest.mark.parametrize("at", range(len(RECORD)))
def test_any_byte_may_be_wrong(at):
    for wrong in (0, 1, 0x7F, 0x80, 0xFF, RECORD[at] ^ 1):
        read_all(RECORD[:at] + bytes([wrong]) + RECORD[at + 1 :])


@given(st.binary(max_size=400))
@examples(300)
def test_random_bytes(body):
    read_all(body)


@given(st.data())
@examples(300)
def test_random_numbers_in_the_length_fields(data):
    record = bytearray(RECORD)
    for at, size in ((0, 4), (36, 4), (84, 4), (104, 1), (114, 2)):
        if data.draw(st.booleans()):
            record[at : at + size] = data.draw(st.binary(min_size=size, max_size=size))
    read_all(bytes(record))


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, b"\0\0\0\x10", "below the smallest"),
        (0, b"\x7f\xff\xff\xff", "beyond the end of the buffer"),
        (4, b"\xcb\xd4\x31\x94", "unknown magic"),
        (84, b"\xff\xff\xff\xff", "body length is negative"),
        (84, b"\x7f\xff\xff\xff", "body length is negative or reaches beyond"),
        (104, b"\xff", "topic length reaches beyond"),
        (114, b"\xff\xff", "properties do not end"),
        (36, b"\0\0\0\x30", "."),
    ],
)
def test_each_error_names_its_field(at, value, words):
    record = RECORD[:at] + value + RECORD[at + len(value) :]
    with pytest.raises(DecodeError, match=words):
        decode_messages(record)


def test_a_date_out_of_range_is_an_error_only_when_asked_for():
    record = RECORD[:40] + b"\x7f" + RECORD[41:]
    (message,) = decode_messages(record)
    assert message.born_timestamp_ms > 2**62
    with pytest.raises(DecodeError, match="not a date"):
        _ = message.born_timestamp


BODY = b"hello " * 100


@pytest.mark.parametrize(
    ("sys_flag", "packed"),
    [
        (0x001, zlib.compress(BODY)),
        (0x301, zlib.compress(BODY)),
        (0x201, zstandard.compress(BODY)),
    ],
)
def test_compressed_bodies(sys_flag, packed):
    assert decompress_body(packed, sys_flag) == BODY
    assert decompress_body(packed, sys_flag & ~1) == packed
    with pytest.raises(DecodeError, match="does not decompress"):
        decompress_body(packed[: len(packed) // 2], sys_flag)
    with pytest.raises(DecodeError, match="does not decompress"):
        decompress_body(b"not compressed at all", sys_flag)


@pytest.mark.parametrize("sys_flag", [0x301, 0x201])
def test_a_bomb_stops_at_the_cap(sys_flag):
    compress = zlib.compress if sys_flag == 0x301 else zstandard.compress
    with pytest.raises(DecodeError, match="grows beyond 67108864"):
        decompress_body(compress(bytes((64 << 20) + 1)), sys_flag)


def test_a_missing_codec_is_named(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [])
    for module in [name for name in sys.modules if name.split(".")[0] in ("lz4", "zstandard")]:
        monkeypatch.delitem(sys.modules, module)
    for advice, sys_flag in (("pip install 'mqstack.lz4.'", 0x101), ("zstandard", 0x201)):
        with pytest.raises(DecodeError, match=advice):
            decompress_body(b"x", sys_flag)
    with pytest.raises(DecodeError, match="unknown compression type 0x400"):
        decompress_body(b"x", 0x401)
