"""Arrow columns hold the same values as the messages, for Java's stores and for odd records."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcommon import _core
from mqcommon.message import COLUMN_LAYOUTS, DecodeError, decode_messages, encode_properties
from mqstore.arrow import BatchBuilder, arrow_schema
from tests.common.golden import GOLDEN, records
from tests.common.test_json_lines import TEXT, record
from tests.common.test_json_lines import by_python as lines_by_python
from tests.examples import examples

STORES = [path.parent.name for path in GOLDEN.glob("store*/expected.jsonl.gz")]
RENAMED = {
    "raw_properties": lambda m: m.stored_properties.decode("utf-8", "replace"),
    "keys": lambda m: m.properties.get("KEYS"),
    "properties": lambda m: list(m.properties.items()),
    "born_timestamp": lambda m: m.born_timestamp_ms * 1000,
    "store_timestamp": lambda m: m.store_timestamp_ms * 1000,
}


def by_python(message):
    return {
        name: RENAMED[name](message) if name in RENAMED else getattr(message, name)
        for name in COLUMN_LAYOUTS
    }


def rows(batch):
    columns = {}
    for name in COLUMN_LAYOUTS:
        column = batch.column(name)
        is_time = pa.types.is_timestamp(column.type)
        columns[name] = (column.cast(pa.int64()) if is_time else column).to_pylist()
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def check(bodies):
    builder = BatchBuilder(arrow_schema(COLUMN_LAYOUTS))
    batches = []
    for body in bodies:
        assert builder.add(body) == len(decode_messages(body))
        batches.append(builder.take())
        batches[-1].validate(full=True)
    for body, batch in zip(bodies, batches, strict=True):  # the earlier ones stayed as they were
        assert rows(batch) == [by_python(message) for message in decode_messages(body)]


@pytest.mark.parametrize("name", STORES)
def test_every_record_that_java_wrote(name):
    stored = [body for body, _ in records(name)]
    parts = [b"".join(stored[at : at + 333]) for at in range(0, len(stored), 333)]
    check([b"".join(stored), *parts])


def test_memory_is_lent_and_used_again():
    body = b"".join(stored for stored, _ in records("store"))
    builder = BatchBuilder(arrow_schema(["properties", "topic"]))
    rows = [list(message.properties.items()) for message in decode_messages(body)]
    expected = None
    kept = None
    for _ in range(20):
        builder.add(body)
        batch = builder.take()
        kept = kept or batch.slice(7, 5)
        found = batch.column("properties")
        expected = expected or pa.array(rows, found.type)
        assert found.equals(expected)
        del batch, found  # the builder uses their memory again
    assert kept.column("properties").to_pylist() == rows[7:12]


PROPERTIES = st.lists(
    st.one_of(
        st.tuples(TEXT, st.sampled_from([b"\1", b"", b"\1\1"]), TEXT).map(b"".join),
        st.sampled_from([b"TAGS\1TagA", b"KEYS\1a b", b"UNIQ_KEY\1" + b"F" * 32, b"CLUSTER\1c"]),
    ),
    max_size=9,
).map(b"\2".join)


@given(st.lists(st.tuples(st.text(max_size=9).map(str.encode), PROPERTIES), max_size=300))
@examples(60)
def test_any_topic_and_properties(parts):
    check([b"".join(record(topic, b"body", properties) for topic, properties in parts)])


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from([b"", b"\1", b"\2", b'"', b"x", b"\xe9"]))
    )
)
@examples(100)
def test_properties_like_the_last_ones(changes):
    usual = b"UNIQ_KEY\1AAAA\2TAGS\1a\2KEYS\1b c\2"
    texts = [usual[:at] + byte + usual[at + len(byte) :] for at, byte in changes]
    both = [text for each in texts for text in (usual.replace(b"A", b"Q"), each)]
    body = b"".join(record(b"T", properties=text) for text in both)
    check([body])
    assert _core.json_lines(body, "none") == lines_by_python(body, "none")


def test_more_properties_than_usual():
    many = encode_properties({f"name{i}": "v" * (i % 9 + 1) for i in range(200)})
    some = encode_properties({f"name{i}": "é" if i == 7 else "v" for i in range(20)})
    few = encode_properties({f"n{i}": "value" for i in range(60)})
    check([b"".join(record(b"T", properties=p) for p in [few, many, some] * 70)])


def test_wide_hosts_and_packed_bodies():
    import zlib

    hosts = (bytes(range(20)), bytes([1, 2, 3, 255]) + b"\0\0\x2a\x9f")
    packed = zlib.compress(b"body" * 50)
    check([record(hosts=hosts, sys_flag=0x11, body=packed) + record()])


def test_rows_before_a_malformed_record_are_kept():
    builder = BatchBuilder(arrow_schema(["topic"]))
    whole = record(b"Topic")
    with pytest.raises(DecodeError, match=f"record at byte {len(whole)} of"):
        builder.add(whole + whole[:50])
    assert builder.take().column("topic").to_pylist() == ["Topic"]
