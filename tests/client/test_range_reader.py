"""The range reader's interface: the plans that it accepts, and its errors for others."""

from __future__ import annotations

import pytest

from mqcommon._core import ColumnBuilder, RangeFailed, RangeReader

PLAN = {
    "master": "127.0.0.1:1",
    "broker_name": "broker-a",
    "topic": "T",
    "queue_id": 0,
    "first": 0,
    "end": 10,
    "group": "TOOLS_CONSUMER",
    "pull_count": 32,
    "pulls_in_flight": 4,
    "waiting_bytes": 1 << 20,
    "timeout": 5.0,
    "retry_timeout": 0.0,
}


@pytest.mark.parametrize("name", [name for name in PLAN if name != "master"])
def test_a_field_that_is_missing_is_named(name):
    plan = {key: value for key, value in PLAN.items() if key != name}
    with pytest.raises(ValueError, match=f"{name} is missing"):
        RangeReader({}, [plan])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"master": None}, "a master or a slave is needed"),
        ({"first": -1}, "the first offset is -1, but must be 0 or more"),
        ({"end": -1}, "the end is -1, but must be 0 or more, the first offset"),
        ({"pull_count": 0}, "the messages of a pull is 0, but must be 1 or more"),
        ({"pulls_in_flight": 0}, "the pulls in flight is 0, but must be 1 or more"),
        ({"waiting_bytes": 0}, "the bytes in wait is 0, but must be 1 or more"),
        ({"timeout": 0}, "the timeout of a pull is 0 s, but must be longer"),
        ({"tags": ["A"], "filter": "a > 1"}, "tags and filter exclude each other"),
    ],
)
def test_a_limit_that_cannot_be_is_named_with_its_value(change, text):
    with pytest.raises(ValueError, match=text):
        RangeReader({}, [PLAN | change])


def test_settings_are_those_of_a_connector():
    with pytest.raises(ValueError, match='no setting named "tsl"'):
        RangeReader({"tsl": None}, [])


def test_a_failure_has_its_kind_and_address():
    reader = RangeReader({}, [PLAN])
    for _ in ("once", "and again"):
        with pytest.raises(RangeFailed) as caught:
            reader.fill(ColumnBuilder(["body"]), 1, 1)
        kind, address, code, remark, text = caught.value.args
        assert (kind, address, code) == ("unreachable", "127.0.0.1:1", 0)
        assert "cannot connect" in remark
        assert text.startswith("T of broker-a, queue 0: the pull at offset 0 from 127.0.0.1:1 ")


def test_without_ranges_it_is_at_the_end_until_it_is_closed():
    reader, builder = RangeReader({}, []), ColumnBuilder(["body"])
    assert reader.fill(builder, 1, 1) == (True, [])
    reader.close()
    reader.close()
    with pytest.raises(RuntimeError, match="this reader is closed"):
        reader.fill(builder, 1, 1)
