"""The parts of a consumer that need no IO: allocation, tags, held messages and flow control."""

import pytest

from mqclient import Limits
from mqclient.consumer.flow_control import too_much_held
from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.subscription import tag_subscription
from mqclient.settings.consumers import PushOptions
from mqcommon.message import MessageQueue, decode_messages
from mqcommon.names import java_hash
from tests.client.cluster import record

QUEUES = [MessageQueue("T", "a", i) for i in range(8)]


def test_tag_expressions():
    data = tag_subscription("T", " TagA||TagB || TagA ").data
    assert data.sub_string == "TagA||TagB || TagA"
    assert data.tags_set == ["TagA", "TagB"]
    assert data.code_set == [2598919, 2598920], "Java's String.hashCode, as recorded"
    everything = tag_subscription("T", "*")
    assert everything.tags is None
    assert everything.data.tags_set == []
    assert tag_subscription("T", "").data.sub_string == "*"
    with pytest.raises(ValueError, match="names no tag"):
        tag_subscription("T", "||")
    with pytest.raises(TypeError, match="expression"):
        tag_subscription("T", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "wanted"), [("", 0), ("Aa", 2112), ("标签", 857175), ("😀", 1772899), ("z" * 20, None)]
)
def test_java_hash(text, wanted):
    value = java_hash(text)
    assert -(1 << 31) <= value < 1 << 31
    if wanted is not None:
        assert value == wanted


def messages(*offsets: int):
    return decode_messages(b"".join(record(0, offset, "T", b"body", {}) for offset in offsets))


def first_after(held: ProcessQueue, consumed) -> int:
    """The offset to commit once these are consumed."""
    held.remove(consumed)
    return held.first_offset


def test_the_offset_to_commit_never_skips_what_is_held():
    held = ProcessQueue(QUEUES[0], 10)
    first, second, third = messages(10, 11, 14)
    held.add([first, second, third])
    held.next_offset = 15
    assert held.span == 4
    assert first_after(held, [second]) == 10
    assert first_after(held, [first]) == 14
    assert first_after(held, [third]) == 15
    assert first_after(held, [third]) == 15, "twice is once"
    assert held.bytes_held == 0
    assert len(held) == 0


def test_a_pull_is_let_go_of_at_once_or_bit_by_bit():
    held = ProcessQueue(QUEUES[0], 0)
    pulls = [messages(0, 1, 2), messages(3, 5), messages(6, 7)]
    for pulled in pulls:
        held.add(pulled)
    held.next_offset = 8
    assert (len(held), held.span, held.first_offset) == (7, 7, 0)
    assert first_after(held, pulls[1]) == 0, "a whole pull in the middle"
    assert first_after(held, pulls[0][:1]) == 1
    assert first_after(held, [pulls[2][1], pulls[0][1]]) == 2, "of two pulls"
    assert (len(held), held.span) == (2, 4)
    assert held.bytes_held == 2 * pulls[0][0].store_size
    assert held.first_message is pulls[0][2]
    assert first_after(held, pulls[0]) == 6, "what is gone already does not count twice"
    assert first_after(held, pulls[2]) == 8
    assert (len(held), held.span, held.bytes_held, held.first_message) == (0, 0, 0, None)
    assert first_after(held, pulls[2]) == 8
    assert first_after(held, []) == 8


def test_offsets_follow_what_is_consumed():
    offsets, held = MemoryOffsets(), ProcessQueue(QUEUES[0], 3)
    pulled = messages(3, 4, 5)
    held.add(pulled)
    held.next_offset = 6
    held.remove(pulled[:1])
    offsets.follow(held)
    assert offsets.get(QUEUES[0]) == 4
    held.remove(pulled[1:])
    offsets.follow(held)
    assert offsets.of_topic("T") == {QUEUES[0]: 6}
    offsets.follow(held)
    offsets.update(QUEUES[0], 2, forward_only=False)
    assert offsets.get(QUEUES[0]) == 2, "what is reset stays reset"
    offsets.follow(held)
    offsets.forget(QUEUES[0])
    assert offsets.get(QUEUES[0]) == 0


def test_flow_control():
    settings = PushOptions("g", limits=Limits(queue_messages=2, queue_offset_span=5))
    held = ProcessQueue(QUEUES[0], 0)
    held.add(messages(0, 1))
    assert too_much_held(held, settings) is None
    held.add(messages(9))
    assert too_much_held(held, settings) == "3 messages held, limit 2"
    roomy = PushOptions("g", limits=Limits(queue_offset_span=5))
    assert too_much_held(held, roomy) == "offsets span 9, limit 5"
    small = PushOptions("g", limits=Limits(queue_bytes=10))
    assert "bytes held" in str(too_much_held(held, small))
    orderly = PushOptions("g", limits=Limits(queue_offset_span=5), orderly=True)
    assert too_much_held(held, orderly) is None, "filters may leave gaps"


def test_flow_control_of_a_topic():
    held = ProcessQueue(QUEUES[0], 0)
    held.add(messages(0, 1, 2))
    settings = PushOptions("g", limits=Limits(total_messages=8))
    assert too_much_held(held, settings, 2) is None
    assert too_much_held(held, settings, 4) == "3 messages held, limit 2"
    assert too_much_held(held, settings, 100) == "3 messages held, limit 1"
    small = PushOptions("g", limits=Limits(total_bytes=held.bytes_held * 4))
    assert too_much_held(held, small, 4) is None
    assert "bytes held" in str(too_much_held(held, small, 5))
