"""A broker stopped or killed under load; the other maker's broker opens its store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore
from mqcommon.message import decode_messages
from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.calls import group_calls, topic_calls
from mqcommon.wire.headers.admin import CreateTopicRequestHeader
from tests.interop.clusters import Maker
from tests.interop.contents import Contents, Server, assert_served, in_log
from tests.interop.load import QUEUES, Acknowledged, Load
from tests.interop.our_servers import OurNamesrv
from tests.interop.turns import Turns

BEFORE_END = 400
"""Acknowledged messages before the broker ends: several files of the log."""
TOPIC, ODD_TOPIC = "TopicLoad", "TopicOdd"
GROUP = "load_readers"
ODD_GROUP = GroupConfig(
    "odd_group", consume_broadcast_enable=False, retry_queue_nums=3, retry_max_times=5
)


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OurNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.stop()


def set_up(server: Server) -> None:
    """A topic and a group with values that are not the defaults, and committed offsets."""
    topics = ((TOPIC, QUEUES, 6), (ODD_TOPIC, 3, 4))
    for topic, reads, perm in topics:
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=reads,
            write_queue_nums=QUEUES,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
        )
        server.ask(topic_calls.create_topic(header))
    server.ask(group_calls.create_subscription_group(ODD_GROUP))


def commit(server: Server) -> None:
    for queue_id in range(QUEUES):
        server.commit(GROUP, (TOPIC, queue_id), 5 + queue_id)


def check_acknowledged(loads: list[Load], contents: Contents) -> None:
    for message in (message for load in loads for message in load.acknowledged):
        record = contents[TOPIC, message.queue_id][message.queue_offset]
        (stored,) = decode_messages(record)
        assert stored.body == message.body
        assert stored.commit_log_offset == message.physical_offset
        assert stored.keys == (message.key.replace(" ", "-"),)


def check_found(server: Server, messages: list[Acknowledged]) -> None:
    for message in messages:
        record = server.by_offset(message.physical_offset)
        assert record is not None and decode_messages(record)[0].body == message.body
        found = [decode_messages(hit)[0] for hit in server.by_key(TOPIC, message.key)]
        assert message.physical_offset in [hit.commit_log_offset for hit in found], message


@pytest.mark.parametrize("ending", ["stopped", "killed"])
@pytest.mark.parametrize(("first", "second"), [("ours", "java"), ("java", "ours")])
def test_nothing_acknowledged_is_lost_between_makers(
    first: Maker, second: Maker, ending: str, namesrv: str, tmp_path: Path
) -> None:
    with Turns(tmp_path, namesrv) as turns:
        loads = [load_until(turns, first, ending)]
        contents = in_log(turns.store)
        check_acknowledged(loads, contents)
        loads.append(serve_and_go_on(turns, second, contents, loads))
        if ending == "stopped":
            table = turns.state("consumerOffset.json")["offsetTable"]
            assert table[f"{TOPIC}@{GROUP}"] == {"0": 5, "1": 6, "2": 7, "3": 8}
        contents = in_log(turns.store)
        loads.append(serve_and_go_on(turns, first, contents, loads))
        check_acknowledged(loads, in_log(turns.store))
        report = mqstore.open(turns.store).verify()
        assert not report.findings
        assert report.records == sum(map(len, in_log(turns.store).values()))


def load_until(turns: Turns, maker: Maker, ending: str) -> Load:
    """Load a broker until it ends in this way; return the load with its acknowledged messages."""
    broker = turns.start(maker)
    with Server(broker.address) as server:
        set_up(server)
    load = Load(broker.address, TOPIC)
    load.start()
    load.await_count(BEFORE_END)
    if ending == "killed":
        broker.kill()
        load.stop()
        return load
    load.stop()
    with Server(broker.address) as server:
        commit(server)
    broker.stop()
    return load


def serve_and_go_on(turns: Turns, maker: Maker, contents: Contents, loads: list[Load]) -> Load:
    """Start a broker that serves all messages and stores some more, and stop it."""
    broker = turns.start(maker)
    with Server(broker.address) as server:
        assert_served(server, contents)
        for load in loads:
            check_found(server, load.acknowledged[::7])
        check_topics(server)
        if maker == "java":
            groups = server.ask(group_calls.all_subscription_groups()).subscription_group_table
            assert groups[ODD_GROUP.group_name] == ODD_GROUP
    more = Load(broker.address, TOPIC, threads=1)
    more.start()
    more.await_count(50)
    more.stop()
    broker.stop()
    check_state(turns)
    return more


def check_topics(server: Server) -> None:
    table = server.ask(topic_calls.all_topic_config()).topic_config_table
    odd = table[ODD_TOPIC]
    assert (odd.read_queue_nums, odd.write_queue_nums, odd.perm) == (3, QUEUES, 4)
    assert table[TOPIC].write_queue_nums == QUEUES


def check_state(turns: Turns) -> None:
    """The topic and group files hold the test's values, whether Java or we wrote them last."""
    topics = turns.state("topics.json")["topicConfigTable"]
    odd = {"perm": 4, "readQueueNums": 3, "writeQueueNums": QUEUES, "topicName": ODD_TOPIC}
    assert odd.items() <= topics[ODD_TOPIC].items()
    groups = turns.state("subscriptionGroup.json")["subscriptionGroupTable"]
    assert groups[ODD_GROUP.group_name] == ODD_GROUP.to_plain()
