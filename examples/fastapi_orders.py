"""A FastAPI service that sends orders and consumes them.

Both clients run on the service's event loop, from the start to the end of its lifespan.

    pip install fastapi uvicorn
    python examples/fastapi_orders.py --namesrv 127.0.0.1:9876 --port 8000
    curl -X POST localhost:8000/orders -H 'content-type: application/json' \
        -d '{"id": "order-1", "amount": 12}'
    curl localhost:8000/orders
"""

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from mqclient.aio import Message, Producer, PushConsumer, ReceivedMessage, RocketMQError

TOPIC = "WebOrders"


class Order(BaseModel):
    """An order of a customer."""

    id: str
    amount: int


def service(namesrv: str | None) -> FastAPI:
    """The application. namesrv: NameServer "host:port"."""
    producer = Producer(namesrv)
    consumer = PushConsumer("web_orders", namesrv, consume_from="earliest")
    handled: list[Order] = []

    @consumer.on_message(TOPIC)
    async def handle(message: ReceivedMessage) -> None:
        handled.append(Order.model_validate_json(message.body))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with producer, consumer:
            yield  # requests are served here; then handlers finish and offsets are committed

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=202)
    async def place(order: Order) -> dict[str, str]:
        message = Message(TOPIC, order.model_dump_json().encode(), keys=order.id)
        try:
            result = await producer.send(message)
        except RocketMQError as error:
            # After a timeout the order may still have been stored. Customers can retry safely,
            # because handlers recognise an order by its id.
            raise HTTPException(503, f"try again later: {error}") from error
        return {"msg_id": result.msg_id}

    @app.get("/orders")
    async def orders() -> list[Order]:
        return handled

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(service(arguments.namesrv), port=arguments.port)
