"""Everywhere, a time means the first message that was stored at or after it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from mqclient import Admin, LitePullConsumer, Message, MessageQueue, Producer, PushConsumer
from mqserver.embedded.standalone import Standalone
from tests.waiting import until

BATCH = 100
"""Messages of one batch, which are stored in the same millisecond."""


@pytest.fixture(scope="module")
def stored() -> Iterator[tuple[Standalone, str, list[int]]]:
    """A queue of three batches, each stored in another millisecond, and their store times."""
    with Standalone() as mq:
        topic = mq.topic("Times", queues=1)
        with Producer(mq.namesrv) as producer:
            for batch in range(3):
                producer.send([Message(topic, b"%d" % batch)] * BATCH)
                mq.wait_dispatched()
                last = mq.messages(topic)[-1].store_timestamp_ms
                until(lambda last=last: datetime.now(UTC).timestamp() * 1000 > last + 20)
        yield mq, topic, [message.store_timestamp_ms for message in mq.messages(topic)]


def wanted(times: list[int], at_ms: int) -> int:
    return next((n for n, time in enumerate(times) if time >= at_ms), len(times))


def moments(times: list[int]) -> list[int]:
    """Times at, just before and just after each batch."""
    return [time + step for time in sorted(set(times)) for step in (-1, 0, 1, 8)]


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_searches_and_seeks_find_the_first_message(stored: Any) -> None:
    mq, topic, times = stored
    queue = MessageQueue(topic, "broker-a", 0)
    with LitePullConsumer(None, mq.namesrv) as consumer:
        consumer.assign([queue])
        for moment in moments(times):
            found = consumer.offset_for_timestamp(queue, at(moment))
            assert found == wanted(times, moment), moment
            (bulk,) = consumer.offsets_for_times({queue: at(moment)}).values()
            if bulk is None:
                assert found == len(times), "no message is that late"
            else:
                stored_ms = round(bulk.store_timestamp.timestamp() * 1000)
                assert (bulk.offset, stored_ms) == (found, times[found])
        consumer.seek(queue, at(times[BATCH]))
        assert consumer.position(queue) == wanted(times, times[BATCH])


def test_resets_go_to_the_first_message(stored: Any) -> None:
    mq, topic, times = stored
    queue = MessageQueue(topic, "broker-a", 0)
    with LitePullConsumer("times_reset", mq.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic)
        assert consumer.poll(timeout=10)
        consumer.commit()
        with Admin(mq.namesrv) as admin:
            for moment in moments(times):
                moved = admin.resets.online(topic, "times_reset", at(moment))
                assert moved == {queue: wanted(times, moment)}, moment
    with Admin(mq.namesrv) as admin:
        for moment in moments(times):
            (row,) = admin.resets.offline(topic, "times_reset", at(moment))
            assert row.rollback_offset == wanted(times, moment), moment


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
def test_a_young_queue_is_read_from_the_time_that_was_asked(stored: Any, kind: Any) -> None:
    mq, topic, times = stored
    moment = times[2 * BATCH] - 5
    options = {"consume_from": at(moment)}
    bodies: list[bytes] = []
    if kind is PushConsumer:
        consumer = PushConsumer("times_push", mq.namesrv, **options)
        consumer.subscribe(topic, "*", lambda messages, _: bodies.extend(m.body for m in messages))
        with consumer:
            until(lambda: len(bodies) >= BATCH)
    else:
        with LitePullConsumer("times_lite", mq.namesrv, **options) as lite:
            lite.subscribe(topic)
            while len(bodies) < BATCH:
                bodies += [message.body for message in lite.poll(timeout=10)]
    assert bodies == [b"2"] * BATCH
