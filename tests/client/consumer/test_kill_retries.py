"""kill -9 of a broker while a group's handlers fail: each message is handled, in its order."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from mqclient import Message, MessageQueue, Orderly, Producer, Pull, PushConsumer
from mqserver.embedded.standalone import Standalone
from tests.waiting import until

QUEUES = 4
SETTINGS = {"flushDiskType": "SYNC_FLUSH", "messageDelayLevel": "1s 1s 1s 1s 1s 1s 1s 1s"}
OPTIONS = {
    "consume_from": "earliest",
    "rebalance_interval": 1.0,
    "pull": Pull(long_poll_timeout=1.0),
}
RETRY_DELAY = 0.1


FAILURES = 2
"""Of every third message, before it is handled."""


class Handler:
    """Fails the first times for every third message; notes each call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: Counter[bytes] = Counter()
        self.handled: list[tuple[int, int, bytes]] = []

    def __call__(self, messages, _context) -> None:  # type: ignore[no-untyped-def]
        (message,) = messages
        number = int(message.body)
        with self._lock:
            self.calls[message.body] += 1
            if number % 3 == 0 and self.calls[message.body] <= FAILURES:
                raise RuntimeError("not yet")
            self.handled.append((number % QUEUES, number, message.body))


@pytest.mark.parametrize("orderly", [False, True], ids=["retries", "orderly"])
@pytest.mark.parametrize(
    ("kills", "count"),
    [(2, 120), pytest.param(17, 1_000, marks=pytest.mark.soak)],
    ids=["short", "17 kills"],
)
def test_each_message_is_handled_over_kills(
    tmp_path: Path, orderly: bool, kills: int, count: int
) -> None:
    both = Standalone(data=tmp_path, settings=SETTINGS, process=True)
    handler, sent = Handler(), []
    try:
        mq = both.start()
        topic = mq.topic(queues=QUEUES)
        order = {"orderly": Orderly(retry_delay=RETRY_DELAY)} if orderly else {}
        with PushConsumer("g_killed", mq.namesrv, **order, **OPTIONS) as consumer:
            consumer.subscribe(topic, "*", handler)
            for life in range(kills):
                with Producer(mq.namesrv) as producer:
                    for number in range(life * count, (life + 1) * count):
                        queue = MessageQueue(topic, "broker-a", number % QUEUES)
                        producer.send(Message(topic, b"%d" % number), queue=queue)
                        sent.append(b"%d" % number)
                assert until(lambda: len(handler.handled) > len(sent) // 3)
                mq.kill()
                mq.start()
            wanted = set(sent)
            # Each failure of an orderly consumer pauses its queue.
            failures = FAILURES * len(sent) / 3 / QUEUES
            timeout = 180 + 2 * failures * RETRY_DELAY
            assert until(lambda: wanted <= {body for *_, body in handler.handled}, timeout)
    finally:
        both.stop()
    times = Counter(body for *_, body in handler.handled)
    twice = sum(count > 1 for count in times.values())
    print(f"{len(sent)} stored, {len(times)} delivered, {twice} twice")
    assert times.keys() == set(sent)
    if orderly:
        firsts: dict[bytes, tuple[int, int]] = {}
        for queue_id, number, body in handler.handled:
            firsts.setdefault(body, (queue_id, number))
        for queue_id in range(QUEUES):
            order = [number for at, number in firsts.values() if at == queue_id]
            assert order == sorted(order)
