"""A pull of messages outside the page cache runs on threads that may wait for the disk."""

from __future__ import annotations

from mqstore import decode_messages
from tests.server.cold import BODY
from tests.server.native import Broker


def test_cold_pulls_are_answered_by_the_pool(cold_broker: Broker) -> None:
    cold = cold_broker.listener.counters
    assert cold()["cold_reads"] == 0
    for _ in range(2):  # the second pull reads memory and needs no pool
        reply = cold_broker.pull(0, maxMsgNums="1")
        (message,) = decode_messages(reply.body)
        assert (reply.code, message.body, message.queue_offset) == (0, BODY, 0)
        assert cold()["cold_reads"] == 1


def test_a_reset_group_is_told_where_to_go_on(broker):
    for _ in range(3):
        broker.send(b"x", e="0")
    broker.wait_readable(3)
    broker.store.reset_offset("g", "T", 0, 1)
    moved = broker.pull(3)
    assert (moved.code, moved.remark) == (21, "OFFSET_RESET")
    assert moved.fields["nextBeginOffset"] == "1"
    assert decode_messages(broker.pull(1).body)[0].queue_offset == 1
