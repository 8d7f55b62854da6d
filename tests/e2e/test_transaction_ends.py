"""A transaction ends once, whatever is repeated, and no half message holds up the others."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import ReceivedMessage, decode_messages
from tests.e2e.transactions import (
    COMMIT,
    ROLLBACK,
    Half,
    await_messages,
    checking,
    join,
    prepared,
)

MANY = {"transactionCheckMax": "1000"}
NEVER = {"transactionCheckInterval": "3600000"}
DAY_MS = 86_400_000
STORE_TIME = struct.Struct(">q")
STORE_TIME_AT = 56
"""Offset of the store time in a record."""


@pytest.fixture
def probe(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address, timeout=60) as probe:
        yield probe


def sent(probe: Probe, topic: str, key: str, more: str = "") -> Half:
    return Half(probe.call(prepared(topic, key, more)), key)


def question(probe: Probe, key: str) -> tuple[Frame, ReceivedMessage]:
    """The next question about a half message."""
    while True:
        asked = probe.pushed.pop(0) if probe.pushed else probe.read()
        (message,) = decode_messages(asked.body)
        if message.properties["UNIQ_KEY"] == key:
            return asked, message


def copy_of(half: Half, asked: Frame) -> Half:
    half.queue_offset = int(asked.fields["tranStateTableOffset"])
    half.physical_offset = int(asked.fields["commitLogOffset"])
    return half


def test_a_second_commit_stores_nothing(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic()
    half = sent(probe, topic, "k-twice")
    assert [probe.call(half.end(COMMIT)).code for _ in range(3)] == [0, 0, 0]
    assert len(mq.messages(topic)) == 1
    refused = probe.call(half.end(ROLLBACK))
    assert refused.code == 1
    assert "was committed before" in (refused.remark or "")


def test_a_commit_after_a_rollback_delivers_nothing(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic()
    half = sent(probe, topic, "k-rolled-back")
    assert probe.call(half.end(ROLLBACK)).code == 0
    refused = probe.call(half.end(COMMIT))
    assert refused.code == 1
    assert f"topic {topic}, keys 'k-rolled-back'" in (refused.remark or "")
    assert mq.messages(topic) == []


@pytest.mark.parametrize("passes", [False, True], ids=["before a check", "after a check"])
def test_a_start_knows_what_is_ended(tmp_path: Path, plane: str, passes: bool) -> None:
    settings = MANY if passes else {**MANY, **NEVER}
    with checking(plane, tmp_path, **settings) as (mq, probe):
        topic = mq.topic()
        committed, rolled_back, open_one = (sent(probe, topic, key) for key in ("c", "r", "o"))
        assert probe.call(committed.end(COMMIT)).code == 0
        assert probe.call(rolled_back.end(ROLLBACK)).code == 0
        if passes:  # three checks of the open message, so the progress has passed the others
            for _ in range(3):
                question(probe, "o")
    with checking(plane, tmp_path, **settings) as (mq, probe):
        for half in (committed, rolled_back):
            probe.call(half.end(COMMIT))
        assert [m.body for m in mq.messages(topic)] == [b"paid c"]
        assert probe.call(open_one.end(COMMIT)).code == 0
        assert probe.call(open_one.end(COMMIT)).code == 0
        assert len(mq.messages(topic)) == 2


def test_an_end_by_an_older_question_ends_the_newest_copy(tmp_path: Path, plane: str) -> None:
    with checking(plane, tmp_path, **MANY) as (mq, probe):
        topic = mq.topic()
        first = sent(probe, topic, "k-old-question")
        old = copy_of(first, question(probe, "k-old-question")[0])
        question(probe, "k-old-question")
        newest = question(probe, "k-old-question")[0]
        assert probe.call(old.end(COMMIT)).code == 0
        copy = Half(probe.call(prepared(topic, "k-other")), "k-old-question")
        assert probe.call(copy_of(copy, newest).end(COMMIT)).code == 0
        assert len(mq.messages(topic)) == 1
    with checking(plane, tmp_path, **MANY) as (mq, probe):
        assert probe.call(copy.end(COMMIT)).code == 0
        assert probe.call(old.end(COMMIT)).code == 0
        assert len(mq.messages(topic)) == 1
        for _ in range(3):
            question(probe, "k-other")
        fields = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": "0"}
        end = int(probe.call(Frame(30, fields)).fields["offset"])
        assert end > copy.queue_offset


def test_a_late_commit_of_one_given_up_counts_once(tmp_path: Path, plane: str) -> None:
    with checking(plane, tmp_path) as (mq, probe):
        topic = mq.topic()
        late, later = sent(probe, topic, "late"), sent(probe, topic, "later")
        probe.pushed.clear()
        given_up = set()
        while len(given_up) < 2:
            given_up = {m.body for m in await_messages(mq, "TRANS_CHECK_MAX_TIME_TOPIC")}
        assert [probe.call(late.end(COMMIT)).code for _ in range(2)] == [0, 0]
        assert len(mq.messages(topic)) == 1
    with checking(plane, tmp_path) as (mq, probe):
        for half in (late, later, later):
            assert probe.call(half.end(COMMIT)).code == 0
        assert len(mq.messages(topic)) == 2


def test_a_half_message_without_room_is_checked_too(plane: str) -> None:
    with checking(plane) as (mq, probe):
        topic = mq.topic("TopicFull")
        more = "\x02p\x01"
        room = 32_767 - len(prepared(topic, "full", more).fields["i"])
        while True:  # the longest that is accepted
            reply = probe.call(prepared(topic, "full", more + "x" * room))
            if reply.code == 0:
                break
            room -= 1
        probe.call(prepared(topic, "behind"))
        question(probe, "behind")
        asked, message = question(probe, "full")
        assert message.reconsume_times > 0
        assert len(message.stored_properties) > 32_600
        bodies = set()
        while b"paid full" not in bodies:
            bodies = {m.body for m in await_messages(mq, "TRANS_CHECK_MAX_TIME_TOPIC")}
        assert probe.call(copy_of(Half(reply, "full"), asked).end(COMMIT)).code == 0
        (delivered,) = mq.messages(topic)
        assert delivered.reconsume_times == 0


def test_a_half_message_over_a_lowered_limit_is_checked_too(tmp_path: Path, plane: str) -> None:
    with checking(plane, tmp_path, **NEVER) as (mq, probe):
        topic = mq.topic()
        large = prepared(topic, "large")
        large.body = b"x" * 5_000
        assert probe.call(large).code == 0
        sent(probe, topic, "behind")
    with checking(plane, tmp_path, **MANY, maxMessageSize="1024") as (mq, probe):
        question(probe, "behind")
        asked, message = question(probe, "large")
        assert len(message.body) == 5_000
        half = Half(probe.call(prepared(topic, "other")), "large")
        assert probe.call(copy_of(half, asked).end(COMMIT)).code == 0
        assert [len(m.body) for m in mq.messages(topic)] == [5_000]


def test_a_half_message_of_the_future_holds_up_none(tmp_path: Path, plane: str) -> None:
    with checking(plane, tmp_path, **NEVER) as (mq, probe):
        topic = mq.topic()
        future = int(time.time() * 1000) + DAY_MS
        ahead = Half(probe.call(prepared(topic, "ahead", born_ms=future)), "ahead")
        sent(probe, topic, "behind")
    (log,) = (tmp_path / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(ahead.physical_offset + STORE_TIME_AT)
        file.write(STORE_TIME.pack(future))
    with checking(plane, tmp_path, **MANY) as (mq, probe):
        question(probe, "behind")
        question(probe, "ahead")


def test_a_half_message_that_cannot_be_handled_is_set_aside(
    plane: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mqserver.broker.transactions import writing

    put_back = writing.put_back

    def broken(broker, half, *rest):  # type: ignore[no-untyped-def]
        if half.properties["UNIQ_KEY"] == "broken":
            raise RuntimeError("cannot be read")
        return put_back(broker, half, *rest)

    monkeypatch.setattr(writing, "put_back", broken)
    with checking(plane, **MANY) as (mq, probe):
        topic = mq.topic()
        sent(probe, topic, "broken")
        sent(probe, topic, "behind")
        asked, _ = question(probe, "broken")  # a last time
        question(probe, "behind")
        (aside,) = await_messages(mq, "TRANS_CHECK_MAX_TIME_TOPIC")
        assert aside.body == b"paid broken"
        assert f"set aside the half message of topic {topic}, keys 'broken'" in caplog.text
        half = Half(probe.call(prepared(topic, "other")), "broken")
        assert probe.call(copy_of(half, asked).end(COMMIT)).code == 0
        assert len(mq.messages(topic)) == 1


def test_a_kill_repeats_neither_checks_nor_commits(tmp_path: Path, plane: str) -> None:
    settings = {"dataPlane": plane, "transactionCheckInterval": "100"}
    settings |= {"transactionTimeOut": "100", "transactionCheckMax": "1000"}
    both = Standalone(data=tmp_path, settings=settings, process=True)
    try:
        mq = both.start()
        topic = mq.topic()
        with Probe(mq.broker_address, timeout=60) as probe:
            for number in range(20):
                half = sent(probe, topic, f"k-{number}")
        for _ in range(3):
            with Probe(mq.broker_address, timeout=60) as probe:
                join(probe)
                for number in range(20):
                    asked, _ = question(probe, f"k-{number}")
                mq.kill()
            mq.start()
        with Probe(mq.broker_address, timeout=60) as probe:
            join(probe)
            stored = [question(probe, f"k-{number}")[0] for number in range(20)]
            for number, asked in enumerate(stored):
                copy = copy_of(half, asked)
                copy.key = f"k-{number}"
                assert probe.call(copy.end(COMMIT)).code == 0
        bodies = [message.body for message in mq.messages(topic)]
        assert sorted(bodies) == sorted(b"paid k-%d" % number for number in range(20))
        assert half_count(mq) < 20 * 12
    finally:
        both.stop()


def half_count(mq: Standalone) -> int:
    """Half messages in the store."""
    with Probe(mq.broker_address, timeout=60) as probe:
        fields = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": "0"}
        return int(probe.call(Frame(30, fields)).fields["offset"])
