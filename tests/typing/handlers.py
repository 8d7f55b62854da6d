"""Programs for mypy and pyright: handlers are checked against the values of their consumer.

`make lint` checks that each line is right, and that each line with an ignore is refused.
"""

from dataclasses import dataclass
from typing import assert_type

from mqclient import ConsumeContext, ConsumeResult, PushConsumer, ReceivedMessage, aio
from mqclient.serializers import Json


@dataclass
class Order:
    number: int


@dataclass
class Other:
    text: str


orders = PushConsumer("g", deserializer=Json(Order))
assert_type(orders, PushConsumer[Order])
asyncio_orders = aio.PushConsumer("g", deserializer=Json(Order))
assert_type(asyncio_orders, aio.PushConsumer[Order])
plain = PushConsumer("g")
assert_type(plain, PushConsumer[bytes])


@orders.on_message("T")
def one(message: ReceivedMessage[Order]) -> None:
    print(message.value.number)


@orders.on_message("T")
def one_context(message: ReceivedMessage[Order], context: ConsumeContext) -> ConsumeResult:
    return ConsumeResult.SUCCESS


@asyncio_orders.on_batch("T")
async def several(messages: list[ReceivedMessage[Order]]) -> None:
    print(messages[0].value.number)


@orders.on_message("U", deserializer=Json(Other))
def other(message: ReceivedMessage[Other]) -> None:
    print(message.value.text)


@plain.on_message("T")
def body(message: ReceivedMessage) -> None:
    print(message.value)


@plain.on_message("T")
def body2(message: ReceivedMessage[bytes]) -> None:
    print(message.value)


orders.subscribe("T", "*", one)
orders.subscribe("T", "*", lambda messages: print(messages))
orders.subscribe("U", "*", other, deserializer=Json(Other))


def of_others(message: ReceivedMessage[Other]) -> None: ...


orders.subscribe("T", "*", of_others)  # type: ignore[arg-type]
orders.on_message("T")(of_others)  # type: ignore[arg-type]
plain.on_message("T")(one)  # type: ignore[arg-type]
orders.subscribe("U", "*", one, deserializer=Json(Other))  # type: ignore[misc]
