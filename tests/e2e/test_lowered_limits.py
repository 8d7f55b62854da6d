"""Accepted messages are delivered even after a limit is lowered."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import ReceivedMessage, parse_offset_msg_id
from tests.waiting import answer_of

GROUP = "retriers"
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
LARGE = b"x" * 5_000
LOWERED = {"maxMessageSize": "1024"}


@contextmanager
def broker(store: Path, plane: str, **settings: str) -> Iterator[tuple[Standalone, Probe]]:
    with (
        Standalone(data=store, settings={"dataPlane": plane, **settings}) as mq,
        Probe(mq.broker_address, timeout=60) as probe,
    ):
        yield mq, probe


def send(probe: Probe, topic: str, body: bytes, text: str = "", sys_flag: int = 0) -> Frame:
    letters = {"a": GROUP, "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": str(sys_flag)}
    born_ms = str(int(time.time() * 1000))
    reply = probe.call(Frame(310, {**letters, "g": born_ms, "h": "0", "i": text, "m": "f"}, body))
    assert reply.code == 0, reply.remark
    return reply


def offset_of(reply: Frame) -> int:
    return parse_offset_msg_id(reply.fields["msgId"]).physical_offset


def make_group(probe: Probe, retry_queues: int) -> None:
    body = {"groupName": GROUP, "retryQueueNums": retry_queues, "retryMaxTimes": 16}
    assert probe.call(Frame(200, {}, json.dumps(body).encode())).code == 0


def send_back(probe: Probe, offset: int, level: int = 1) -> Frame:
    fields = {"offset": str(offset), "group": GROUP, "delayLevel": str(level), "unitMode": "false"}
    return probe.call(Frame(36, {**fields, "maxReconsumeTimes": "16"}))


def arrived(mq: Standalone, topic: str, count: int) -> list[ReceivedMessage]:
    return answer_of(lambda: mq.messages(topic), lambda found: len(found) >= count, 30)


def test_messages_that_wait_outlive_a_lower_max_message_size(tmp_path: Path, plane: str) -> None:
    with broker(tmp_path, plane) as (mq, probe):
        topic = mq.topic(queues=1)
        make_group(probe, 1)
        send(probe, topic, LARGE, "DELAY\x012")
        assert send_back(probe, offset_of(send(probe, topic, LARGE)), level=2).code == 0
        text = f"TRAN_MSG\x01true\x02UNIQ_KEY\x01k\x02PGROUP\x01{GROUP}"
        half = send(probe, topic, LARGE, text, sys_flag=4)
    with broker(tmp_path, plane, **LOWERED) as (mq, probe):
        end = {"producerGroup": GROUP, "commitOrRollback": "8", "msgId": "k"}
        end["tranStateTableOffset"] = half.fields["queueOffset"]
        end["commitLogOffset"] = str(offset_of(half))
        assert probe.call(Frame(37, end)).code == 0
        (delayed,) = [m for m in arrived(mq, topic, 3) if m.properties.get("DELAY") == "2"]
        (again,) = arrived(mq, RETRY, 1)
        assert delayed.body == again.body == LARGE
        # It fails again, and is now too large for a send.
        assert send_back(probe, again.commit_log_offset).code == 0
        assert len(arrived(mq, RETRY, 2)) == 2


def test_more_retry_queues_lose_no_retry(tmp_path: Path, plane: str) -> None:
    with broker(tmp_path, plane) as (mq, probe):
        topic = mq.topic(queues=1)
        make_group(probe, 1)
        sent = [offset_of(send(probe, topic, b"%d" % number)) for number in range(40)]
        assert send_back(probe, sent[0]).code == 0
        make_group(probe, 4)
        assert [send_back(probe, offset).code for offset in sent[1:]] == [0] * 39
        assert len(arrived(mq, RETRY, 40)) == 40
        assert {message.queue_id for message in mq.messages(RETRY)} == {0, 1, 2, 3}


def test_a_retry_topic_takes_the_queues_of_a_group_file(tmp_path: Path, plane: str) -> None:
    with broker(tmp_path, plane) as (mq, probe):
        topic = mq.topic(queues=1)
        make_group(probe, 1)
        assert send_back(probe, offset_of(send(probe, topic, b"0"))).code == 0
    file = tmp_path / "config" / "subscriptionGroup.json"
    groups = json.loads(file.read_text())
    groups["subscriptionGroupTable"][GROUP]["retryQueueNums"] = 4
    file.write_text(json.dumps(groups))
    file.with_name(file.name + ".sum").unlink(missing_ok=True)
    with broker(tmp_path, plane) as (mq, probe):
        sent = [offset_of(send(probe, topic, b"%d" % number)) for number in range(20)]
        assert [send_back(probe, offset).code for offset in sent] == [0] * 20
        assert len(arrived(mq, RETRY, 21)) == 21


def test_no_room_for_retry_properties_makes_a_dead_letter(mq: Standalone) -> None:
    with Probe(mq.broker_address, timeout=60) as probe:
        topic = mq.topic(queues=1)
        make_group(probe, 1)
        before = len(mq.messages(DEAD)) if DEAD in known(probe) else 0
        text = "KEYS\x01k-long\x02p\x01"
        long = send(probe, topic, b"body", text + "x" * (32_700 - len(text)))
        assert send_back(probe, offset_of(long), level=3).code == 0
        message = arrived(mq, DEAD, before + 1)[before]
        assert (message.body, message.properties["KEYS"]) == (b"body", "k-long")
        assert message.reconsume_times == 1


def known(probe: Probe) -> str:
    return probe.call(Frame(21, {})).body.decode()


def test_deleting_a_topic_keeps_half_messages(tmp_path: Path, plane: str) -> None:
    """No check has run yet: the half topic is in no table."""
    with broker(tmp_path, plane) as (mq, probe):
        topic, other = mq.topic(queues=1), mq.topic(queues=1)
        text = f"TRAN_MSG\x01true\x02UNIQ_KEY\x01k\x02PGROUP\x01{GROUP}"
        for _ in range(5):
            send(probe, topic, b"half", text, sys_flag=4)
        mq.wait_dispatched()
        assert probe.call(Frame(215, {"topic": other})).code == 0
        assert probe.call(Frame(316)).code == 0
        fields = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": "0"}
        ends = [probe.call(Frame(code, fields)).fields["offset"] for code in (31, 30)]
        assert ends == ["0", "5"]
