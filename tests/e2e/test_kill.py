"""kill -9 of a broker under load: every acknowledged SYNC_FLUSH message is there, once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone

SENDERS = 4
BEFORE_KILL = 200
"""Acknowledged messages before the broker is killed."""
PLANES = ("native", "python")


@pytest.fixture(params=PLANES)
def mq(request: pytest.FixtureRequest) -> Iterator[Standalone]:
    settings = {"dataPlane": request.param, "flushDiskType": "SYNC_FLUSH"}
    both = Standalone(settings=settings, process=True)
    try:
        yield both.start()
    finally:
        both.stop()


def send(topic: str, queue_id: int, body: bytes) -> Frame:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0"}
    return Frame(310, {**letters, "g": "1", "h": "0", "m": "false"}, body)


class Load:
    """Senders that record each acknowledged message, until the broker dies."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic
        self._lock = threading.Lock()
        self.acknowledged: list[bytes] = []
        self.enough = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(SENDERS)]

    def _run(self, number: int) -> None:
        try:
            with Probe(self._address, timeout=60) as probe:
                for index in range(1_000_000):
                    body = f"{number}-{index}".encode()
                    reply = probe.call(send(self._topic, index % 4, body))
                    assert reply.code == 0, reply.remark
                    self._note(body)
        except OSError:
            return

    def _note(self, body: bytes) -> None:
        with self._lock:
            self.acknowledged.append(body)
            if len(self.acknowledged) >= BEFORE_KILL:
                self.enough.set()


def test_every_acknowledged_message_is_there_once(mq: Standalone) -> None:
    topic = mq.topic()
    load = Load(mq.broker_address, topic)
    for thread in load.threads:
        thread.start()
    assert load.enough.wait(60)
    mq.kill()
    for thread in load.threads:
        thread.join(60)
    mq.start()
    stored = Counter(message.body for message in mq.messages(topic))
    missing = [body for body in load.acknowledged if stored[body] != 1]
    assert not missing
    unacknowledged = sum(stored.values()) - len(load.acknowledged)
    assert 0 <= unacknowledged <= SENDERS, "at most what was under way"
    offsets = [(m.queue_id, m.queue_offset) for m in mq.messages(topic)]
    assert len(set(offsets)) == len(offsets)


def test_the_topic_created_before_the_kill_is_still_known(mq: Standalone) -> None:
    topic = mq.topic(queues=3)
    mq.kill()
    mq.start()
    assert mq.topic(queues=4) != topic
    with Probe(mq.broker_address) as probe:
        assert probe.call(send(topic, 2, b"x")).code == 0
        assert probe.call(send(topic, 3, b"x")).code == 1


def test_a_topic_is_known_as_long_as_its_first_message(mq: Standalone) -> None:
    with Probe(mq.broker_address) as probe:
        assert probe.call(send("Fresh", 0, b"x")).code == 0
    mq.kill()
    mq.start()
    assert [m.body for m in mq.messages("Fresh")] == [b"x"]
