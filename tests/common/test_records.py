"""Every record a Java broker wrote decodes to what Java decoded."""

import copy
import pickle
import sys
import zlib
from datetime import UTC, datetime

import pytest

from mqcommon.message import ReceivedMessage, decode_messages, encode_properties
from tests.common.golden import records

RECORDS = records("store")
NUMBERS = {
    "physicalOffset": "commit_log_offset",
    "storeSize": "store_size",
    "queueId": "queue_id",
    "flag": "flag",
    "queueOffset": "queue_offset",
    "sysFlag": "sys_flag",
    "bornTimestamp": "born_timestamp_ms",
    "bornHost": "born_host",
    "storeTimestamp": "store_timestamp_ms",
    "storeHost": "store_host",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_transaction_offset",
    "bodyCRC": "body_crc",
    "topic": "topic",
    "properties": "properties",
    "msgId": "msg_id",
    "offsetMsgId": "offset_msg_id",
}


def test_every_golden_record_reads_as_java_read_it():
    assert len(RECORDS) == 605
    for record, line in RECORDS:
        (message,) = decode_messages(record)
        got = {java: getattr(message, ours) for java, ours in NUMBERS.items()}
        assert got == {java: line[java] for java in NUMBERS}
        assert message.body.hex() == line["bodyHex"]
        assert len(message.stored_body) == line["storedBodyLength"]
        assert zlib.crc32(message.stored_body) & 0x7FFFFFFF == line["crcOfStoredBody"]
        assert message.stored_properties.hex() == line["propertiesHex"]


def test_rewritten_properties_keep_their_bytes_unless_doubled():
    for record, line in RECORDS:
        (message,) = decode_messages(record)
        pairs = message.stored_properties.split(b"\x02")
        names = [pair.split(b"\x01")[0] for pair in pairs]
        if len(set(names)) == len(names):
            assert encode_properties(message.properties).hex() == line["propertiesHex"]


def test_single_properties_read_without_decoding_all():
    for record, line in RECORDS:
        (lazy,) = decode_messages(record)
        assert lazy.tags == line["properties"].get("TAGS")
        assert lazy.keys == tuple(line["properties"].get("KEYS", "").split())
        (eager,) = decode_messages(record)
        assert (eager.properties, eager.tags) == (line["properties"], lazy.tags)


def test_a_pull_body_is_many_records():
    body = b"".join(record for record, _ in RECORDS)
    messages = decode_messages(body, "broker-a")
    assert [m.commit_log_offset for m in messages] == [
        line["physicalOffset"] for _, line in RECORDS
    ]
    assert {m.broker_name for m in messages} == {"broker-a"}
    assert decode_messages(b"") == []


def test_text_is_what_rocketmq_prints():
    (message,) = decode_messages(RECORDS[0][0], "broker-a", 0, 5)
    assert str(message) == (
        "MessageExt [brokerName=broker-a, queueId=2, storeSize=190, queueOffset=0, sysFlag=0, "
        "bornTimestamp=1795246270344, bornHost=/127.0.0.1:49526, storeTimestamp=1795246270383, "
        "storeHost=/127.0.0.1:10911, msgId=7F00000100002A9F0000000000000000, commitLogOffset=0, "
        "bodyCRC=613185359, reconsumeTimes=0, preparedTransactionOffset=0, "
        "toString()=Message{topic='TopicTest', flag=0, properties={"
        "UNIQ_KEY=C000020A48944E0E2F2A689C3F880000, CLUSTER=DefaultCluster, TAGS=TagA, "
        "MIN_OFFSET=0, MAX_OFFSET=5}, "
        "body=[72, 101, 108, 108, 111, 32, 82, 111, 99, 107, 101, 116, 77, 81, 32, 48], "
        "transactionId='null'}]"
    )


def test_bytes_above_127_print_as_javas_signed_bytes():
    record, line = next((r, x) for r, x in RECORDS if "c3bc" in x["bodyHex"])
    (message,) = decode_messages(record)
    assert "-61, -68" in str(message)  # the two bytes of u with an umlaut
    assert line["properties"] == message.properties


def ipv6_record() -> bytes:
    """The first record, its two hosts widened to ::1."""
    record = RECORDS[0][0]
    loopback = bytes(15) + b"\x01"
    wide = (
        record[4:36] + (0x30).to_bytes(4, "big") + record[40:48]
        + loopback + record[52:64]
        + loopback + record[68:]
    )  # fmt: skip
    return (len(wide) + 4).to_bytes(4, "big") + wide


def test_ipv6_hosts():
    (message,) = decode_messages(ipv6_record())
    assert message.born_host == "[::1]:49526"
    assert message.store_host == "[::1]:10911"
    assert message.offset_msg_id == "0" * 31 + "1" + "00002A9F" + "0" * 16
    assert "bornHost=/[0:0:0:0:0:0:0:1]:49526" in str(message)
    assert message.topic == "TopicTest"


def test_timestamps_are_aware():
    (message,) = decode_messages(RECORDS[0][0])
    assert message.born_timestamp == datetime(2026, 11, 21, 7, 31, 10, 344000, UTC)
    assert message.store_timestamp.tzinfo is UTC


@pytest.mark.parametrize("copied", [copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_equal_and_keeps_changes(copied):
    body = b"".join(record for record, _ in RECORDS[:3])
    message = decode_messages(body, "broker-a", 1, 2)[1]
    message.topic = "Restored"
    message.properties["mine"] = "yes"
    message.transaction_id = "tx"
    message.consume_start_ms = 5
    message.reconsume_times = 7
    again = copied(message)
    assert type(again) is ReceivedMessage
    assert str(again) == str(message)
    assert again.properties["mine"] == "yes"
    assert (again.consume_start_ms, again.properties["CONSUME_START_TIME"]) == (5, "5")
    assert (again.topic, again.broker_name) == ("Restored", "broker-a")
    assert again.reconsume_times == 7


def test_detach_lets_go_of_the_buffer():
    body = b"".join(record for record, _ in RECORDS[:3])
    held = sys.getrefcount(body)
    message = decode_messages(body, "broker-a", 3, 4)[2]
    message.consume_start_ms = 9
    assert sys.getrefcount(body) == held + 1
    detached = message.detach()
    del message
    assert sys.getrefcount(body) == held
    assert detached.commit_log_offset == RECORDS[2][1]["physicalOffset"]
    assert detached.properties["MAX_OFFSET"] == "4"
    assert detached.properties["CONSUME_START_TIME"] == "9"


def test_messages_are_not_made_by_hand():
    with pytest.raises(TypeError, match="decode_messages"):
        ReceivedMessage()
    empty = ReceivedMessage.__new__(ReceivedMessage)
    assert (empty.body, empty.topic, empty.born_host) == (b"", "", "[::]:0")
    with pytest.raises(TypeError):
        decode_messages(bytearray(b"x"))
