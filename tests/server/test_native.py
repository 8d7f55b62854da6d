"""The Rust plane answers over a real store; requests that it declines reach Python."""

from __future__ import annotations

import json
import struct
import threading
from pathlib import Path

import pytest

from mqserver.runtime.processor_api import AGAIN, Response
from mqstore import Settings, Store, decode_messages
from tests.server.conftest import Servers, wait_counted
from tests.server.native import BROKER, DECLINED, Broker, pull_fields, send_fields
from tests.server.raw import binary_frame, json_frame
from tests.waiting import until


@pytest.mark.parametrize("frame", [json_frame, binary_frame])
def test_a_send_is_stored_and_answered_as_rocketmq_does(broker: Broker, frame):
    properties = "UNIQ_KEY\x01AB\x02WAIT\x01true\x02TAGS\x01TagA"
    reply = broker.send(b"Hello", frame=frame, e="2", i=properties, f="0", h="5")
    assert reply.fields == {
        "queueId": "2",
        "TRACE_ON": "true",
        "MSG_REGION": "DefaultRegion",
        "msgId": "7F00000100002A9F0000000000000000",
        "queueOffset": "0",
    }
    assert reply[:4] == (0, 1, 1, None)
    broker.wait_readable(1, queue_id=2)
    (message,) = decode_messages(broker.store.get("T", 2, 0, 32, None).body)
    assert (message.body, message.flag, message.born_timestamp_ms) == (b"Hello", 5, 1795248219385)
    assert message.properties == {"UNIQ_KEY": "AB", "TAGS": "TagA", "CLUSTER": "DefaultCluster"}
    assert message.store_host.endswith(":10911")
    assert message.born_host.endswith(str(broker.raw.socket.getsockname()[1]))
    assert not broker.declined


def test_the_old_header_means_the_same(broker):
    fields = {"producerGroup": "p", "topic": "T", "queueId": "1", "sysFlag": "0", "flag": "0"}
    fields |= {"bornTimestamp": "1", "properties": "TAGS\x01A", "batch": "false"}
    fields |= {"defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
    reply = broker.raw.ask(json_frame(10, 1, fields, b"v1"))
    assert (reply.code, reply.fields["queueId"]) == (0, "1")


@pytest.mark.parametrize("letter", ["a", "c", "d", "j", "l"])
def test_what_python_would_refuse_is_not_stored(broker, letter):
    fields = send_fields(**{letter: "x"})
    if letter in "ac":
        del fields[letter]
    assert broker.raw.ask(json_frame(310, 1, fields, b"x")).code == DECLINED
    assert broker.declined == [310]


def test_a_negative_queue_is_the_brokers_choice(broker):
    queues = [broker.send(b"x", e="-1").fields["queueId"] for _ in range(16)]
    assert set(queues) == {"0", "1", "2", "3"}


def item(body: bytes, properties: bytes = b"") -> bytes:
    size = 22 + len(body) + len(properties)
    head = struct.pack(">iiiii", size, 0, 0, 0, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


def test_a_batch_is_several_messages(broker):
    body = item(b"one", b"TAGS\x01A") + item(b"two")
    reply = broker.raw.ask(json_frame(320, 1, send_fields(m="true", i="WAIT\x01true"), body))
    assert (reply.code, reply.fields["queueOffset"]) == (0, "0")
    ids = reply.fields["msgId"].split(",")
    assert [len(one) for one in ids] == [32, 32]
    broker.wait_readable(2)
    messages = decode_messages(broker.store.get("T", 0, 0, 32, None).body)
    assert [message.body for message in messages] == [b"one", b"two"]
    assert [message.offset_msg_id for message in messages] == ids
    assert messages[0].properties == {"TAGS": "A", "WAIT": "true", "CLUSTER": "DefaultCluster"}


@pytest.mark.parametrize(
    "changed",
    [
        {"b": "Unknown"},
        {"b": "bad topic!"},
        {"b": ""},
        {"b": "Ordered"},
        {"b": "%RETRY%g"},
        {"b": "OFFSET_MOVED_EVENT"},
        {"e": "4"},
        {"e": "abc"},
        {"g": ""},
        {"i": "DELAY\x01abc"},
        {"m": "true", "i": "DELAY\x011"},
    ],
    ids=str,
)
def test_what_is_unusual_is_pythons(broker, changed):
    assert broker.send(b"x", **changed).code == DECLINED
    assert broker.declined == [310]


def test_too_much_is_13(broker):
    text = "the message is illegal, maybe msg body or properties length not matched. "
    text += "msg body length limit 4194304B, msg properties length limit 32KB."
    expected = (13, text, {"TRACE_ON": "true", "MSG_REGION": "DefaultRegion"})
    assert broker.send(b"x" * ((4 << 20) + 1)).code == 13
    reply = broker.send(b"x", i="big\x01" + "y" * 32760)
    assert (reply.code, reply.remark, reply.fields) == expected


def test_oneway_sends_are_stored_in_silence(broker):
    frames = [json_frame(310, n, send_fields(), b"%d" % n, flag=2) for n in range(50)]
    broker.raw.send(*frames)
    broker.wait_readable(50)
    assert broker.send(b"last").fields["queueOffset"] == "50"


def test_pipelined_sends_are_stored_in_order(broker):
    frames = [json_frame(310, n, send_fields(), b"%d" % n) for n in range(2000)]
    sender = threading.Thread(target=broker.raw.send, args=frames)
    sender.start()
    for n in range(2000):
        reply = broker.raw.read()
        assert (reply.opaque, reply.fields["queueOffset"]) == (n, str(n))
    sender.join(60)


def test_sync_flush_answers_when_it_is_on_the_disk(servers: Servers, tmp_path: Path):
    settings = Settings(commit_log_file_bytes=1 << 20, sync_flush=True, min_free_bytes=1)
    with Store(tmp_path / "sync", settings, create=True) as store:
        broker = Broker(servers, store)
        frames = [json_frame(310, n, send_fields(e=str(n % 4)), b"x") for n in range(200)]
        broker.raw.send(*frames)
        replies = [broker.raw.read() for _ in frames]
        assert {reply.code for reply in replies} == {0}
        assert {reply.opaque for reply in replies} == set(range(200))
        assert len({reply.fields["msgId"] for reply in replies}) == 200
        assert broker.send(b"no wait", i="WAIT\x01false").code == 0
        broker.raw.close()
        broker.listener.stop()


def test_sends_behind_one_in_python_wait_for_it(broker):
    """Auto topic creation: the first send is routed again once the topic is there."""
    release = threading.Event()

    def create(request):
        if request.attempt:
            return Response(DECLINED)
        assert release.wait(60)
        broker.publish("topics", {"New": (6, 4, 4, False, False)})
        return AGAIN

    broker.listener._processors[310] = create
    fields = send_fields(b="New")
    broker.raw.send(*(json_frame(310, n, fields, b"%d" % n) for n in range(20)))
    assert broker.send(b"elsewhere").code == 0, "other topics do not wait"
    release.set()
    for n in range(20):
        reply = broker.raw.read()
        assert (reply.opaque, reply.fields["queueOffset"]) == (n, str(n))
    assert broker.listener.counters()["python.310"] == 1


@pytest.mark.parametrize("frame", [json_frame, binary_frame])
def test_a_pull_finds_messages(broker, frame):
    for n in range(3):
        broker.send(b"%d" % n, i=f"TAGS\x01Tag{n}")
    broker.wait_readable(3)
    reply = broker.pull(1, frame=frame)
    assert reply[:4] == (0, 2, 1, "FOUND")
    assert reply.fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "3",
        "maxOffset": "3",
        "minOffset": "0",
    }
    assert [message.body for message in decode_messages(reply.body)] == [b"1", b"2"]
    assert reply.serialize == (frame is binary_frame)

    tagged = broker.pull(0, subscription="Tag0 || Tag2")
    assert [message.body for message in decode_messages(tagged.body)] == [b"0", b"2"]
    nothing = broker.pull(0, subscription="Other")
    assert (nothing.code, nothing.remark) == (20, "NO_MATCHED_MESSAGE")
    assert nothing.fields["nextBeginOffset"] == "3"


@pytest.mark.parametrize(
    ("offset", "code", "status", "next_offset"),
    [
        (1, 19, "OFFSET_OVERFLOW_ONE", "1"),
        (5, 21, "OFFSET_OVERFLOW_BADLY", "1"),
        (-5, 21, "OFFSET_TOO_SMALL", "0"),
    ],
)
def test_offsets_outside_the_queue(broker, offset, code, status, next_offset):
    broker.send(b"x")
    broker.wait_readable(1)
    reply = broker.pull(offset)
    assert (reply.code, reply.remark) == (code, status)
    assert reply.fields["nextBeginOffset"] == next_offset
    if code == 21:
        broker.wait_readable(1, "OFFSET_MOVED_EVENT")
        (event,) = decode_messages(broker.store.get("OFFSET_MOVED_EVENT", 0, 0, 1, None).body)
        assert json.loads(event.body) == {
            "consumerGroup": "g",
            "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
            "offsetNew": int(next_offset),
            "offsetRequest": offset,
        }
        assert event.properties == {"KEYS": "g", "DELAY": "0", "TAGS": "g"}


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "Unknown"},
        {"topic": "WriteOnly"},
        {"queueId": "4"},
        {"queueId": "-1"},
        {"consumerGroup": "unknown"},
        {"consumerGroup": "off"},
        {"expressionType": "SQL92", "subscription": "a > 1"},
        {"sysFlag": "0"},
        {"queueOffset": "x"},
    ],
    ids=str,
)
def test_pulls_that_fail_a_check_are_pythons(broker, changed):
    assert broker.pull(0, **changed).code == DECLINED
    assert broker.declined == [11]


def test_a_subscription_from_the_heartbeat(broker):
    for tag in ("A", "B"):
        broker.send(b"x" + tag.encode(), i=f"TAGS\x01{tag}")
    broker.wait_readable(2)
    subscription = ("TAG", "B", 500, [ord("B")])
    broker.publish("subscriptions", {"g": (False, {"T": subscription})})
    reply = broker.pull(0, sysFlag="0", subVersion="500", subscription="")
    assert [message.body for message in decode_messages(reply.body)] == [b"xB"]
    assert broker.pull(0, sysFlag="0", subVersion="501").code == DECLINED, "not the latest"
    broker.publish("subscriptions", {"g": (False, {"T": ("TAG", "*", 500, [])})})
    assert len(decode_messages(broker.pull(0, sysFlag="0").body)) == 2
    broker.publish("groups", {"g": (True, False, 16, 1, 0, 1)})
    broker.publish("subscriptions", {"g": (True, {"T": subscription})})
    assert broker.pull(0, sysFlag="0").code == DECLINED, "may not broadcast"
    broker.publish("subscriptions", {"g": None})
    assert broker.pull(0, sysFlag="0").code == DECLINED, "nobody is online"


def test_a_held_pull_is_woken_by_a_message_of_its_tag(servers, broker):
    consumer, other = servers.connect(broker.port), servers.connect(broker.port)
    fields = pull_fields(0, sysFlag="6", suspendTimeoutMillis="600000", subscription="Wanted")
    consumer.send(binary_frame(11, 7, fields))
    wait_counted(broker.listener, held=1)
    other.send(binary_frame(11, 8, {**fields, "subscription": "Other"}))
    wait_counted(broker.listener, held=2)
    broker.send(b"no", i="TAGS\x01Other")
    assert other.read()[:2] == (0, 8)
    assert broker.listener.counters()["held"] == 1
    broker.send(b"yes", i="TAGS\x01Wanted")
    reply = consumer.read()
    assert (reply.code, reply.opaque, reply.serialize) == (0, 7, 0)
    assert [message.body for message in decode_messages(reply.body)] == [b"yes"]
    assert broker.listener.counters()["held"] == 0


def test_a_held_pull_is_answered_at_its_deadline(servers, broker):
    """The one that came first has the later deadline."""
    later = servers.connect(broker.port)
    later.send(json_frame(11, 7, pull_fields(0, sysFlag="6", suspendTimeoutMillis="600000")))
    wait_counted(broker.listener, held=1)
    reply = broker.pull(0, sysFlag="6", suspendTimeoutMillis="300")
    assert (reply.code, reply.remark) == (19, "NO_MESSAGE_IN_QUEUE")
    assert broker.listener.counters()["held"] == 1


def test_a_held_pull_whose_topic_went_is_told_to_ask_again(servers, broker):
    consumer = servers.connect(broker.port)
    consumer.send(json_frame(11, 7, pull_fields(0, sysFlag="6", suspendTimeoutMillis="3000")))
    wait_counted(broker.listener, held=1)
    broker.publish("topics", {"T": None})
    assert consumer.read().code == 20
    assert consumer.ask(json_frame(11, 8, pull_fields(0))).code == DECLINED


def test_the_pull_of_a_client_that_went_is_forgotten(servers, broker):
    consumer = servers.connect(broker.port)
    fields = pull_fields(0, sysFlag="6", suspendTimeoutMillis=str(1 << 40))
    consumer.send(json_frame(11, 7, fields))
    wait_counted(broker.listener, held=1)
    consumer.close()
    assert until(lambda: not broker.listener.counters()["held"])


def test_short_polling_holds_briefly(broker):
    broker.publish("broker", {"": {**BROKER, "long_polling": False, "short_polling_ms": 200}})
    asked_for = str(1 << 40)
    assert broker.pull(0, sysFlag="6", suspendTimeoutMillis=asked_for).code == 19


def test_the_fast_port_serves_all_but_pulls(servers, broker):
    raw = servers.connect(broker.fast_port)
    assert broker.send(b"x", raw).code == 0
    reply = broker.pull(0, raw, frame=binary_frame)
    assert (reply.code, reply.remark, reply.serialize) == (3, " request type 11 not supported", 1)


def test_versions_of_a_table_rise(broker):
    with pytest.raises(ValueError, match="rising"):
        broker.listener.publish("topics", 1, {})
    with pytest.raises(ValueError, match="no table"):
        broker.listener.publish("topic", 99, {})


def test_nothing_is_native_before_the_broker_published_itself(servers, store):
    listener, port = servers.start({310: lambda _: Response(DECLINED)}, kind="broker", store=store)
    assert servers.connect(port).ask(json_frame(310, 1, send_fields())).code == DECLINED
    listener.stop()


def test_dataplane_python_decides_everything(servers, store):
    broker = Broker(servers, store, data_plane="python")
    assert broker.send(b"x").code == DECLINED
    assert broker.pull(0).code == DECLINED
    broker.listener.stop()
