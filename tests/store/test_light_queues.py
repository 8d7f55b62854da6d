"""`maxLmqConsumeQueueNum`: messages are refused once there are more light queues than that."""

from __future__ import annotations

import dataclasses

from mqstore import Store, encode_properties
from tests.store.test_engine import SMALL, wait_for

LIMITED = dataclasses.replace(
    SMALL, multi_dispatch_enabled=True, lmq_enabled=True, lmq_queues_max=1
)


def put(store, *names):
    names = ",".join(f"%LMQ%{name}" for name in names)
    return store.put("T", b"x", properties=encode_properties({"INNER_MULTI_DISPATCH": names}))


def test_no_more_messages_for_light_queues_beyond_the_limit(tmp_path):
    with Store(tmp_path / "store", LIMITED, create=True) as store:
        assert put(store, "a", "b").status == "PUT_OK"
        wait_for(lambda: store.max_offset("%LMQ%b", 0) == 1)
        refused = put(store, "a")
        assert (refused.status, refused.physical_offset) == ("LMQ_CONSUME_QUEUE_NUM_EXCEEDED", -1)
        assert store.put("T", b"for none").status == "PUT_OK"
        assert store.get("%LMQ%a", 0, 0).message_count == 1  # queues that exist stay readable
    with Store(tmp_path / "store", LIMITED) as store:
        assert put(store, "a").status == "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    off = dataclasses.replace(LIMITED, lmq_enabled=False)
    with Store(tmp_path / "store", off) as store:
        assert put(store, "a").status == "PUT_OK"
