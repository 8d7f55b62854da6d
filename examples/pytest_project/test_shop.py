"""Tests of the shop: with a mock that opens no socket, and with a real broker in this process.

    pytest examples/pytest_project

The fixture `mq_broker` comes with mqstack. The broker starts when the first test uses it, on free
ports and in a temporary folder. The tests of a session share it, so each test uses its own topic.
"""

from shop import Kitchen, Shop

from mqclient import Message, Producer, ResponseCode
from mqclient.mock import MockBroker, received
from mqserver import Standalone


def test_an_order_is_announced() -> None:
    """The mock keeps what was sent."""
    broker = MockBroker()
    with Producer(transport=broker.transport) as producer:
        assert Shop(producer).order("order-1", "tea") == "order-1 is on its way"
    (message,) = broker.messages("Orders")
    assert (message.body, message.tags, message.keys) == (b"tea", "Placed", ("order-1",))


def test_an_order_fails_politely_when_the_broker_is_busy() -> None:
    """The mock refuses every send."""
    broker = MockBroker()
    broker.refuse(ResponseCode.SYSTEM_BUSY)
    with Producer(transport=broker.transport) as producer:
        answer = Shop(producer).order("order-1", "tea")
    assert answer == "order-1 could not be taken, please try again"
    assert not broker.messages()


def test_the_kitchen_cooks_an_order_once() -> None:
    """A handler is a function: call it with a message."""
    kitchen = Kitchen()
    order = Message("Orders", b"tea", keys="order-1")
    kitchen.handle(received(order))
    kitchen.handle(received(order, reconsume_times=1))
    assert kitchen.cooked == {"order-1": "tea"}


def test_the_order_reaches_a_real_broker(mq_broker: Standalone) -> None:
    """Reads the stored messages from the broker, without a consumer."""
    topic = mq_broker.topic()
    with Producer(mq_broker.namesrv) as producer:
        assert Shop(producer, topic).order("order-1", "tea") == "order-1 is on its way"
    (message,) = mq_broker.messages(topic)
    assert message.keys == ("order-1",)
