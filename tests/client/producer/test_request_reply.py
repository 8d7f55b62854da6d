"""Requests and replies against a scripted cluster, and as RocketMQ's frames have them."""

import asyncio
import zlib

import pytest

import mqclient
from mqclient import BrokerError, ClientTimeout, ClosedError, Message, reply
from mqclient.aio import Producer
from mqclient.errors import ProtocolError
from mqcommon.message import MessageQueue, decode_messages
from mqcommon.property_text import Pair, pairs_of, text_of
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.codes import MessageSysFlag
from mqcommon.wire.frame import decode, encode
from tests.client.cluster import BROKER, NAMESRV, Cluster, record
from tests.common.wire.golden import FOLDER, frames
from tests.waiting import until_async

REPLIES = "DefaultCluster_REPLY_TOPIC"


def producer(cluster: Cluster, **options) -> Producer:
    options = {"group": "wire_requester", "queue_index_start": 0, **options}
    return Producer(NAMESRV, transport=cluster.transport, **options)


def golden(code: int, reply_to: int | None = None, property_name: str = "") -> Frame:
    """The first frame of RocketMQ's own session of this kind that has the property."""
    for one in frames(FOLDER / "request-reply.jsonl.gz"):
        if (one.line.get("code"), one.line.get("reply_to")) == (code, reply_to):
            fields = one.line["ext_fields"] or {}
            if property_name in (fields.get("i") or fields.get("properties") or ""):
                return decode(one.data)
    raise AssertionError(f"no frame {code} with {property_name}")


def properties_of(request: Frame) -> dict[str, str]:
    return dict(pairs_of(request.fields["i"]))


def pushed(asked: Frame, body: bytes = b"pong", **changes: str) -> Frame:
    """The broker's push of a reply to a request that was sent."""
    known = properties_of(asked)
    copied = {name: known[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")}
    template = golden(326)
    text = text_of(Pair(*pair) for pair in {**copied, "MSG_TYPE": "reply"}.items())
    fields = {**template.fields, "properties": text, **changes}
    return Frame(326, fields, body, opaque=7)


class Replier:
    """Pushes a reply to every request as soon as the broker has it, or the result of `make`."""

    def __init__(self, cluster: Cluster, make=pushed) -> None:
        self.answers: list[Frame] = []
        self._cluster = cluster
        self._make = make
        self._store = cluster.send
        cluster.transport.scripts[310] = self.send

    async def send(self, address: str, request: Frame) -> Frame:
        answer = await self._cluster.transport.push(address, self._make(request))
        self.answers.append(answer)
        return self._store(address, request)


async def test_the_request_is_rocketmqs_and_so_is_its_reply():
    cluster = Cluster(WireRequest=4)
    recorded, push = golden(310, property_name="CORRELATION_ID"), golden(326)
    known = properties_of(recorded)
    message = Message("WireRequest", b"request 1", tags="T")
    message.properties["UNIQ_KEY"] = known["UNIQ_KEY"]
    message.born_timestamp_ms = int(recorded.fields["g"])
    replier = Replier(cluster, lambda asked: pushed(asked, push.body))
    async with producer(cluster) as sender:
        answer = await sender.request(message, timeout=8)
        (sent,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
        assert sent.body == recorded.body
        own = properties_of(sent)
        assert own["REPLY_TO_CLIENT"] == sender.client_id
        assert len(own["CORRELATION_ID"]) == len(known["CORRELATION_ID"]) == 36
        masked = dict.fromkeys(("CORRELATION_ID", "REPLY_TO_CLIENT"))
        assert own | masked == known | masked
        del sent.fields["i"], recorded.fields["i"]
        assert sent.fields == recorded.fields
        assert message.properties.keys().isdisjoint(masked), "the caller's message is changed"
    (acknowledged,) = replier.answers
    success = golden(0, reply_to=326)
    assert (acknowledged.code, acknowledged.fields, acknowledged.remark) == (0, {}, None)
    success.opaque, success.language = acknowledged.opaque, acknowledged.language
    success.version = acknowledged.version
    assert encode(acknowledged) == encode(success)
    assert (answer.topic, answer.body) == (REPLIES, b"reply to request 1")
    assert answer.properties["MSG_TYPE"] == "reply"
    assert int(answer.properties["ARRIVE_TIME"]) > 0
    assert answer.born_timestamp_ms == int(push.fields["bornTimestamp"])
    assert answer.store_timestamp_ms == int(push.fields["storeTimestamp"])
    assert (answer.born_host, answer.store_host) == (
        push.fields["bornHost"], push.fields["storeHost"]
    )  # fmt: skip


async def test_a_reply_is_sent_as_rocketmqs():
    cluster = Cluster(**{REPLIES: 1})
    recorded = golden(325)
    known = properties_of(recorded)
    properties = {name: known[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")}
    (request,) = decode_messages(
        record(0, 0, "WireRequest", b"?", {**properties, "CLUSTER": "DefaultCluster"})
    )
    answer = reply(request, recorded.body)
    answer.properties["UNIQ_KEY"] = known["UNIQ_KEY"]
    answer.born_timestamp_ms = int(recorded.fields["g"])
    cluster.transport.scripts[325] = lambda _a, _r: golden(0, reply_to=325)
    async with producer(cluster, group="wire_replier") as sender:
        await sender.send(answer)
        ordinary = await sender.send(Message(REPLIES, b"stored like any other"))
        assert ordinary.queue_offset == 0
    (sent,) = cluster.requests(RequestCode.SEND_REPLY_MESSAGE_V2)
    assert properties_of(sent) == known
    del sent.fields["i"], recorded.fields["i"]
    assert (sent.fields, sent.body) == (recorded.fields, recorded.body)
    assert len(cluster.requests(RequestCode.SEND_MESSAGE_V2)) == 1


def test_what_is_no_request_cannot_be_replied_to():
    (message,) = decode_messages(record(0, 0, "T", b"x", {"CLUSTER": "C", "UNIQ_KEY": "K"}))
    with pytest.raises(ValueError, match="message K cannot be replied to: it has no REPLY_TO_CLI"):
        reply(message, b"x")
    request = {"REPLY_TO_CLIENT": "c", "CORRELATION_ID": "1"}
    (message,) = decode_messages(record(0, 0, "T", b"x", request))
    with pytest.raises(ValueError, match="it has no CLUSTER"):
        reply(message, b"x")
    message.properties["CLUSTER"] = "C"
    with pytest.raises(TypeError, match="encode it"):
        reply(message, "text")
    made = reply(message, b"x", tags="A", keys=["k"], properties={"p": "v"})
    assert made.topic == "C_REPLY_TOPIC"
    assert made.properties == {
        "p": "v", "KEYS": "k", "TAGS": "A", "MSG_TYPE": "reply", **request
    }  # fmt: skip


async def test_brokers_know_the_producer_before_its_request():
    cluster = Cluster(T=1)
    Replier(cluster)
    async with producer(cluster) as sender:
        await sender.request(Message("T", b"ping"))
        cluster.transport.drop(BROKER)
        await sender.request(Message("T", b"ping"))
    codes = [frame.code for _, frame in cluster.transport.sent if frame.code in (34, 310)]
    assert codes == [34, 310, 34, 310]


async def test_a_compressed_reply_and_addresses_of_any_kind():
    cluster = Cluster(T=1)
    body = b"pong" * 1000
    packed = int(MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_ZLIB)
    hosts = {"bornHost": "[::1]:700", "storeHost": "broker.local:10911"}
    Replier(
        cluster,
        lambda asked: pushed(asked, zlib.compress(body), sysFlag=str(packed), **hosts),
    )
    async with producer(cluster) as sender:
        answer = await sender.request(Message("T", b"ping"))
    assert answer.body == body
    assert (answer.born_host, answer.store_host) == ("[::1]:700", "0.0.0.0:0")


async def test_no_reply_in_time_and_one_that_is_late(caplog):
    cluster = Cluster(T=1)
    async with producer(cluster) as sender:
        with pytest.raises(ClientTimeout, match="no reply to the request to topic 'T' came within"):
            await sender.request(Message("T", b"ping"), timeout=0.05)
        (asked,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
        assert properties_of(asked)["TTL"] == "50"
        answer = await cluster.transport.push(BROKER, pushed(asked))
        assert answer.code == 0
        assert not sender._client.replies
    assert "that no request waits for: it is late, or a second one" in caplog.text
    assert properties_of(asked)["CORRELATION_ID"] in caplog.text


async def test_a_reply_counts_even_if_the_send_was_not_acknowledged():
    cluster = Cluster(T=1)
    replier = Replier(cluster)
    replier._store = lambda _a, _r: Frame(2, remark="busy")
    async with producer(cluster) as sender:
        assert (await sender.request(Message("T", b"ping"))).body == b"pong"


async def test_a_broken_push_is_refused_and_ends_no_request():
    cluster = Cluster(T=1)
    replier = Replier(cluster, lambda asked: pushed(asked, queueId="many"))
    async with producer(cluster) as sender:
        with pytest.raises(ClientTimeout):
            await sender.request(Message("T", b"ping"), timeout=0.05)
    (answer,) = replier.answers
    assert answer.code == 1
    assert "queueId" in answer.remark


async def test_a_reply_with_too_many_properties_ends_its_request():
    cluster = Cluster(T=1)

    def answer(asked: Frame) -> Frame:
        frame = pushed(asked)
        frame.fields["properties"] += text_of([Pair("\x02big", "y" * 32_767)])
        return frame

    replier = Replier(cluster, answer)
    async with producer(cluster) as sender:
        with pytest.raises(ProtocolError, match=rf"broker {BROKER} .* 32\d+ bytes of properties"):
            await sender.request(Message("T", b"ping"), timeout=30)
    assert replier.answers[0].code == 1


async def test_many_requests_at_once_get_their_own_replies():
    cluster = Cluster(T=4)
    Replier(cluster, lambda asked: pushed(asked, asked.body[::-1]))
    async with producer(cluster) as sender:
        answers = await asyncio.gather(
            *(sender.request(Message("T", b"%03d" % number)) for number in range(100))
        )
    assert [answer.body[::-1] for answer in answers] == [b"%03d" % n for n in range(100)]


async def test_errors_and_bad_arguments():
    cluster = Cluster(T=1)
    sender = producer(cluster)
    with pytest.raises(ClosedError, match="not started"):
        await sender.request(Message("T", b"ping"))
    async with sender:
        with pytest.raises(TypeError, match="a request is one Message, not list"):
            await sender.request([Message("T", b"ping")], queue=MessageQueue("T", "broker-a", 0))
        with pytest.raises(ValueError, match="does not belong"):
            await sender.request(Message("T", b"ping"), queue=MessageQueue("U", "broker-a", 0))
        with pytest.raises(ValueError, match="timeout"):
            await sender.request(Message("T", b"ping"), timeout=-1)
        cluster.transport.scripts[310] = lambda _a, _r: Frame(2, remark="busy")
        queue = MessageQueue("T", "broker-a", 0)
        with pytest.raises(BrokerError, match="SYSTEM_BUSY"):
            await sender.request(Message("T", b"ping"), queue=queue)
        assert not sender._client.replies
    with pytest.raises(ClosedError, match="closed; make a new one"):
        await sender.request(Message("T", b"ping"))


async def test_close_ends_a_request_that_waits():
    cluster = Cluster(T=1)
    sender = producer(cluster)
    await sender.start()
    waiting = asyncio.create_task(sender.request(Message("T", b"ping"), timeout=60))
    await until_async(lambda: cluster.requests(RequestCode.SEND_MESSAGE_V2))
    await sender.close()
    with pytest.raises(ClosedError, match="before the reply came"):
        await waiting


def test_the_blocking_face():
    cluster = Cluster(T=1)
    Replier(cluster)
    with mqclient.Producer(NAMESRV, transport=cluster.transport) as sender:
        assert sender.request(Message("T", b"ping"), timeout=60).body == b"pong"
        future = sender.request_async(Message("T", b"ping"), timeout=60)
        assert future.result(60).body == b"pong"
        cluster.transport.scripts[310] = cluster.send
        with pytest.raises(ClientTimeout, match="no reply"):
            sender.request(Message("T", b"ping"), timeout=0.05)
