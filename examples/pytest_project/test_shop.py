"""Tests of the shop with a real broker in this process and with a scripted transport.

    pytest examples/pytest_project

The fixtures come with mqstack. `mq_broker` starts when the first test uses it, on free ports and in
a temporary folder. The tests of a session share it, so each test uses its own topic.
"""

from shop import Shop

from mqclient import Producer, UnreachableError
from mqclient.mock import MockTransport
from mqcommon.wire import Frame, RequestCode
from mqserver import Standalone


def test_an_order_becomes_a_message(mq_broker: Standalone) -> None:
    """Reads the stored messages from the broker, without a consumer."""
    topic = mq_broker.topic()
    with Producer(mq_broker.namesrv) as producer:
        assert Shop(producer, topic).order("order-1", "tea") == "order-1 is on its way"
    (message,) = mq_broker.messages(topic)
    assert (message.body, message.tags, message.keys) == (b"tea", "Placed", ("order-1",))


def test_an_order_fails_politely_without_a_server() -> None:
    """A scripted transport fails at once; a real one would wait for a timeout."""

    def down(address: str, _request: Frame) -> UnreachableError:
        return UnreachableError("no route to host", address)

    transport = MockTransport({int(RequestCode.GET_ROUTEINFO_BY_TOPIC): down})
    with Producer("127.0.0.1:9876", transport=transport) as producer:
        answer = Shop(producer).order("order-1", "tea")
    assert answer == "order-1 could not be taken, please try again"
    assert transport.sent, "the shop tried"
