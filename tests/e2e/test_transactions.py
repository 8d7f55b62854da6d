"""Half messages, their ends, and the checks of half messages without an end, in both planes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqclient import Message, MessageQueue, Producer
from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages, parse_offset_msg_id
from tests.e2e.transactions import (
    COMMIT,
    GROUP,
    ROLLBACK,
    UNKNOWN,
    Half,
    await_messages,
    checking,
    prepared,
    view,
)


@pytest.fixture
def probe(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address, timeout=60) as probe:
        yield probe


def test_a_half_message_waits_out_of_sight(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic()
    half = Half(probe.call(prepared(topic, "k-half")), "k-half")
    assert half.queue_id == 2
    stored = view(probe, half.physical_offset)
    assert (stored.topic, stored.queue_id) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert (stored.sys_flag, stored.flag, stored.queue_offset) == (0, 7, half.queue_offset)
    assert stored.properties == {
        "KEYS": "k-half",
        "TRAN_MSG": "true",
        "UNIQ_KEY": "k-half",
        "WAIT": "true",
        "PGROUP": GROUP,
        "CLUSTER": "DefaultCluster",
        "REAL_TOPIC": topic,
        "REAL_QID": "2",
    }
    assert mq.messages(topic) == []


def test_a_commit_delivers_it_and_marks_it_done(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic()
    half = Half(probe.call(prepared(topic, "k-commit", born_ms=1)), "k-commit")
    assert probe.call(half.end(COMMIT)).code == 0
    (message,) = mq.messages(topic)
    assert (message.body, message.queue_id, message.flag) == (b"paid k-commit", 2, 7)
    assert (message.sys_flag, message.born_timestamp_ms) == (COMMIT, 1)
    assert message.prepared_transaction_offset == half.physical_offset
    assert message.properties == view(probe, half.physical_offset).properties
    op = view(probe, message.commit_log_offset + message.store_size)
    assert (op.topic, op.body) == ("RMQ_SYS_TRANS_OP_HALF_TOPIC", str(half.queue_offset).encode())
    assert (op.properties, op.sys_flag) == ({"TAGS": "d", "WAIT": "true"}, 0)


def test_a_rollback_delivers_nothing_and_marks_it_done(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic()
    half = Half(probe.call(prepared(topic, "k-rollback")), "k-rollback")
    stored = view(probe, half.physical_offset)
    assert probe.call(half.end(ROLLBACK)).code == 0
    assert mq.messages(topic) == []
    op = view(probe, half.physical_offset + stored.store_size)
    assert (op.topic, op.body) == ("RMQ_SYS_TRANS_OP_HALF_TOPIC", str(half.queue_offset).encode())


def test_an_undecided_end_is_not_answered(mq: Standalone, probe: Probe) -> None:
    half = Half(probe.call(prepared(mq.topic(), "k-unknown")), "k-unknown")
    undecided = half.end(UNKNOWN)
    undecided.opaque = 1
    probe.write(encode(undecided))
    # The next request is answered, and nothing came before.
    assert probe.call(Frame(31, {"topic": "TBW102", "queueId": "0"})).code == 0
    assert probe.pushed == []


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"producerGroup": "another"}, "The producer group wrong"),
        ({"tranStateTableOffset": "999999"}, "The transaction state table offset wrong"),
        ({"commitLogOffset": "1000000000"}, "Find prepared transaction message failed"),
    ],
)
def test_an_end_must_name_the_half_message(
    mq: Standalone, probe: Probe, changes: dict[str, str], remark: str
) -> None:
    topic = mq.topic()
    half = Half(probe.call(prepared(topic, "k-wrong")), "k-wrong")
    reply = probe.call(half.end(COMMIT, **changes))
    assert (reply.code, reply.remark) == (1, remark)
    assert mq.messages(topic) == []


def test_an_end_of_an_ordinary_message_or_of_no_kind_is_refused(
    mq: Standalone, probe: Probe
) -> None:
    topic = mq.topic()
    ordinary = prepared(topic, "k-plain")
    ordinary.fields["f"] = "0"
    ordinary.fields["i"] = f"UNIQ_KEY\x01x\x02PGROUP\x01{GROUP}"
    plain = Half(probe.call(ordinary), "x")
    assert probe.call(plain.end(COMMIT)).code == probe.call(plain.end(ROLLBACK)).code == 1
    reply = probe.call(plain.end(5))
    assert reply.code == 1
    assert reply.remark is not None
    assert "commitOrRollback" in reply.remark
    assert len(mq.messages(topic)) == 1


def test_a_producer_is_asked_and_its_answer_counts(plane: str) -> None:
    with checking(plane, transactionCheckMax="1000") as (mq, probe):
        topic = mq.topic()
        half = Half(probe.call(prepared(topic, "k-asked")), "k-asked")
        question = probe.read()
        assert (question.code, question.is_oneway) == (39, True)
        (message,) = decode_messages(question.body)
        assert (message.topic, message.queue_id, message.body) == (topic, 2, b"paid k-asked")
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert question.fields["msgId"] == question.fields["transactionId"] == "k-asked"
        offset = int(question.fields["commitLogOffset"])
        assert offset == message.commit_log_offset > half.physical_offset
        assert parse_offset_msg_id(question.fields["offsetMsgId"]).physical_offset == offset
        half.physical_offset = offset
        half.queue_offset = int(question.fields["tranStateTableOffset"])
        assert probe.call(half.end(COMMIT, fromTransactionCheck="true")).code == 0
        (delivered,) = mq.messages(topic)
        assert delivered.prepared_transaction_offset == offset


def test_it_is_given_up_after_so_many_questions(plane: str) -> None:
    with checking(plane) as (mq, probe):
        mq.topic("TopicTx")
        probe.call(prepared("TopicTx", "k-never"))
        questions = [decode_messages(probe.read().body)[0] for _ in range(3)]
        times = [message.properties["TRANSACTION_CHECK_TIMES"] for message in questions]
        assert times == ["1", "2", "3"]
        (given_up,) = await_messages(mq, "TRANS_CHECK_MAX_TIME_TOPIC")
        assert (given_up.body, given_up.properties["REAL_TOPIC"]) == (b"paid k-never", "TopicTx")
        assert mq.messages("TopicTx") == []


def test_one_that_is_ended_does_not_hold_up_an_older_one(plane: str) -> None:
    """Op messages of later half messages do not end an earlier one: its producer is still asked."""
    with checking(plane) as (mq, probe):
        topic = mq.topic()
        probe.call(prepared(topic, "k-open"))
        probe.pushed.append(probe.read())
        for number in range(3):  # one of them right after the open message, wherever its copy moves
            ended = Half(probe.call(prepared(topic, f"k-{number}")), f"k-{number}")
            assert probe.call(ended.end(COMMIT)).code == 0
        times = set()
        while "3" not in times:
            question = probe.pushed.pop(0) if probe.pushed else probe.read()
            (message,) = decode_messages(question.body)
            if message.properties["UNIQ_KEY"] == "k-open":
                times.add(message.properties["TRANSACTION_CHECK_TIMES"])


def test_one_older_than_the_log_is_given_up_unasked(plane: str) -> None:
    with checking(plane) as (mq, probe):
        mq.topic("TopicTx")
        probe.call(prepared("TopicTx", "k-old", born_ms=1))
        (given_up,) = await_messages(mq, "TRANS_CHECK_MAX_TIME_TOPIC")
        assert given_up.properties["UNIQ_KEY"] == "k-old"
        assert probe.pushed == []


def test_an_immune_message_goes_back_unasked_until_its_time(plane: str) -> None:
    more = "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x011000000000"
    with checking(plane) as (mq, probe):
        topic = mq.topic()
        reply = probe.call(prepared(topic, "k-immune", more))
        first = Half(reply, "k-immune")
        fields = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": "0"}
        while int(probe.call(Frame(30, fields)).fields["offset"]) < first.queue_offset + 3:
            mq.wait_dispatched()
        assert probe.pushed == [], "nobody was asked"
        # The producer can still end it by its first offset, and it is not delivered again.
        assert probe.call(first.end(COMMIT)).code == 0
        assert len(mq.messages(topic)) == 1


def test_the_log_names_a_half_without_an_answer_once(
    plane: str, caplog: pytest.LogCaptureFixture
) -> None:
    with checking(plane, transactionCheckMax="4") as (mq, probe):
        topic = mq.topic()
        probe.call(prepared(topic, "k-silent"))
        await_messages(mq, "TRANS_CHECK_MAX_TIME_TOPIC")
    named = f"half message of topic {topic}, keys 'k-silent', id k-silent"
    lines = [line for line in caplog.messages if named in line]
    assert ["has neither committed" in line for line in lines] == [True, False], lines
    assert lines[1].startswith("gave up on")


def test_the_log_names_a_half_that_no_producer_is_asked_about(
    plane: str, caplog: pytest.LogCaptureFixture
) -> None:
    with checking(plane) as (mq, probe):
        topic = mq.topic()
        absent = prepared(topic, "k-alone")
        absent.fields["i"] = absent.fields["i"].replace(GROUP, "absent")
        Half(probe.call(absent), "k-alone")
        await_messages(mq, "TRANS_CHECK_MAX_TIME_TOPIC")
    assert (
        "no producer of group absent is online; the next pass asks again about the half message "
        f"of topic {topic}, keys 'k-alone', id k-alone"
    ) in caplog.messages


def test_resuming_a_check_counts_from_the_start(plane: str) -> None:
    with checking(plane) as (mq, probe):
        mq.topic("TopicTx")
        probe.call(prepared("TopicTx", "k-again"))
        questions = [probe.read() for _ in range(3)]
        await_messages(mq, "TRANS_CHECK_MAX_TIME_TOPIC")
        last = questions[-1].fields["offsetMsgId"]
        assert probe.call(Frame(323, {"msgId": last})).code == 0
        (message,) = decode_messages(probe.read().body)
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"


def test_a_message_that_is_no_half_holds_up_no_check(
    plane: str, caplog: pytest.LogCaptureFixture
) -> None:
    with checking(plane, transactionCheckMax="1000") as (mq, probe):
        topic = mq.topic()
        with Producer(mq.namesrv) as producer:
            sent = producer.send(Message(topic, b"plain"), queue=MessageQueue(topic, "broker-a", 0))
        assert probe.call(Frame(323, {"msgId": sent.offset_msg_id})).code == 0
        probe.call(prepared(topic, "k-behind"))
        (message,) = decode_messages(probe.read().body)
        assert message.body == b"paid k-behind"
    assert f"keys None and id {sent.msg_id} in RMQ_SYS_TRANS_HALF_TOPIC" in caplog.text


def test_half_messages_can_be_refused(plane: str) -> None:
    with (
        Standalone(settings={"dataPlane": plane, "rejectTransactionMessage": "true"}) as mq,
        Probe(mq.broker_address) as probe,
    ):
        reply = probe.call(prepared(mq.topic(), "k-no"))
        assert reply.code == 16
        assert "sending transaction message is forbidden" in (reply.remark or "")
