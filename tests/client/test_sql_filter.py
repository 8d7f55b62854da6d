"""SQL92 filters of a push consumer, evaluated by our broker."""

import json
import threading
from collections.abc import Iterator

import pytest

from mqclient import BrokerError, Message, Producer, PushConsumer, SqlFilter
from mqserver.standalone import Standalone
from tests.server.raw import Raw, json_frame


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
        # The first end may come to a pull that waited, which keeps the filter it came with.
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


def test_an_expression_over_64_kib_is_refused_wherever_it_comes_in(mq):
    topic, text = mq.topic(), "a = '" + "x" * 65_536 + "'"
    pull = {"consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": "0", "queueOffset": "0"}
    pull |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    pull |= {"subVersion": "0", "subscription": text, "expressionType": "SQL92"}
    subscription = {"topic": topic, "subString": text, "expressionType": "SQL92"}
    check = {"clientId": "c", "group": "g", "subscriptionData": subscription}
    wanted = "bad SQL92 expression: it has 65542 bytes, and at most 65536 are taken"
    with Raw(int(mq.broker_address.rpartition(":")[2])) as raw:
        for frame in (json_frame(11, 1, pull), json_frame(46, 1, None, json.dumps(check).encode())):
            assert raw.ask(frame)[:4] == (23, 1, 1, wanted)


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
