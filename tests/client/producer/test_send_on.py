"""What clients of any language wrote and was received here can be sent on."""

from __future__ import annotations

import json

import pytest

import mqstore
from mqclient import Admin, Message, Producer, PushConsumer, reply
from mqclient.cli import main as mqclient_main
from mqcommon.message import SYSTEM_PROPERTIES, ReceivedMessage
from mqserver.embedded.standalone import Standalone
from mqstore.offline.export import export
from mqstore.offline.walk import Wanted
from tests.waiting import until

KEYS, TAG = "order-1  user-7 ü", "A || B"
OWN = {"blank": " ", "controls": "\x01a\x01", "long": "x" * 30_000, "__SHARDINGKEY": "s"}
OTHERS = {"TRACE_ON": "true", "BUYER_ID": "7", "TTL": "1", "DELAY": "0", "POP_CK": "1 2"}


def foreign(topic: str, body: bytes = b"body") -> Message:
    """A message as Java or Go may write it, past the checks of our constructor."""
    message = Message(topic, body, flag=-3)
    message.properties |= {"KEYS": KEYS, "TAGS": TAG, **OWN, **OTHERS}
    return message


def received(mq: Standalone, topic: str, body: bytes = b"body") -> ReceivedMessage:
    with Producer(mq.namesrv) as producer:
        producer.send(foreign(topic, body))
    mq.wait_dispatched()
    return mq.messages(topic)[-1]


def check(message: ReceivedMessage) -> None:
    assert (message.body, message.flag) == (b"body", -3)
    assert (message.tags, message.properties["KEYS"]) == (TAG, KEYS)
    own = {name: value for name, value in message.properties.items() if name in OWN}
    assert own == OWN
    assert not {"BUYER_ID", "TTL", "POP_CK"} & set(message.properties)


def test_a_foreign_message_is_sent_on_with_all_it_says(mq):
    first = received(mq, mq.topic("SendOnFrom"))
    to = mq.topic("SendOnTo")
    message = Message.from_received(first, to)
    assert set(message.properties) & SYSTEM_PROPERTIES == {"KEYS", "TAGS", "WAIT"}
    with Producer(mq.namesrv) as producer:
        result = producer.send(message)
        producer.send([Message.from_received(first, to), Message.from_received(first, to)])
    assert result.msg_id != first.msg_id
    mq.wait_dispatched()
    stored = mq.messages(to)
    assert len(stored) == 3
    for one in stored:
        check(one)
    with Admin(mq.namesrv) as admin:
        for key in KEYS.split():
            assert len(admin.messages.query(to, key)) == 3, key


def test_received_keys_are_keys_of_the_constructor(mq):
    message = received(mq, mq.topic("SendOnKeys"))
    assert Message("T", b"x", keys=message.keys).keys == ("order-1", "user-7", "ü")
    assert reply_of({"keys": message.keys, "tags": message.tags}).tags == TAG
    with pytest.raises(ValueError, match=r"Message\.from_received"):
        Message("T", b"x", properties=message.properties)
    with pytest.raises(ValueError, match=r"Message\.from_received"):
        Message("T", b"x", tags=message.tags)
    with pytest.raises(ValueError, match="is empty"):
        Message("T", b"x", keys=" ")


def reply_of(fields: dict[str, str]) -> Message:
    class Request:
        msg_id = "1"
        properties = {"CLUSTER": "C", "REPLY_TO_CLIENT": "me", "CORRELATION_ID": "1"}

    return reply(Request(), b"pong", **fields)


def test_dead_letters_go_back_to_the_topic_that_they_came_from(mq):
    topic = mq.topic("SendOnDead", queues=1)

    def fail(messages, context):
        raise ConnectionError("the bank is down")

    consumer = PushConsumer("send_on_dead", mq.namesrv, consume_from="earliest", max_retries=0)
    consumer.subscribe(topic, "*", fail)
    with Producer(mq.namesrv) as producer, consumer:
        producer.send(foreign(topic))
        with Admin(mq.namesrv) as admin:
            until(lambda: "%DLQ%send_on_dead" in admin.topics.names())
        until(lambda: mq.messages("%DLQ%send_on_dead"))
        (dead,) = mq.messages("%DLQ%send_on_dead")
        message = Message.from_received(dead)
        assert message.topic == topic
        producer.send(message)
    until(lambda: len(mq.messages(topic)) == 2)
    check(mq.messages(topic)[-1])


def test_keys_from_the_shell_are_sent_on_by_the_shell(mq, capsys):
    source, to = mq.topic("SendOnShell"), mq.topic("SendOnShellTo")
    received(mq, source)
    consume = ["consume", source, "-n", mq.namesrv, "-g", "shell", "-E", "--from", "earliest"]
    assert mqclient_main([*consume, "-f", "%k\n%s\n"]) == 0
    keys, body = capsys.readouterr().out.splitlines()
    assert mqclient_main(["send", to, body, "-n", mq.namesrv, "--keys", keys]) == 0
    mq.wait_dispatched()
    assert mq.messages(to)[0].keys == tuple(KEYS.split())


def test_an_export_of_foreign_messages_is_put_back(mq, capsys, tmp_path):
    source, to = mq.topic("SendOnFile"), mq.topic("SendOnFileTo")
    received(mq, source)
    file = tmp_path / "out.jsonl"
    export(mqstore.open(mq.data), file, Wanted(topic=source))
    assert mqclient_main(["send", to, "-n", mq.namesrv, "--file", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["sent"] == 1
    mq.wait_dispatched()
    (again,) = mq.messages(to)
    assert (again.properties["KEYS"], again.tags) == (KEYS, TAG)
    assert OWN.items() <= again.properties.items()


def test_a_value_with_the_separator_of_names_is_only_sent_on(mq):
    """Java's parser splits a pair at the first 0x01; Go's drops the pair."""
    with pytest.raises(ValueError, match="holds 0x01 or 0x02"):
        Message("T", b"x", properties={"controls": "a\x01b"})
    with pytest.raises(ValueError, match="holds 0x01 or 0x02"):
        Message("T", b"x", tags="a\x01b")
    with pytest.raises(ValueError, match="holds 0x01 or 0x02"):
        Message("T", b"x", keys=["a\x01b"])
    message = Message.from_received(received(mq, mq.topic("SendOnControls")))
    assert message.properties["controls"] == "\x01a\x01"


def test_a_message_with_such_a_value_is_redelivered(mq):
    topic = mq.topic("SendOnAgain", queues=1)
    seen = []

    def handle(messages, context):
        seen.append(messages[0].properties["controls"])
        context.delay_level = 1
        if len(seen) == 1:
            raise ConnectionError("the bank is down")

    consumer = PushConsumer("send_on_again", mq.namesrv, consume_from="earliest")
    consumer.subscribe(topic, "*", handle)
    with Producer(mq.namesrv) as producer, consumer:
        producer.send(foreign(topic))
        assert until(lambda: len(seen) == 2)
    assert seen == ["\x01a\x01"] * 2
