"""Whatever was sent can be sent back: it is redelivered, or becomes a dead letter."""

import logging

import pytest

from mqclient import Admin, Message, Producer, PushConsumer
from mqclient.producer.outgoing import RETRY_ROOM_BYTES, prepare, prepare_batch
from mqclient.settings.producers import ProducerOptions
from mqcommon.message import encode_properties, offset_msg_id
from mqcommon.property_text import PROPERTIES_BYTES_MAX
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.groups import GroupConfig
from tests.client.cluster import Cluster, record
from tests.client.reading import Q0, RETRY, reading
from tests.waiting import until, until_async

LIMIT = PROPERTIES_BYTES_MAX - RETRY_ROOM_BYTES
LONGEST_TOPIC = "t" * 127
LONGEST_GROUP = "g" * 120
SETTINGS = ProducerOptions()


def filled(topic: str, size: int) -> Message:
    """A message whose properties, with the id that a send adds, take `size` bytes."""
    message = Message(topic, b"x", keys="k")
    own = len(encode_properties({**message.properties, "UNIQ_KEY": "i" * 32, "big": ""}))
    message.put_property("big", "y" * (size - own))
    return message


@pytest.mark.parametrize(
    "make", [prepare, lambda m, s: prepare_batch([m, m], s)], ids=["", "batch"]
)
def test_new_properties_leave_room_for_those_of_a_redelivery(make):
    make(filled("T", LIMIT), SETTINGS)
    with pytest.raises(ValueError, match=f"{LIMIT + 1} bytes.* the limit is {LIMIT}"):
        make(filled("T", LIMIT + 1), SETTINGS)


def test_a_copy_for_the_retry_topic_may_use_that_room():
    prepare(filled(RETRY, PROPERTIES_BYTES_MAX), SETTINGS)
    with pytest.raises(ValueError, match=f"the limit is {PROPERTIES_BYTES_MAX}$"):
        prepare(filled(RETRY, PROPERTIES_BYTES_MAX + 1), SETTINGS)


def test_the_fullest_message_of_the_longest_names_comes_again(mq):
    mq.topic(LONGEST_TOPIC, queues=1)
    tries = []

    def handle(messages, context):
        tries.append((messages[0].reconsume_times, messages[0].properties["big"]))
        context.delay_level = 1
        if len(tries) <= 2:
            raise RuntimeError

    message = filled(LONGEST_TOPIC, LIMIT)
    with (
        Producer(mq.namesrv) as producer,
        PushConsumer(LONGEST_GROUP, mq.namesrv, consume_from="earliest") as consumer,
    ):
        consumer.subscribe(LONGEST_TOPIC, "*", handle)
        producer.send(message)
        assert until(lambda: len(tries) == 3)
    assert tries == [(times, message.properties["big"]) for times in range(3)]


def refusing_cluster(**properties: str) -> Cluster:
    cluster = Cluster(**{"T": 1, RETRY: 1})
    cluster.put("T", b"x", UNIQ_KEY="ID1", **properties)
    cluster.transport.scripts[36] = lambda _a, _r: Frame(1, remark="PROPERTIES_SIZE_EXCEEDED")
    stored = {"msgId": offset_msg_id("127.0.0.1", 10911, 0), "queueOffset": "0", "queueId": "0"}
    cluster.transport.scripts[310] = lambda _a, _r: Frame(0, stored)
    return cluster


async def fail(messages, _context):
    raise RuntimeError


@pytest.mark.parametrize("orderly", [False, True])
async def test_what_no_copy_has_room_for_is_a_dead_letter_without_it(caplog, orderly):
    cluster = refusing_cluster(small="s", big="y" * 20_000, huge="z" * 12_700)
    options = {"consume_from": "earliest", "commit_interval": 0.01}
    if orderly:
        options |= {"orderly": True, "max_retries": 0}
    async with reading(cluster, fail, **options):
        await until_async(lambda: cluster.committed.get(Q0) == 1)
    (copy,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert copy.fields["b"] == RETRY
    assert int(copy.fields["j"]) >= int(copy.fields["l"]), "the broker makes it a dead letter"
    properties = dict(pair.split("\x01") for pair in copy.fields["i"].split("\x02"))
    assert {"small", "huge", "UNIQ_KEY", "RETRY_TOPIC"} <= properties.keys()
    assert not {"big", "DELAY"} & properties.keys()
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "ID1 goes to the dead-letter queue %DLQ%g without its properties big" in line.message


async def test_a_copy_keeps_the_stored_body_even_if_undecodable():
    cluster = refusing_cluster()
    cluster.stored[Q0] = [record(0, 0, "T", b"no zlib", {}, sys_flag=0x1)]
    async with reading(cluster, fail, consume_from="earliest"):
        await until_async(lambda: cluster.requests(RequestCode.SEND_MESSAGE_V2))
    (copy,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert (copy.body, copy.fields["f"]) == (b"no zlib", "1")


def test_retries_of_a_group_count_where_the_consumer_set_none(mq):
    topic = mq.topic(queues=1)

    with Admin(mq.namesrv) as admin:
        config = GroupConfig("g_limited", retry_max_times=1)
        admin.groups.update(config, broker=mq.broker_address)
    tries = []

    def handle(messages, context):
        tries.append(messages[0].reconsume_times)
        context.delay_level = 1
        raise RuntimeError

    with (
        Producer(mq.namesrv) as producer,
        PushConsumer("g_limited", mq.namesrv, consume_from="earliest") as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        producer.send(Message(topic, b"x"))
        assert until(lambda: len(tries) == 2)
        mq.wait_consumed("g_limited", "%RETRY%g_limited")
    assert tries == [0, 1]
    (dead,) = mq.messages("%DLQ%g_limited")
    assert dead.body == b"x"


@pytest.mark.parametrize(("max_retries", "asked"), [(None, None), (3, "3")])
async def test_a_copy_has_the_consumers_limit_or_else_the_groups(max_retries, asked):
    cluster = refusing_cluster()
    cluster.put("T", b"y", MAX_RECONSUME_TIMES="16")
    options = {"consume_from": "earliest", "max_retries": max_retries}
    async with reading(cluster, fail, **options):
        await until_async(lambda: len(cluster.requests(RequestCode.SEND_MESSAGE_V2)) == 2)
    for copy in cluster.requests(RequestCode.SEND_MESSAGE_V2):
        assert copy.fields.get("l") == asked
        assert ("MAX_RECONSUME_TIMES" in copy.fields["i"]) == (asked is not None)
