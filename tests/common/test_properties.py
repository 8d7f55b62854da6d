"""The properties text, by RocketMQ's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcommon import property_text
from mqcommon.message import decode_properties, encode_properties

TEXT = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1)


@given(st.dictionaries(TEXT, TEXT))
def test_what_is_written_reads_back_in_order(properties):
    text = encode_properties(properties)
    assert list(decode_properties(text).items()) == list(properties.items())
    assert decode_properties(text + b"\x02") == properties  # older brokers end with a separator


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        (b"", {}),
        (b"\x02\x02", {}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01", {}),
        (b"\x01b", {}),
        (b"lonely\x02a\x01b", {"a": "b"}),
        (b"a\x01b\x01c\x02d\x01e", {"a": "b\x01c", "d": "e"}),
        (b"a\x01first\x02a\x01last", {"a": "last"}),
        (b"\xff\x01\xfe", {"�": "�"}),
        ("schlüssel\x01wört".encode(), {"schlüssel": "wört"}),
    ],
)
def test_reading(text, pairs):
    assert decode_properties(text) == pairs


@given(st.binary())
def test_reading_never_fails(text):
    pairs = decode_properties(text)
    assert all(name and value for name, value in pairs.items())


def test_writing_refuses_what_would_damage_neighbours():
    assert encode_properties({"a": "b", "none": None, "c": "d"}) == b"a\x01b\x02c\x01d"
    for bad in ({"a\x01": "b"}, {"a": "b\x02"}, {"a\x02": "b"}):
        with pytest.raises(ValueError, match="0x01 or 0x02"):
            encode_properties(bad)
    for bad in ({1: "b"}, {"a": 1}):
        with pytest.raises(TypeError, match="must be str"):
            encode_properties(bad)


@given(st.dictionaries(TEXT, TEXT))
def test_single_pairs_agree_with_whole_mappings(properties):
    pairs = [property_text.Pair(*item) for item in properties.items()]
    text = property_text.text_of(pairs)
    assert text.encode() == encode_properties(properties)
    assert list(property_text.pairs_of(text)) == pairs
