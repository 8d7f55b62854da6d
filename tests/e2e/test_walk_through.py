"""RocketMQ's published walk-through, with our client: ten messages, their CRCs, ids and places."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mqclient import ConsumeContext, Message, Producer, PushConsumer, ReceivedMessage, SendResult
from mqserver.embedded.standalone import Standalone

CRCS = [
    613185359,
    1401636825,
    1250039395,
    1032136437,
    601994070,
    1424393152,
    1307562618,
    988340972,
    710410109,
    1565577195,
]
STEP = 0xBE
SEND_LINE = re.compile(
    r"SendResult \[sendStatus=SEND_OK, msgId=[0-9A-F]{32}, "
    r"offsetMsgId=[0-9A-F]{32}, messageQueue=MessageQueue "
    r"\[topic=TopicTest, brokerName=broker-a, queueId=[0-3]\], queueOffset=[0-2]\]"
)
RECEIVE_LINE = re.compile(
    r"MessageExt \[brokerName=broker-a, queueId=[0-3], storeSize=190, queueOffset=[0-2], "
    r"sysFlag=0, bornTimestamp=\d{13}, bornHost=/127\.0\.0\.1:\d+, storeTimestamp=\d{13}, "
    r"storeHost=/127\.0\.0\.1:\d+, msgId=[0-9A-F]{32}, commitLogOffset=\d+, bodyCRC=\d+, "
    r"reconsumeTimes=0, preparedTransactionOffset=0, toString\(\)=Message\{topic='TopicTest', "
    r"flag=0, properties=\{.*\}, body=\[72, 101, 108, .*\], transactionId='null'\}\]"
)


def send_ten(namesrv: str) -> list[SendResult]:
    with Producer(namesrv, group="walk_through", queue_index_start=0) as producer:
        return [
            producer.send(Message("TopicTest", f"Hello RocketMQ {i}".encode(), tags="TagA"))
            for i in range(10)
        ]


def consume(namesrv: str, group: str, count: int) -> list[ReceivedMessage]:
    seen: list[ReceivedMessage] = []
    done = threading.Event()

    def handle(messages: Sequence[ReceivedMessage], _context: ConsumeContext) -> None:
        seen.extend(messages)
        if len(seen) >= count:
            done.set()

    with PushConsumer(group, namesrv, consume_from="earliest") as consumer:
        consumer.subscribe("TopicTest", "TagA", handle)
        assert done.wait(60), f"{len(seen)} of {count} arrived"
    return seen


@pytest.fixture(scope="module")
def results(mq: Standalone) -> list[SendResult]:
    return send_ten(mq.namesrv)


def test_ids_step_by_the_size_of_a_record(mq: Standalone, results: list[SendResult]) -> None:
    port = int(mq.broker_address.rpartition(":")[2])
    ids = [f"7F000001{port:08X}{STEP * i:016X}" for i in range(10)]
    assert [result.offset_msg_id for result in results] == ids


def test_queues_are_taken_in_turn(results: list[SendResult]) -> None:
    assert [result.message_queue.queue_id for result in results] == [i % 4 for i in range(10)]
    assert [result.queue_offset for result in results] == [i // 4 for i in range(10)]


def test_printed_lines_have_rocketmqs_shape(mq: Standalone, results: list[SendResult]) -> None:
    assert all(SEND_LINE.fullmatch(str(result)) for result in results)
    for message in consume(mq.namesrv, "printing", 10):
        assert RECEIVE_LINE.fullmatch(str(message)), message


def test_stored_messages_are_the_published_ones(mq: Standalone, results: list[SendResult]) -> None:
    stored = sorted(mq.messages("TopicTest"), key=lambda message: message.commit_log_offset)
    assert [message.body_crc for message in stored] == CRCS
    assert {message.store_size for message in stored} == {STEP}
    assert [message.commit_log_offset for message in stored] == [STEP * i for i in range(10)]


def test_disk_use_stays_small(mq: Standalone, results: list[SendResult]) -> None:
    kib = int(subprocess.check_output(["du", "-sk", mq.data], text=True).split()[0])
    assert kib <= 64 * 1024


def test_committed_offsets_and_messages_survive_a_restart(
    mq: Standalone, results: list[SendResult]
) -> None:
    consume(mq.namesrv, "surviving", 10)
    mq.wait_consumed("surviving", "TopicTest")
    before = [message.body for message in mq.messages("TopicTest")]
    mq.restart()
    assert [message.body for message in mq.messages("TopicTest")] == before
    mq.wait_consumed("surviving", "TopicTest")


def test_quickstart_prints_it_all(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mqserver.cli", "quickstart", "--free-ports"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(SEND_LINE.findall(ran.stdout)) == 10
    assert len(RECEIVE_LINE.findall(ran.stdout)) == 10
    assert sorted(map(int, re.findall(r"bodyCRC=(\d+)", ran.stdout))) == sorted(CRCS)
