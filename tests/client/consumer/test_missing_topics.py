"""A consumer of a topic that does not exist says so once, with the next step, and then reads it."""

from __future__ import annotations

import logging
import re

import pytest

import mqclient
from mqclient import ClientTimeout, Connection, aio
from mqserver.embedded.standalone import Standalone
from tests.client.cluster import NAMESRV, Cluster
from tests.waiting import until, until_async

SOON = {
    "rebalance_interval": 0.02,
    "connection": Connection(route_poll_interval=0.02),
    "consume_from": "earliest",
}
NEXT_STEP = (
    "no messages of topic {0} until it exists: no route for topic '{0}' at NameServer {1}: it does "
    "not exist, or its name is misspelt; create it: mqadmin updateTopic -n {1} -c DefaultCluster "
    "-t {0}"
)
BOTH = pytest.mark.parametrize("kind", ["push", "lite"])


def made(kind: str, face, namesrv: str, *topics: str | re.Pattern[str], **options):
    name = "PushConsumer" if kind == "push" else "LitePullConsumer"
    consumer = getattr(face, name)("g", namesrv, **SOON, **options)
    for topic in topics:
        consumer.subscribe(topic, "*", *([lambda _messages: None] if kind == "push" else []))
    return consumer


def warnings(caplog) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


@BOTH
async def test_a_missing_topic_is_named_once_with_the_next_step(kind, caplog):
    cluster = Cluster(T=1)
    consumer = made(kind, aio, NAMESRV, "T", "Ordres", transport=cluster.transport)
    async with consumer:
        await until_async(lambda: len(warnings(caplog)) > 0)
        asked = len(cluster.transport.sent)
        await until_async(lambda: len(cluster.transport.sent) > asked + 20)
        text = NEXT_STEP.format("Ordres", NAMESRV)
        assert warnings(caplog) == [f"the consumer gets {text}"]
        words = r"no queue of Ordres was .*does not exist, or its .*updateTopic .* -t Ordres; mqad"
        with pytest.raises(ClientTimeout, match=words):
            await consumer.wait_assigned(0.01)
        cluster.topics["Ordres"] = 1
        assert len(await consumer.wait_assigned(60)) == 2
        assert len(warnings(caplog)) == 1


@BOTH
async def test_a_topic_that_is_subscribed_anew_is_named_again(kind, caplog):
    cluster = Cluster(T=1)
    consumer = made(kind, aio, NAMESRV, "T", "Ordres", transport=cluster.transport)
    async with consumer:
        await until_async(lambda: len(warnings(caplog)) == 1)
        consumer.unsubscribe("Ordres")
        await consumer.wait_assigned(60)
        await until_async(lambda: not consumer._assignment._unread._missing)
        consumer.subscribe("Ordres", "*", *([print] if kind == "push" else []))
        await until_async(lambda: len(warnings(caplog)) == 2)


@BOTH
def test_the_blocking_face_names_it_with_a_real_namesrv(kind, caplog):
    with Standalone(settings={"autoCreateTopicEnable": "false"}) as mq:
        topic = mq.topic(queues=1)
        with made(kind, mqclient, mq.namesrv, topic, "Ordres"):
            until(lambda: NEXT_STEP.format("Ordres", mq.namesrv) in caplog.text)
