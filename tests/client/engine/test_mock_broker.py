"""`MockBroker` and `received`: programs that send, and handlers, are tested without a server."""

import asyncio

import pytest

import mqclient.aio
from mqclient import (
    BrokerError,
    Compression,
    Linger,
    Message,
    Producer,
    ResponseCode,
    TransactionProducer,
    reply,
)
from mqclient.mock import MockBroker, MockTransport, received


@pytest.fixture
def broker() -> MockBroker:
    return MockBroker(queues=2)


def test_what_is_sent_can_be_read(broker: MockBroker) -> None:
    message = Message("Orders", b"tea", tags="Placed", keys=["a", "b"], properties={"to": "Ada"})
    with Producer(transport=broker.transport) as producer:
        result = producer.send(message)
        producer.send(Message("Other", b"x"))
    (stored,) = broker.messages("Orders")
    assert (stored.body, stored.tags, stored.keys) == (b"tea", "Placed", ("a", "b"))
    assert stored.properties["to"] == "Ada"
    assert (stored.msg_id, stored.queue_id) == (result.msg_id, result.message_queue.queue_id)
    assert stored.offset_msg_id[-2:] == result.offset_msg_id[-2:]
    assert [stored.topic for stored in broker.messages()] == ["Orders", "Other"]


def test_batches_large_bodies_and_lingering_sends_are_stored(broker: MockBroker) -> None:
    with Producer(transport=broker.transport, compression=Compression("zstd")) as producer:
        sent = producer.send([Message("Batch", b"%d" % i, flag=i) for i in range(3)])
        producer.send(Message("Large", b"x" * 10_000))
    batch = broker.messages("Batch")
    assert [(message.body, message.flag) for message in batch] == [
        (b"0", 0),
        (b"1", 1),
        (b"2", 2),
    ]
    assert [message.queue_offset for message in batch] == [0, 1, 2]
    assert [message.msg_id for message in batch] == list(sent.msg_ids)
    assert broker.messages("Large")[0].body == b"x" * 10_000

    async def gathered() -> None:
        async with mqclient.aio.Producer(transport=broker.transport, linger=Linger()) as producer:
            await asyncio.gather(*(producer.send(Message("L", b"%d" % i)) for i in range(9)))

    asyncio.run(gathered())
    assert sorted(message.body for message in broker.messages("L")) == [b"%d" % i for i in range(9)]


def test_the_order_key_chooses_one_queue(broker: MockBroker) -> None:
    with Producer(transport=broker.transport) as producer:
        for _ in range(4):
            producer.send(Message("Orders", b"x"), order_key="order-1")
    assert len({message.queue_id for message in broker.messages("Orders")}) == 1
    assert [message.queue_offset for message in broker.messages("Orders")] == [0, 1, 2, 3]


def test_a_transaction_is_stored_when_it_commits(broker: MockBroker) -> None:
    options = {"check": lambda _message: None, "transport": broker.transport}
    with TransactionProducer("shop", **options) as producer:  # type: ignore[arg-type]
        with producer.transaction(Message("Orders", b"kept")) as transaction:
            assert not broker.messages("Orders")
            transaction.commit()
        with producer.transaction(Message("Orders", b"dropped")) as transaction:
            transaction.rollback()
    assert [message.body for message in broker.messages("Orders")] == [b"kept"]


def test_a_refusal_reaches_the_program(broker: MockBroker) -> None:
    with Producer(transport=broker.transport) as producer:
        broker.refuse(ResponseCode.SYSTEM_BUSY)
        with pytest.raises(BrokerError, match=r"SYSTEM_BUSY \(2\): refused by the test"):
            producer.send(Message("Orders", b"x"))
        broker.refuse(None)
        producer.send(Message("Orders", b"y"))
    assert [message.body for message in broker.messages()] == [b"y"]


def test_a_handler_gets_a_message_as_from_a_broker(broker: MockBroker) -> None:
    message = Message("Orders", b"tea", tags="Placed", keys="order-1", flag=7)
    made = received(message, reconsume_times=3, queue_id=1, queue_offset=42)
    assert (made.topic, made.body, made.tags, made.keys) == (
        "Orders",
        b"tea",
        "Placed",
        ("order-1",),
    )
    assert (made.flag, made.reconsume_times, made.queue_id, made.queue_offset) == (7, 3, 1, 42)
    assert made.msg_id
    assert made.born_timestamp.tzinfo is not None
    copy = Message.from_received(made, "Audit")
    assert (copy.body, copy.keys) == (b"tea", ("order-1",))
    with pytest.raises(TypeError, match="message must be a Message, not bytes"):
        received(b"tea")  # type: ignore[arg-type]


def test_a_reply_is_stored_in_the_reply_topic(broker: MockBroker) -> None:
    request = Message.from_received(received(Message("Rates", b"EUR")))
    request.properties |= {
        "CLUSTER": "DefaultCluster",
        "CORRELATION_ID": "c",
        "REPLY_TO_CLIENT": "x",
    }
    with Producer(transport=broker.transport) as producer:
        producer.send(reply(received(request), b"1.00"))
    (answer,) = broker.messages("DefaultCluster_REPLY_TOPIC")
    assert answer.body == b"1.00"


def test_what_is_not_played_is_named() -> None:
    with pytest.raises(ValueError, match="queues must be 1 to 65535, not 0"):
        MockBroker(queues=0)
    with (
        Producer(transport=MockTransport()) as producer,
        pytest.raises(KeyError, match="no script answers GET_ROUTEINFO_BY_TOPIC"),
    ):
        producer.send(Message("Orders", b"x"))
