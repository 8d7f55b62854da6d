"""Values in bodies, and bodies that hold none."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from mqclient import Message, Orderly, Producer, PushConsumer, RocketMQError, aio
from mqclient.engine.serializing import Reader
from mqclient.serializers import (
    Json,
    MessagePack,
    Serializer,
    Text,
    UnreadableBodyError,
    message_of,
    value_of,
)
from mqcommon.message import ReceivedMessage, decode_messages, set_reader
from mqserver import Standalone
from tests.client.cluster import record


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone(settings={"messageDelayLevel": "1s"}) as both:
        yield both


class Order(msgspec.Struct):
    number: int
    item: str = "book"


@dataclass
class Parcel:
    weight: float


class Upper:
    """A serializer of the program's own."""

    def dumps(self, value: str) -> bytes:
        return value.upper().encode()

    def loads(self, body: bytes) -> str:
        return body.decode().lower()


def received(message: Message) -> ReceivedMessage:
    (found,) = decode_messages(record(2, 7, message.topic, message.body, {"UNIQ_KEY": "u7"}), "b")
    return found


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (Json(), {"a": [1, None, "ä"]}),
        (Json(Order), Order(1)),
        (Json(Parcel), Parcel(1.5)),
        (Json(list[int]), [1, 2]),
        (MessagePack(), {"a": b"bytes"}),
        (MessagePack(Order), Order(3)),
        (Text(), "ä"),
        (Text("latin-1"), "ä"),
        (Upper(), "text"),
    ],
)
def test_a_value_comes_back(serializer: Serializer[Any], value: object) -> None:
    message = message_of("T", value, serializer, tags="A", keys=["k"], properties={"p": "q"})
    assert (message.tags, message.keys, message.properties["p"]) == ("A", ("k",), "q")
    assert value_of(received(message), serializer) == value


@pytest.mark.parametrize(
    ("serializer", "body", "why"),
    [
        (Json(Order), b"{", "truncated"),
        (Json(Order), b'{"number": "one"}', "Expected `int`"),
        (Json(), b"\xff", "malformed"),
        (Upper(), b"\xff", "can't decode"),
    ],
)
def test_a_body_that_holds_no_value_is_named(
    serializer: Serializer[Any], body: bytes, why: str
) -> None:
    message = received(Message("T", body))
    words = rf"message u7 of topic 'T' \(queue 2, offset 7\).*{why}"
    with pytest.raises(UnreadableBodyError, match=words) as caught:
        value_of(message, serializer)
    assert caught.value.message is message
    assert isinstance(caught.value, RocketMQError)


@pytest.mark.parametrize(
    ("serializer", "value", "error", "why"),
    [
        (Json(), 1j, ValueError, "Json cannot serialize a complex for topic 'T': complex is no"),
        (Text(), 5, ValueError, "Text cannot serialize a int for topic 'T': text is str, not int"),
        (dict.keys, 5, ValueError, r"dict.keys cannot serialize a int for topic 'T'"),
        (str.upper, "x", TypeError, r"str.upper made str of a str for topic 'T'; it must make"),
    ],
)
def test_a_value_that_cannot_be_sent_is_named(
    serializer: Any, value: object, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        message_of("T", value, serializer)
    for face in (Producer, aio.Producer):
        with pytest.raises(error, match=why):
            face(serializer=serializer).message("T", value)


def test_producers_of_both_faces_make_messages_of_values() -> None:
    for face in (Producer, aio.Producer):
        made = face(serializer=Json()).message("T", [1], tags="A", keys="k", delay_level=2)
        assert (made.body, made.tags, made.keys, made.delay_level) == (b"[1]", "A", ("k",), 2)
        assert face().message("T", b"as it is").body == b"as it is"
        with pytest.raises(TypeError, match=r"a str for topic 'T' is not bytes; give the producer"):
            face().message("T", "text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Producer(serializer=5),
        lambda: aio.Producer(serializer=Json),
        lambda: PushConsumer("g", deserializer="utf-8"),
        lambda: aio.LitePullConsumer("g", deserializer=Text),
    ],
)
def test_what_is_no_serializer_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match=r"serializer must be an object with .*, such as Json\(\)"):
        make()


def test_a_value_is_read_once_and_survives_pickle() -> None:
    message = received(Message("T", b'{"number":1}'))
    assert message.value == message.body
    message = received(Message("T", b'{"number":1}'))
    set_reader([message], Reader(Json(Order)))
    assert message.value == Order(1)
    assert message.value is message.value
    for copy in (pickle.loads(pickle.dumps(message)), message.detach()):
        assert copy.value == Order(1)


def test_handlers_get_values_and_bodies_without_come_again(mq: Standalone) -> None:
    """Push, in both orders: the value of a sound body, the error of another, and retries."""
    for orderly in (False, Orderly(retry_delay=0.01)):
        topic, done, seen = mq.topic(queues=1), threading.Event(), []
        consumer = PushConsumer(
            f"g_values_{bool(orderly)}", mq.namesrv, consume_from="earliest", orderly=orderly,
            deserializer=Json(Order),
        )  # fmt: skip

        @consumer.on_message(topic)
        def handle(message: ReceivedMessage[Order], seen: Any = seen, done: Any = done) -> None:
            if message.reconsume_times:
                with pytest.raises(UnreadableBodyError) as caught:
                    _ = message.value
                seen.append(caught.value.message is message)
                done.set()
            else:
                seen.append(message.value.number)

        with Producer(mq.namesrv, serializer=Json()) as producer:
            producer.send(producer.message(topic, Order(1)))
            producer.send(producer.message(topic, "no order"))
        with consumer:
            assert done.wait(60)
        assert seen == [1, True]


async def test_lite_pull_gives_values(mq: Standalone) -> None:
    topic = mq.topic()
    async with (
        aio.Producer(mq.namesrv, serializer=Text()) as producer,
        aio.LitePullConsumer(
            "g_lite_values", mq.namesrv, consume_from="earliest", deserializer=bytes.decode
        ) as consumer,
    ):
        consumer.subscribe(topic)
        await producer.send(producer.message(topic, "ä"))
        assert [message.value for message in await consumer.poll(timeout=60)] == ["ä"]
