"""Stores with queue extensions and with light queues change hands between makers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore
from mqcommon.message import decode_messages
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqstore import encode_properties
from tests.interop.clusters import Maker
from tests.interop.contents import Contents, Server, assert_served, in_log
from tests.interop.load import QUEUES, Load
from tests.interop.our_servers import OurNamesrv
from tests.interop.turns import Turns
from tests.waiting import until

EXTENDED = {"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": 2048}
LIGHT = {"enableLmq": "true", "enableMultiDispatch": "true"}
ORDERS = pytest.mark.parametrize(("first", "second"), [("ours", "java"), ("java", "ours")])
ENDINGS = pytest.mark.parametrize("ending", ["stopped", "killed"])
TOPIC = "TopicLoad"
NAMES = ("%LMQ%alice", "%LMQ%bob", "plainqueue")
MESSAGES = 40
COMMITTED = (
    ("light_readers", ("TopicLight", 0), 7),
    ("%LMQ%alice", ("%LMQ%alice", 0), 5),  # a light group has one offset, in a table of its own
)


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OurNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.stop()


def load(turns: Turns, maker: Maker, ending: str, count: int) -> None:
    """Run a broker under load until it ends in this way."""
    broker = turns.start(maker)
    load = Load(broker.address, TOPIC)
    load.start()
    load.await_count(count)
    if ending == "killed":
        await_topic(turns, TOPIC)
        broker.kill()
    load.stop()
    if ending == "stopped":
        broker.stop()


def await_topic(turns: Turns, topic: str) -> None:
    """Wait until the topics file has a topic that a send created, which may follow the answer."""

    def is_there() -> bool:
        return turns.has("topics.json") and topic in turns.state("topics.json")["topicConfigTable"]

    assert until(is_there)


def tagged(contents: Contents, queue_id: int, tag: str) -> dict[int, bytes]:
    records = contents[TOPIC, queue_id]
    return {at: one for at, one in records.items() if decode_messages(one)[0].tags == tag}


def check_extended(turns: Turns, contents: Contents) -> None:
    """Every unit of the queues names a unit of the extension; the check finds nothing wrong."""
    reader = mqstore.open(turns.store)
    for queue_id in range(QUEUES):
        units = reader.queue_units(TOPIC, queue_id)
        assert len(units) == len(contents[TOPIC, queue_id])
        assert (units["tags_code"] < -(2**31)).all()
    assert not reader.verify().findings


@ENDINGS
@ORDERS
def test_a_store_with_queue_extensions(
    first: Maker, second: Maker, ending: str, namesrv: str, tmp_path: Path
) -> None:
    with Turns(tmp_path, namesrv, EXTENDED) as turns:
        load(turns, first, ending, 250)
        for maker in (second, first):
            contents = in_log(turns.store)
            broker = turns.start(maker)
            with Server(broker.address) as server:
                assert_served(server, contents)
                for queue_id in range(QUEUES):
                    for tag in ("TagA", "TagB"):
                        found = server.queue((TOPIC, queue_id), tag)
                        assert found == tagged(contents, queue_id, tag), (maker, queue_id, tag)
            more = Load(broker.address, TOPIC, threads=1)
            more.start()
            more.await_count(40)
            more.stop()
            broker.stop()
            check_extended(turns, in_log(turns.store))


def send_light(address: str, start: int) -> None:
    """Messages that enter one, two or all three further queues."""
    letters = {"a": "p", "b": "TopicLight", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    letters |= {"g": "1700000000000", "h": "0", "m": "false"}
    with Probe(address) as probe:
        for number in range(start, start + MESSAGES):
            names = ",".join(NAMES[: number % 3 + 1])
            text = encode_properties({"INNER_MULTI_DISPATCH": names, "KEYS": f"k{number}"})
            fields = {**letters, "i": text.decode()}
            reply = probe.call(Frame(310, fields, f"light {number}".encode()))
            assert (reply.code, reply.fields["queueOffset"]) == (0, str(number)), reply.remark


def check_light(turns: Turns, count: int) -> Contents:
    """Every queue matches the log, and every message got the next offset in each of its queues."""
    contents = in_log(turns.store)
    expected = [sum(number % 3 >= index for number in range(count)) for index in range(3)]
    reader = mqstore.open(turns.store)
    for name, length in zip(NAMES, expected, strict=True):
        assert sorted(contents[name, 0]) == list(range(length))
        stored = [decode_messages(one)[0].commit_log_offset for one in contents[name, 0].values()]
        units = reader.queue_units(name, 0)
        assert units["physical_offset"].tolist() == stored, name
    return contents


@ENDINGS
@ORDERS
def test_a_store_with_light_queues(
    first: Maker, second: Maker, ending: str, namesrv: str, tmp_path: Path
) -> None:
    with Turns(tmp_path, namesrv, LIGHT) as turns:
        broker = turns.start(first)
        send_light(broker.address, 0)
        if ending == "killed":
            await_topic(turns, "TopicLight")
            broker.kill()
        else:
            with Server(broker.address) as server:
                for group, queue, offset in COMMITTED:
                    server.commit(group, queue, offset)
            broker.stop()
        sent = MESSAGES
        for maker in (second, first):
            contents = in_log(turns.store)
            broker = turns.start(maker)
            with Server(broker.address) as server:
                if maker == "java":
                    served = {queue: contents[queue] for queue in contents if queue[0] != NAMES[2]}
                    assert_served(server, served)
                for group, queue, offset in COMMITTED if ending == "stopped" else ():
                    assert server.committed(group, queue) == offset
            send_light(broker.address, sent)
            sent += MESSAGES
            broker.stop()
            check_light(turns, sent)
        assert not mqstore.open(turns.store).verify().findings
