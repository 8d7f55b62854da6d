"""JSON lines rendered natively equal what Python's json makes of the same rows, byte for byte."""

import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcommon import _core
from mqcommon.message import decode_messages
from mqstore.cli.dump import message_row
from tests.common.golden import GOLDEN, records
from tests.examples import examples

MODES = ("none", "text", "hex", "base64")
STORES = [path.parent.name for path in GOLDEN.glob("store*/expected.jsonl.gz")]


def by_python(body, mode):
    rows = (message_row(message, mode) for message in decode_messages(body))
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def record(topic=b"T", body=b"", properties=b"", sys_flag=0, times=(0, 0), crc=None, hosts=None):
    """A stored message of these bytes."""
    born, store = hosts or (bytes(8), bytes(8))
    crc = zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc
    rest = struct.pack(">iiiqqi", crc, -1, -2, 3, 4, sys_flag)
    rest += struct.pack(">q", times[0]) + born + struct.pack(">q", times[1]) + store
    rest += struct.pack(">iqi", 5, -6, len(body)) + body
    rest += struct.pack(">B", len(topic)) + topic + struct.pack(">h", len(properties)) + properties
    return struct.pack(">iI", len(rest) + 8, 0xDAA320A7) + rest


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STORES)
def test_every_record_that_java_wrote(name, mode):
    body = b"".join(stored for stored, _ in records(name))
    assert _core.json_lines(body, mode) == by_python(body, mode)


@pytest.mark.parametrize("mode", MODES)
def test_damaged_and_compressed_bodies_say_so(mode):
    packed = zlib.compress(b"packed " * 20)
    for body in (
        record(body=b"damaged", crc=7),
        record(body=b"\xff\xfe not text \x00", crc=7),
        record(body=packed, sys_flag=1),
        record(body=packed[:-3], sys_flag=1),
        record(body=b"", sys_flag=0x701),
    ):
        assert _core.json_lines(body, mode) == by_python(body, mode)


TEXT = st.one_of(st.binary(max_size=12), st.text(max_size=8).map(str.encode))
PAIRS = st.lists(st.tuples(TEXT, st.sampled_from([b"\1", b""]), TEXT), max_size=6)
NAMES = st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"\xff", b"\xfe", b""])


@given(
    topic=st.text(max_size=20).map(str.encode).filter(lambda name: len(name) < 128),
    body=st.binary(max_size=40),
    pairs=PAIRS,
    known=st.lists(st.tuples(NAMES, st.just(b"\1"), TEXT), max_size=6),
    times=st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**48), 2**48)),
    hosts=st.tuples(st.binary(min_size=20, max_size=20), st.binary(min_size=8, max_size=8)),
)
@examples(400)
def test_any_record(topic, body, pairs, known, times, hosts):
    properties = b"\2".join(b"".join(pair) for pair in [*known, *pairs])
    stored = record(topic, body, properties, 0x10, times, hosts=hosts)
    for mode in MODES:
        assert _core.json_lines(stored * 2, mode) == by_python(stored * 2, mode)


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
@examples(300)
def test_any_time_of_the_calendar(time):
    stored = record(times=(time, time))
    assert _core.json_lines(stored, "none") == by_python(stored, "none")


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"none, text, hex or base64, not .xml"):
        _core.json_lines(b"", "xml")
    with pytest.raises(ValueError, match="bytes"):
        _core.json_lines(record()[:-1], "none")
    assert _core.json_lines(b"", "text") == b""


@given(st.binary(max_size=300))
@examples(200)
def test_any_bytes(body):
    try:
        lines = _core.json_lines(record()[:8] + body, "text")
    except ValueError as error:
        assert str(error)
    else:
        assert lines.count(b"\n") >= 1
