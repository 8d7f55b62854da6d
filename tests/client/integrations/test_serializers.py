"""Values in bodies, and bodies that hold none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from mqclient import Message, RocketMQError
from mqclient.integrations.serializers import (
    Json,
    Serializer,
    UnreadableBodyError,
    message_of,
    value_of,
)
from mqcommon.message import ReceivedMessage, decode_messages
from tests.client.cluster import record


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


def test_a_value_that_json_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="complex is no JSON"):
        message_of("T", 1j, Json())
