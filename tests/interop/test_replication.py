"""A slave of ours copies a Java master, and a Java slave copies a master of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqclient import LitePullConsumer, Message, Producer, ReceivedMessage
from mqcommon.message import decode_messages
from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from tests.interop.clusters import BROKER, Maker
from tests.interop.conf import SMALL_STORE
from tests.interop.java_servers import JavaBroker
from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.waiting import answer_of, until

FAST = {**SMALL_STORE, "haSendHeartbeatInterval": 500}
SLAVE = {**FAST, "brokerRole": "SLAVE", "brokerId": 1}
TOPIC, QUEUES, COUNT = "Replicated", 4, 400
JOINED = re.compile(r"\b(waiting|verifying|transfer)\b")
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
        self.master: Broker = BROKER[of_master](home / "master", names.address, settings=FAST)
        self.running.append(self.master)
        self.slave: Broker = BROKER[of_slave](home / "slave", names.address, settings=SLAVE)
        self.running.append(self.slave)

    def fill(self) -> None:
        """Send the messages."""
        assert until(self._is_joined)  # a slave that joins later begins at the last file
        with Probe(self.master.address) as probe:
            fields = {
                "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": str(QUEUES),
                "writeQueueNums": str(QUEUES), "perm": "6", "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": "0", "order": "false",
            }  # fmt: skip
            assert probe.call(Frame(Code.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
        self.bodies = [b"%d" % number for number in range(COUNT)]
        with Producer(self.namesrv) as producer:
            for body in self.bodies[: COUNT // 2]:
                producer.send(Message(TOPIC, body, keys=f"k{body.decode()}", tags="T"))
            producer.send([Message(TOPIC, body) for body in self.bodies[COUNT // 2 :]])

    def _is_joined(self) -> bool:
        """Whether the slave has reported where it is; the broker of ours says so."""
        ours = self.master if isinstance(self.master, OurBroker) else self.slave
        figures = figures_of(ours).items()
        return any(key.startswith("ha") and JOINED.search(value) for key, value in figures)

    def stop(self) -> None:
        for server in reversed(self.running):
            server.discard()


@pytest.fixture(
    scope="module", params=[("java", "ours"), ("ours", "java")], ids=["of Java", "Java's"]
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


def figures_of(broker: Broker) -> dict[str, str]:
    with Probe(broker.address) as probe:
        return KVTable.from_json(probe.call(Frame(Code.GET_BROKER_RUNTIME_INFO)).body).table


def end_of(broker: Broker) -> int:
    """The end of a broker's log."""
    return int(figures_of(broker)["commitLogMaxOffset"])


def queue_end(broker: Broker, queue_id: int) -> int:
    with Probe(broker.address) as probe:
        fields = {"topic": TOPIC, "queueId": str(queue_id)}
        return int(probe.call(Frame(Code.GET_MAX_OFFSET, fields)).fields["offset"])


def test_the_logs_are_the_same_byte_for_byte(pair: Pair) -> None:
    end = end_of(pair.master)
    answer_of(lambda: end_of(pair.slave), lambda copied: copied == end)
    files = sorted(path.name for path in (pair.master.store / "commitlog").iterdir())
    copied = sorted(path.name for path in (pair.slave.store / "commitlog").iterdir())
    written = [name for name in files if int(name) < end]
    assert len(written) > 1, "the log has several files"
    assert set(written) <= set(copied)
    for name in written:
        size = min(SMALL_STORE["mappedFileSizeCommitLog"], end - int(name))
        of_master, of_slave = (
            (broker.store / "commitlog" / name).read_bytes()[:size]
            for broker in (pair.master, pair.slave)
        )
        assert of_slave == of_master, name


def test_the_queues_and_keys_are_the_masters(pair: Pair) -> None:
    ends = [queue_end(pair.master, queue_id) for queue_id in range(QUEUES)]
    assert sum(ends) == COUNT
    answer_of(
        lambda: [queue_end(pair.slave, queue_id) for queue_id in range(QUEUES)],
        lambda copied: copied == ends,
    )
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
    with Probe(pair.slave.address) as probe:
        refused = probe.call(Frame(Code.UPDATE_AND_CREATE_TOPIC, {"topic": "Other"}))
        assert refused.code == 1
        assert refused.remark is not None and "slave broker" in refused.remark
