"""Messages above a lowered number of read queues are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqadmin import main
from mqclient import Admin, LitePullConsumer, Message, Producer
from mqcommon.wire.bodies.topics import TopicConfig
from mqserver import Standalone
from mqstore.cli import main as mqstore_main

GROUP = "above_readers"


def lowered_topic(mq_broker: Standalone) -> str:
    """A topic of 4 queues with 2 messages each, that has 3 read queues now."""
    topic = mq_broker.topic(queues=4)
    with Producer(mq_broker.namesrv) as producer, Admin(mq_broker.namesrv) as admin:
        for queue in producer.queues(topic):
            for _ in range(2):
                producer.send(Message(topic, b"x"), queue=queue)
        mq_broker.wait_dispatched()
        with LitePullConsumer(GROUP, mq_broker.namesrv, consume_from="earliest") as consumer:
            consumer.subscribe(topic)
            consumer.wait_assigned()
            consumer.commit(dict.fromkeys(consumer.assignment(), 1))
        admin.topics.update(
            TopicConfig(topic, read_queue_nums=3, write_queue_nums=4),
            broker=mq_broker.broker_address,
        )
        while admin.topics.route(topic).queue_datas[0].read_queue_nums != 3:
            pass
        (queue,) = [one for one in producer.queues(topic) if one.queue_id == 3]
        assert admin.offsets.unreadable(topic) == {queue: 2}
    return topic


@pytest.fixture
def lowered(mq_broker: Standalone) -> str:
    return lowered_topic(mq_broker)


@pytest.mark.parametrize("words", [["consumerProgress", "-g", GROUP], ["statsAll", "-t"]])
def test_commands_note_messages_above_the_number_of_read_queues(
    mq_broker: Standalone, lowered: str, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    words = [*words, lowered] if words[-1] == "-t" else words
    assert main([*words, "-n", mq_broker.namesrv, "--output", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    (line,) = [one for one in err.splitlines() if lowered in one]
    assert "2 messages are in queues above its number of read queues (broker-a/3)" in line
    assert line.endswith(f"mqadmin updateTopic -t {lowered} -r 4")


def test_a_store_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Standalone(data=tmp_path) as mq:
        topic = lowered_topic(mq)
    assert mqstore_main(["stat", str(tmp_path), "--output", "table"]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if topic in one]
    assert "queue 3 is above its number of read queues and holds 2 messages" in line
    assert mqstore_main(["stat", str(tmp_path), "--output", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    found = (row[0] if isinstance(row, list) else row)["aboveReadCount"]
    assert found == [{"topic": topic, "queueId": 3, "messages": 2}]
