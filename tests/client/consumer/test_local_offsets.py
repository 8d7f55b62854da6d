"""A broadcasting consumer's offsets: kept in a file through restarts and damage, or not at all."""

import asyncio
import logging
from collections import Counter

import pytest

from mqclient import Message, Producer, PushConsumer
from mqclient import aio as mqaio
from mqclient.consumer.local_offset_store import LocalOffsets
from mqcommon.message import MessageQueue
from tests.waiting import until

Q0, Q1 = (MessageQueue("T", "broker-a", i) for i in range(2))
JAVA_FILE = """{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:7
\t}
}"""
"""The format of RocketMQ 4.9.7's LocalFileOffsetStore."""


def read(mq, topic: str, count: int, **options) -> list[bytes]:
    """The messages that a consumer gets between its start and a stop after `count` messages."""
    bodies: list[bytes] = []
    options = {"model": "broadcasting", "consume_from": "earliest", **options}
    with PushConsumer("g_wide", mq.namesrv, **options) as consumer:
        consumer.on_message(topic)(lambda message: bodies.append(message.body))
        assert until(lambda: len(bodies) >= count), bodies
    return bodies


def send(mq, topic: str, *bodies: bytes) -> None:
    with Producer(mq.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body))


@pytest.mark.parametrize("orderly", [False, True])
def test_a_restart_goes_on_where_the_file_says(mq, tmp_path, orderly):
    topic, path = mq.topic(queues=2), tmp_path / "folder" / "offsets.json"
    send(mq, topic, b"0", b"1", b"2")
    options = {"offset_store": path, "orderly": orderly}
    assert sorted(read(mq, topic, 3, **options)) == [b"0", b"1", b"2"]
    send(mq, topic, b"3", b"4")
    assert sorted(read(mq, topic, 2, **options)) == [b"3", b"4"]


def test_without_an_offset_file_a_restart_is_logged_as_new(mq, caplog):
    topic = mq.topic(queues=1)
    send(mq, topic, b"0", b"1")
    with caplog.at_level(logging.INFO, "mqclient"):
        assert sorted(read(mq, topic, 2)) == [b"0", b"1"]
        assert sorted(read(mq, topic, 2)) == [b"0", b"1"]
    lines = [record.getMessage() for record in caplog.records]
    assert (
        Counter(lines)[
            "group g_wide broadcasts without offset_store: a restart begins at consume_from again"
        ]
        == 2
    )


async def loaded(path) -> LocalOffsets:
    offsets = LocalOffsets(str(path))
    await offsets.load()
    return offsets


async def test_offsets_are_kept_with_those_of_other_queues(tmp_path):
    path = tmp_path / "offsets.json"
    path.write_text(JAVA_FILE)
    offsets = await loaded(path)
    assert await offsets.fetch(Q0) == 7
    assert await offsets.fetch(Q1) is None
    offsets.update(Q1, 9)
    await offsets.commit([Q1])
    again = await loaded(path)
    assert [await again.fetch(queue) for queue in (Q0, Q1)] == [7, 9]
    written = path.read_bytes()
    assert written.startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:')
    before = path.stat().st_ino
    await again.commit([Q0, Q1])
    assert path.stat().st_ino == before, "what has not changed is not written"


@pytest.mark.parametrize("path", [None, "offsets.json"])
async def test_a_queue_that_comes_back_goes_on_where_it_was(tmp_path, path):
    offsets = LocalOffsets(path and str(tmp_path / path))
    offsets.update(Q0, 5)
    await offsets.commit_surely([Q0])
    offsets.forget(Q0)
    assert await offsets.fetch(Q0) == 5


async def test_a_damaged_file_is_replaced_by_its_previous_copy(tmp_path, caplog):
    path = tmp_path / "offsets.json"
    offsets = await loaded(path)
    for offset in (1, 2):
        offsets.update(Q0, offset)
        await offsets.commit([Q0])
    path.write_bytes(path.read_bytes()[:-5])
    assert await (await loaded(path)).fetch(Q0) == 1
    assert "does not hold offsets" in caplog.text
    (tmp_path / "offsets.json.bak").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"damaged: .*offsets\.json: .*remove it to start at consume_from again"
    ):
        await loaded(path)


async def test_a_file_that_cannot_be_written_is_logged_and_tried_again(tmp_path, caplog):
    folder = tmp_path / "folder"
    offsets = await loaded(folder / "offsets.json")
    folder.write_bytes(b"a file")
    offsets.update(Q0, 1)
    await offsets.commit([Q0])
    assert "offsets are not saved yet" in caplog.text
    folder.unlink()
    await asyncio.gather(*(offsets.commit_surely([Q0]) for _ in range(3)))
    assert await (await loaded(folder / "offsets.json")).fetch(Q0) == 1


async def test_what_cannot_be_is_said_at_once(tmp_path):
    with pytest.raises(ValueError, match="leave offset_store out"):
        PushConsumer("g", offset_store="offsets.json")
    with pytest.raises(TypeError, match="offset_store must be a path or None, not 5"):
        PushConsumer("g", model="broadcasting", offset_store=5)  # type: ignore[arg-type]
    consumer = mqaio.PushConsumer("g", model="broadcasting", offset_store=tmp_path)
    consumer.subscribe("T", "*", print)
    with pytest.raises(OSError, match="name a file in it"):
        await consumer.start()
