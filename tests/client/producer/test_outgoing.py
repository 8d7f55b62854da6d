"""A message is checked, compressed and encoded before it is sent."""

import struct
import zlib

import pytest

from mqclient.producer.outgoing import prepare, prepare_batch
from mqclient.settings.producers import ProducerOptions
from mqcommon.message import Message, decode_properties

SETTINGS = ProducerOptions()


def test_unique_id_is_added_and_the_message_stays_as_it_was():
    message = Message("T", b"body", tags="A", keys=["k1", "k2"])
    first, second = prepare(message, SETTINGS), prepare(message, SETTINGS)
    assert first.msg_id != second.msg_id
    assert len(first.msg_id) == 32
    assert "UNIQ_KEY" not in message.properties
    properties = decode_properties(first.properties.encode())
    assert properties == {
        "KEYS": "k1 k2",
        "TAGS": "A",
        "WAIT": "true",
        "UNIQ_KEY": first.msg_id,
    }


def test_large_bodies_are_compressed_as_java_does():
    outgoing = prepare(Message("T", b"x" * 4096), SETTINGS)
    assert outgoing.sys_flag == 0x301
    assert zlib.decompress(outgoing.body) == b"x" * 4096
    assert outgoing.body == zlib.compress(b"x" * 4096, 5)
    assert prepare(Message("T", b"x" * 4095), SETTINGS).sys_flag == 0
    never = ProducerOptions(compression=None)
    assert prepare(Message("T", b"x" * 5000), never).sys_flag == 0


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Message("T", b""), "empty"),
        (Message("T", b"x" * (4 * 1024 * 1024 + 1)), "maxMessageSize"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "reserved by RocketMQ"),
        (Message("a b", b"x"), "letters"),
        (Message("T", b"x", properties={"p": "v" * 32768}), "properties"),
    ],
)
def test_what_a_broker_would_refuse_is_refused_here(message, words):
    with pytest.raises(ValueError, match=words):
        prepare(message, SETTINGS)


def test_retry_topic_carries_its_counters_in_the_header():
    message = Message("%RETRY%g", b"x")
    message.properties |= {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "7"}
    outgoing = prepare(message, SETTINGS)
    assert (outgoing.reconsume_times, outgoing.max_reconsume_times) == (3, 7)


def test_batch_layout():
    (batch,) = prepare_batch(
        [Message("T", b"one", tags="A"), Message("T", b"two", flag=5)], SETTINGS
    )
    assert batch.batch
    assert batch.properties == "WAIT\x01true"
    ids = batch.msg_id.split(",")
    position, seen = 0, []
    for _ in range(2):
        total, magic, crc, flag, size = struct.unpack_from(">iiiii", batch.body, position)
        assert (magic, crc) == (0, 0)
        body = batch.body[position + 20 : position + 20 + size]
        (length,) = struct.unpack_from(">h", batch.body, position + 20 + size)
        properties = batch.body[position + 22 + size : position + total]
        assert len(properties) == length
        seen.append((flag, body, decode_properties(properties)["UNIQ_KEY"]))
        position += total
    assert position == len(batch.body)
    assert seen == [(0, b"one", ids[0]), (5, b"two", ids[1])]


def test_a_batch_keeps_ids_keys_and_flags():
    again = Message("T", b"2", keys=["k"], flag=-2)
    again.properties["UNIQ_KEY"] = "ID"
    late = Message("T", b"3", properties={"p": "ä"})
    del late.properties["WAIT"]
    (batch,) = prepare_batch([Message("T", b"1"), again, late], SETTINGS)
    first, second, third = batch.msg_id.split(",")
    assert (len(first), second, len(third)) == (32, "ID", 32)
    texts = (
        f"WAIT\x01true\x02UNIQ_KEY\x01{first}",
        "KEYS\x01k\x02WAIT\x01true\x02UNIQ_KEY\x01ID",
        f"p\x01ä\x02UNIQ_KEY\x01{third}",
    )
    wanted = b""
    for text, body, flag in zip(texts, (b"1", b"2", b"3"), (0, -2, 0), strict=True):
        properties = text.encode()
        wanted += struct.pack(">iiiii", 23 + len(properties), 0, 0, flag, 1) + body
        wanted += struct.pack(">h", len(properties)) + properties
    assert batch.body == wanted
    assert "UNIQ_KEY" not in late.properties
    (unflushed,) = prepare_batch([Message("T", b"1", wait_store_ok=False)] * 2, SETTINGS)
    assert unflushed.properties == "WAIT\x01false"
    assert len(set(unflushed.msg_id.split(","))) == 2


def test_a_batch_holds_messages_only():
    with pytest.raises(TypeError, match="not str"):
        prepare_batch([Message("T", b"1"), "2"], SETTINGS)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "empty"),
        ([Message("T", b"1"), Message("U", b"2")], "one topic"),
        ([Message("T", b"1"), Message("T", b"2", wait_store_ok=False)], "wait_store_ok"),
        ([Message("T", b"1", delay_level=1)], "delayed"),
        ([Message("T", b"1"), Message("T", b"")], "empty"),
        ([Message("T", b"x", properties={"p": "v" * 32768})], "properties"),
        ([Message("%RETRY%g", b"1")], "retry topic"),
        ([Message("T", b"x" * 5_000_000)] * 2, "limit"),
    ],
)
def test_bad_batches(messages, words):
    with pytest.raises(ValueError, match=words):
        prepare_batch(messages, SETTINGS)
