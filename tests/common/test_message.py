"""Messages that users build, and message ids."""

import doctest
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise

import pytest

import mqcommon.message
from mqcommon.message import (
    Message,
    MessageQueue,
    offset_msg_id,
    parse_offset_msg_id,
    unique_id,
)


def test_examples_of_the_docs():
    assert doctest.testmod(mqcommon.message).failed == 0


def test_a_message_carries_rocketmqs_properties():
    message = Message(
        "TopicTest", bytearray(b"x"), tags="TagA", keys=["k1", "k2"], properties={"color": "red"},
        delay_level=3, wait_store_ok=False,
    )  # fmt: skip
    assert message.properties == {
        "color": "red", "KEYS": "k1 k2", "TAGS": "TagA", "WAIT": "false", "DELAY": "3",
    }  # fmt: skip
    assert (message.tags, message.keys, message.delay_level) == ("TagA", ("k1", "k2"), 3)
    assert (message.body, message.wait_store_ok, message.flag) == (b"x", False, 0)
    message.delay_level = 0
    assert "DELAY" not in message.properties
    plain = Message("T", b"")
    assert (plain.tags, plain.keys, plain.delay_level, plain.wait_store_ok) == (None, (), 0, True)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"body": "text"}, TypeError, "encode it"),
        ({"body": 5}, TypeError, "must be bytes, not int"),
        ({"topic": ""}, ValueError, "topic"),
        ({"topic": None}, ValueError, "topic"),
        ({"keys": ["a b"]}, ValueError, "as a separate item"),
        ({"keys": ["a", ""]}, ValueError, "empty"),
        ({"keys": [1]}, TypeError, "must be str"),
        ({"tags": "a || b"}, ValueError, "subscriptions"),
        ({"tags": " "}, ValueError, "one tag"),
        ({"tags": 1}, TypeError, "must be str"),
        ({"properties": {"KEYS": "x"}}, ValueError, "reserved by RocketMQ"),
        ({"properties": {"a": ""}}, ValueError, "blank"),
        ({"properties": {"a": 1}}, TypeError, "must be str"),
        ({"properties": {"a": "b\x02c"}}, ValueError, "0x01 or 0x02"),
        ({"delay_level": -1}, ValueError, "delay_level"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        Message(**{"topic": "T", "body": b"x", **arguments})


def test_queues_sort_by_topic_broker_and_id():
    queues = [MessageQueue("B", "a", 0), MessageQueue("A", "b", 1), MessageQueue("A", "b", 0)]
    assert [str(q) for q in sorted(queues)] == [
        "MessageQueue [topic=A, brokerName=b, queueId=0]",
        "MessageQueue [topic=A, brokerName=b, queueId=1]",
        "MessageQueue [topic=B, brokerName=a, queueId=0]",
    ]
    assert len({*queues, MessageQueue("B", "a", 0)}) == 3


def test_offset_ids_there_and_back():
    for host in ("127.0.0.1", "::1", "2001:db8::7"):
        text = offset_msg_id(host, 10911, 2**40 + 5)
        assert len(text) == (32 if "." in host else 56)
        assert parse_offset_msg_id(text) == (host, 10911, 2**40 + 5)
    for bad in ("", "zz", "7F0000010000", "7F00000100002A9F00000000000000B", " " * 32):
        with pytest.raises(ValueError, match="32 or 56 hex digits"):
            parse_offset_msg_id(bad)


def test_unique_ids_have_rocketmqs_layout():
    text = unique_id()
    assert len(text) == 32
    assert text == text.upper()
    assert int(text[8:12], 16) == os.getpid() & 0xFFFF
    elapsed_ms = int(text[20:28], 16)
    now = datetime.now().astimezone()
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    assert abs((now - month).total_seconds() * 1000 - elapsed_ms) < 10_000


def test_unique_ids_differ_between_threads_and_processes():
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: unique_id(), range(2000)))
    assert len(set(ids)) == len(ids)
    queue = multiprocessing.get_context("fork").SimpleQueue()
    child = multiprocessing.get_context("fork").Process(target=lambda: queue.put(unique_id()))
    child.start()
    other = queue.get()
    child.join(60)
    assert other[8:20] != ids[0][8:20]


def test_a_unique_ids_counter_has_four_digits_and_begins_again():
    ids = [unique_id() for _ in range(0x10001)]
    numbers = [int(text[28:], 16) for text in ids]
    assert all((one + 1) & 0xFFFF == next_one for one, next_one in pairwise(numbers))
