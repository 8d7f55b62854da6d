"""SQL92 filters of a push consumer, evaluated by our broker."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest

from mqclient import BrokerError, Message, Producer, PushConsumer, SqlFilter, aio
from mqserver.embedded.standalone import Standalone
from tests.server.raw import Raw, json_frame
from tests.waiting import until


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone(settings={"enablePropertyFilter": "true"}) as both:
        yield both


class Seen:
    """A handler that collects bodies until the last one, b"end", has come."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._end = threading.Event()

    def __call__(self, messages, _context) -> None:
        self.bodies += [message.body for message in messages]
        if self.bodies[-1] == b"end":
            self._end.set()

    def forget(self) -> None:
        self.bodies.clear()
        self._end.clear()

    def until_the_end(self) -> list[bytes]:
        assert self._end.wait(60), f"only {self.bodies} came"
        return self.bodies


def send(namesrv: str, topic: str) -> None:
    regions = ("east", "west", "north", "east", "west")
    with Producer(namesrv) as producer:
        for number, region in enumerate(regions):
            properties = {"a": str(number), "region": region}
            tag = "odd" if number % 2 else "even"
            producer.send(Message(topic, b"%d" % number, tags=tag, properties=properties))
        producer.send(Message(topic, b"plain"))
        producer.send(Message(topic, b"end", properties={"a": "100", "region": "west"}))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a > 2", [b"3", b"4", b"end"]),
        ("region IN ('west', 'north') AND a BETWEEN 2 AND 100", [b"2", b"4", b"end"]),
        ("(TAGS IS NOT NULL AND TAGS = 'odd') OR a = 100", [b"1", b"3", b"end"]),
    ],
)
def test_only_what_the_filter_lets_through_comes(mq, text, wanted):
    topic = mq.topic(queues=1)
    send(mq.namesrv, topic)
    seen = Seen()
    with PushConsumer(f"g_{topic}", mq.namesrv, consume_from="earliest", threads=1) as consumer:
        consumer.subscribe(topic, SqlFilter(text), seen)
        assert seen.until_the_end() == wanted
    mq.wait_consumed(f"g_{topic}", topic)


def test_the_filter_may_change_while_it_runs(mq):
    topic = mq.topic(queues=1)
    first, second = Seen(), Seen()
    with PushConsumer(f"g_{topic}", mq.namesrv, consume_from="earliest", threads=1) as consumer:
        consumer.subscribe(topic, SqlFilter("a = 100"), first)
        send(mq.namesrv, topic)
        assert first.until_the_end() == [b"end"]
        consumer.subscribe(topic, SqlFilter("a >= 4"), second)
        # The first end may reach a held pull, which still has its old filter.
        send(mq.namesrv, topic)
        assert second.until_the_end()[-1:] == [b"end"]
        second.forget()
        send(mq.namesrv, topic)
        assert second.until_the_end() == [b"4", b"end"]


def test_what_the_broker_cannot_parse_is_refused_at_the_start(mq):
    topic = mq.topic()
    consumer = PushConsumer(f"g_{topic}", mq.namesrv)
    consumer.subscribe(topic, SqlFilter("a >"), lambda messages, context: None)
    with pytest.raises(BrokerError, match="SUBSCRIPTION_PARSE_FAILED"):
        consumer.start()
    consumer.close()


def test_an_expression_over_64_kib_is_refused_at_every_entry(mq):
    topic, text = mq.topic(), "a = '" + "x" * 65_536 + "'"
    pull = {"consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": "0", "queueOffset": "0"}
    pull |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    pull |= {"subVersion": "0", "subscription": text, "expressionType": "SQL92"}
    subscription = {"topic": topic, "subString": text, "expressionType": "SQL92"}
    check = {"clientId": "c", "group": "g", "subscriptionData": subscription}
    wanted = "Invalid MessageSelector. it has 65542 bytes, and at most 65536 are taken"
    with Raw(int(mq.broker_address.rpartition(":")[2])) as raw:
        for frame in (json_frame(11, 1, pull), json_frame(46, 1, None, json.dumps(check).encode())):
            assert raw.ask(frame)[:4] == (23, 1, 1, wanted)


PLACE = '\\"AND\\" at line 1, column 5'


def ignore(messages, context) -> None:
    """A handler."""


def test_a_filter_that_cannot_be_parsed_fails_after_start_too(mq):
    topic = mq.topic()
    with PushConsumer(f"g_{topic}", mq.namesrv) as consumer:
        with pytest.raises(BrokerError, match=PLACE) as raised:
            consumer.subscribe(topic, SqlFilter("a > AND b"), ignore)
        assert raised.value.remark.startswith("Invalid MessageSelector. a value is missing: ")
        assert consumer.wait_assigned() == [], "it is not subscribed"
        consumer.subscribe(topic, SqlFilter("a > 5 AND b = 1"), ignore)
        assert len(consumer.wait_assigned()) == 4


def test_a_refused_filter_leaves_the_one_before(mq):
    topic = mq.topic(queues=1)
    seen = Seen()
    with PushConsumer(f"g_{topic}", mq.namesrv, consume_from="earliest", threads=1) as consumer:
        consumer.subscribe(topic, SqlFilter("a = 100"), seen)
        with pytest.raises(BrokerError, match="Invalid MessageSelector"):
            consumer.subscribe(topic, SqlFilter("a = "), ignore)
        send(mq.namesrv, topic)
        assert seen.until_the_end() == [b"end"]


async def test_wait_assigned_raises_a_refusal_once_in_the_asyncio_face(mq):
    topic = mq.topic()
    async with asyncio.timeout(60):
        async with aio.PushConsumer(f"g_{topic}", mq.namesrv) as consumer:
            assert consumer.subscribe(topic, SqlFilter("a > AND b"), ignore) is None
            with pytest.raises(BrokerError, match=PLACE):
                await consumer.wait_assigned()
            assert await consumer.wait_assigned() == [], "what was raised is not raised again"
            consumer.subscribe(topic, SqlFilter("a > 5"), ignore)
            assert len(await consumer.wait_assigned()) == 4


@pytest.mark.parametrize("step", ["run", "wait_assigned"])
async def test_a_refusal_is_raised_by_the_next_call(mq, step):
    topic = mq.topic()
    with pytest.raises(BrokerError, match=PLACE):
        async with asyncio.timeout(60), aio.PushConsumer(f"g_{topic}", mq.namesrv) as consumer:
            consumer.subscribe(topic, SqlFilter("a > AND b"), ignore)
            await getattr(consumer, step)()


async def test_a_later_subscription_of_the_topic_counts(mq):
    topic = mq.topic(queues=1)
    seen = Seen()
    group = f"g_{topic}"
    async with asyncio.timeout(90):
        async with aio.PushConsumer(group, mq.namesrv, consume_from="earliest") as consumer:
            consumer.subscribe(topic, SqlFilter("a > AND b"), ignore)
            consumer.subscribe(topic, "*", seen)
            await asyncio.to_thread(send, mq.namesrv, topic)
            await asyncio.to_thread(seen.until_the_end)
            assert await consumer.wait_assigned(), "the refusal is of a subscription before"
            assert "plain" in str(seen.bodies)


def test_a_topic_that_appears_later_has_its_filter_checked_then(mq, caplog):
    topic = f"Later-{mq.topic()}"
    with PushConsumer(f"g_{topic}", mq.namesrv) as consumer:
        consumer.subscribe(topic, SqlFilter("a > AND b"), ignore)
        mq.topic(topic)
        assert until(lambda: "Invalid MessageSelector" in caplog.text)


def test_a_broker_without_filters_says_so():
    with Standalone() as plain:
        topic = plain.topic()
        consumer = PushConsumer(f"g_{topic}", plain.namesrv)
        consumer.subscribe(topic, SqlFilter("a > 1"), lambda messages, context: None)
        with pytest.raises(BrokerError, match="does not support consumer to filter"):
            consumer.start()
        consumer.close()


def test_what_is_no_filter():
    with pytest.raises(TypeError, match="must be str"):
        SqlFilter(5)
    with pytest.raises(ValueError, match="empty"):
        SqlFilter(" ")
