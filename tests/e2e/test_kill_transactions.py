"""kill -9 of a broker while transactions run: each ends once, in the way its producer decided."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages
from tests.e2e.transactions import COMMIT, ROLLBACK, UNKNOWN, Half, join, prepared
from tests.waiting import answer_of

SETTINGS = {
    "transactionCheckInterval": "300",
    "transactionTimeOut": "300",
    "transactionCheckMax": "1000",
    "flushDiskType": "SYNC_FLUSH",
}
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TOPIC = "TopicKilled"
SENDERS = 3
ONE_WAY = 2
RECORDS_MAX = 8
"""Half records of one transaction at most, including the records of its checks."""


def decision(key: str) -> int:
    """The producer's decision: two of three transactions are committed."""
    return ROLLBACK if int(key.rpartition("-")[2]) % 3 == 0 else COMMIT


def ends_at_once(key: str) -> bool:
    """Whether the sender ends it; otherwise a check asks."""
    return int(key.rpartition("-")[2]) % 2 == 0


class Load:
    """Senders of half messages, and a producer that answers the broker's questions."""

    def __init__(self, address: str, life: int, enough: int) -> None:
        self._address, self._life, self._enough = address, life, enough
        self.acknowledged: list[str] = []
        self.has_enough = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(SENDERS)]
        self._threads.append(threading.Thread(target=self._answer))
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)

    def _send(self, sender: int) -> None:
        try:
            with Probe(self._address, timeout=60) as probe:
                for index in range(1_000_000):
                    key = f"{self._life}-{sender}-{index}"
                    half = Half(probe.call(prepared(TOPIC, key)), key)
                    self.acknowledged.append(key)
                    if len(self.acknowledged) >= self._enough:
                        self.has_enough.set()
                    end = half.end(decision(key) if ends_at_once(key) else UNKNOWN)
                    end.flag = ONE_WAY
                    probe.write(encode(end))
        except OSError:
            return

    def _answer(self) -> None:
        answer_questions(self._address, threading.Event())


def answer_questions(address: str, stop: threading.Event) -> None:
    """Answer checks until the broker is gone or, after an answer, `stop` is set."""
    try:
        with Probe(address, timeout=5) as probe:
            join(probe)
            while not stop.is_set():
                asked = probe.pushed.pop(0) if probe.pushed else probe.read()
                (message,) = decode_messages(asked.body)
                key = message.properties["UNIQ_KEY"]
                half = Half.__new__(Half)
                half.key = key
                half.queue_offset = int(asked.fields["tranStateTableOffset"])
                half.physical_offset = int(asked.fields["commitLogOffset"])
                end = half.end(decision(key), fromTransactionCheck="true")
                end.flag = ONE_WAY
                probe.write(encode(end))
    except OSError:
        return


def is_quiet(mq: Standalone) -> bool:
    """Whether the checks are done with every half message."""
    with Probe(mq.broker_address, timeout=60) as probe:
        fields = {"topic": HALF_TOPIC, "queueId": "0"}
        end = int(probe.call(Frame(30, fields)).fields["offset"])
        group = {"consumerGroup": "CID_RMQ_SYS_TRANS", **fields}
        reply = probe.call(Frame(14, group))
        return reply.code == 0 and int(reply.fields["offset"]) == end


@pytest.mark.parametrize(
    ("kills", "enough"),
    [(2, 200), pytest.param(17, 2_000, marks=pytest.mark.soak)],
    ids=["short", "17 kills"],
)
def test_each_transaction_ends_once_over_kills(tmp_path: Path, kills: int, enough: int) -> None:
    both = Standalone(data=tmp_path, settings=SETTINGS, process=True)
    acknowledged: list[str] = []
    try:
        mq = both.start()
        mq.topic(TOPIC)
        for life in range(kills):
            load = Load(mq.broker_address, life, enough)
            assert load.has_enough.wait(120)
            mq.kill()
            load.join()
            acknowledged += load.acknowledged
            mq.start()
        stop = threading.Event()
        answering = threading.Thread(target=answer_questions, args=(mq.broker_address, stop))
        answering.start()
        answer_of(lambda: is_quiet(mq), bool, 120)
        stop.set()
        stored = Counter(message.properties["UNIQ_KEY"] for message in mq.messages(TOPIC))
        with Probe(mq.broker_address) as probe:
            reply = probe.call(Frame(30, {"topic": HALF_TOPIC, "queueId": "0"}))
        records = int(reply.fields["offset"])
    finally:
        both.stop()
        answering.join(60)
    twice = [key for key, count in stored.items() if count > 1]
    wanted = {key for key in acknowledged if decision(key) == COMMIT}
    print(f"{len(acknowledged)} transactions, {len(wanted)} committed, {records} half records, "
          f"{len(stored)} delivered, {len(twice)} twice")  # fmt: skip
    assert not twice
    assert not wanted - stored.keys()
    assert not [key for key in stored if decision(key) == ROLLBACK]
    assert records < RECORDS_MAX * len(acknowledged)
