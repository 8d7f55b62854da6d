"""A slave of ours copies a Java master, and a Java slave copies a master of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqclient import LitePullConsumer, Message, Producer, ReceivedMessage, SendStatus
from mqcommon._core import HaSlave
from mqcommon.message import decode_messages
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqstore import Settings, Store
from tests.interop.clusters import BROKER, Maker
from tests.interop.conf import SMALL_STORE
from tests.interop.java_servers import Java5Broker, JavaBroker
from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.replicas import (
    assert_equal_logs,
    create_topic,
    end_of,
    is_joined,
    log_bytes,
    queue_ends,
)
from tests.waiting import answer_of, until

FAST = {**SMALL_STORE, "haSendHeartbeatInterval": 500}
MASTER = {**FAST, "brokerRole": "SYNC_MASTER"}
SLAVE = {**FAST, "brokerRole": "SLAVE", "brokerId": 1}
FILE_BYTES = SMALL_STORE["mappedFileSizeCommitLog"]
SIZES = {"commit_log_file_bytes": FILE_BYTES, "index_slots": 100, "index_entries": 400}
TOPIC, QUEUES, COUNT = "Replicated", 4, 400
Broker = JavaBroker | OurBroker


class Pair:
    """A master and a slave that joined it while it was empty."""

    def __init__(self, home: Path, of_master: Maker, of_slave: Maker) -> None:
        for folder in ("namesrv", "master", "slave"):
            (home / folder).mkdir(parents=True)
        self.running: list[OurNamesrv | Broker] = []
        names = OurNamesrv(home / "namesrv")
        self.running.append(names)
        self.namesrv = names.address
        self.master: Broker = BROKER[of_master](home / "master", names.address, settings=MASTER)
        self.running.append(self.master)
        settings = SLAVE if of_slave != "java5" else {**SLAVE, "slaveReadEnable": "true"}
        self.slave: Broker = BROKER[of_slave](home / "slave", names.address, settings=settings)
        self.running.append(self.slave)

    def fill(self) -> None:
        """Send the messages; the slave acknowledges each."""
        assert until(self._is_joined)  # a slave that joins later begins at the last file
        create_topic(self.master.address, TOPIC, QUEUES)
        self.bodies = [b"%d" % number for number in range(COUNT)]
        with Producer(self.namesrv) as producer:
            sent = [
                producer.send(Message(TOPIC, body, keys=f"k{body.decode()}", tags="T"))
                for body in self.bodies[: COUNT // 2]
            ]
            batch = [Message(TOPIC, body) for body in self.bodies[COUNT // 2 :]]
            sent.append(producer.send(batch))
        assert {result.status for result in sent} == {SendStatus.SEND_OK}

    def _is_joined(self) -> bool:
        """Whether the slave has reported where it is; the broker of ours says so."""
        ours = self.master if isinstance(self.master, OurBroker) else self.slave
        return is_joined(ours.address)

    def stop(self) -> None:
        for server in reversed(self.running):
            server.discard()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("java", "ours"), id="of Java"),
        pytest.param(("ours", "java"), id="Java's"),
        pytest.param(("java5", "ours"), id="of Java 5", marks=pytest.mark.soak),
        pytest.param(("ours", "java5"), id="Java 5's", marks=pytest.mark.soak),
    ],
)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("replicated"), *request.param)
    try:
        made.fill()
        yield made
    finally:
        made.stop()


def test_the_logs_are_the_same_byte_for_byte(pair: Pair) -> None:
    assert len(list((pair.master.store / "commitlog").iterdir())) > 1, "the log has several files"
    assert_equal_logs(pair.master, pair.slave)


def test_the_queues_and_keys_are_the_masters(pair: Pair) -> None:
    ends = queue_ends(pair.master.address, TOPIC, QUEUES)
    assert sum(ends.values()) == COUNT
    answer_of(lambda: queue_ends(pair.slave.address, TOPIC, QUEUES), ends.__eq__)
    asked = {
        "topic": TOPIC, "key": "k7", "maxNum": "8", "beginTimestamp": "0",
        "endTimestamp": str(2**62),
    }  # fmt: skip
    with Probe(pair.slave.address) as probe:
        reply = answer_of(
            lambda: probe.call(Frame(Code.QUERY_MESSAGE, asked)), lambda reply: reply.code == 0
        )
    (message,) = decode_messages(reply.body, "broker-a")
    assert message.body == b"7"


@pytest.mark.parametrize("first_offset", [None, 0], ids=["the last file", "the first"])
def test_a_slave_that_joins_late_begins_at_a_file(
    pair: Pair, tmp_path: Path, first_offset: int | None
) -> None:
    settings = Settings(role="slave", min_free_bytes=0, **SIZES)
    with Store(tmp_path, settings, create=True) as copy:
        slave = HaSlave(copy, {})
        slave.start()
        try:
            slave.set_master(f"127.0.0.1:{pair.master.port + 1}", first_offset)
            end = end_of(pair.master.address)
            status = answer_of(slave.status, lambda status: status["offset"] == end)
        finally:
            slave.stop()
        start = copy.min_physical_offset()
        assert (status["state"], start) == (
            "transfer",
            0 if first_offset == 0 else end - end % FILE_BYTES,
        )
        assert log_bytes(tmp_path, start, end) == log_bytes(pair.master.store, start, end)


def test_a_slave_takes_no_topics(pair: Pair) -> None:
    if isinstance(pair.slave, Java5Broker):
        pytest.skip("RocketMQ 5.3.3 answers as if it had taken it")
    with Probe(pair.slave.address) as probe:
        refused = probe.call(Frame(Code.UPDATE_AND_CREATE_TOPIC, {"topic": "Other"}))
        assert refused.code == 1
        assert refused.remark is not None and "slave broker" in refused.remark


def test_consumers_go_on_from_the_slave(pair: Pair) -> None:
    """The last test of a pair: it ends the master."""
    with Probe(pair.slave.address) as probe:
        assert until(lambda: TOPIC.encode() in probe.call(Frame(Code.GET_ALL_TOPIC_CONFIG)).body)
    pair.running.remove(pair.master)
    pair.master.kill()
    with LitePullConsumer("G", pair.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(TOPIC)
        seen: list[ReceivedMessage] = []
        assert until(lambda: seen.extend(consumer.poll(timeout=0.5)) or len(seen) >= COUNT)
    assert {message.body for message in seen} == set(pair.bodies)
