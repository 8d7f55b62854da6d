"""A wrong argument fails at the call that passes it, and the error names the likely intention."""

import asyncio
from typing import Any

import pytest

import mqclient
from mqclient import Message, aio
from mqclient.consumer.context import ConsumeContext
from mqcommon.message import MessageQueue, ReceivedMessage
from tests.client.cluster import NAMESRV, Cluster

FACES = [mqclient, aio]


def of_messages(messages, context): ...


def of_one(message): ...


async def async_of_one(message): ...


class Handler:
    def __call__(self, messages, context): ...


@pytest.fixture(params=FACES, ids=["blocking", "asyncio"])
def consumer(request):
    return request.param.PushConsumer("g", NAMESRV)


@pytest.mark.parametrize("handler", [of_messages, Handler(), print, lambda *_: None])
def test_handlers_that_can_be_called_are_taken(consumer, handler):
    consumer.subscribe("T", "*", handler)


@pytest.mark.parametrize("handler", [of_one, async_of_one])
def test_a_handler_of_one_message_is_refused_by_subscribe(consumer, handler):
    words = r"of_one\(message\) takes one message, and subscribe passes a list of messages; use "
    with pytest.raises(TypeError, match=words + r"@consumer.on_message\(topic\), or annotate it"):
        consumer.subscribe("T", "*", handler)


def test_a_handler_of_nothing_is_refused(consumer):
    words = r"\(\) cannot be called with \(messages\) or \(messages, context\)$"
    with pytest.raises(TypeError, match=words):
        consumer.subscribe("T", "*", lambda: None)


def of_a_list(batch: list[ReceivedMessage]): ...


def of_one_with_a_type(it: "ReceivedMessage[int]"): ...


@pytest.mark.parametrize("handler", [of_messages, of_a_list])
def test_a_handler_of_lists_is_refused_by_on_message(consumer, handler):
    words = r"takes a list of messages, and on_message passes one message; use @consumer.on_batch"
    with pytest.raises(TypeError, match=words):
        consumer.on_message("T")(handler)


@pytest.mark.parametrize("handler", [of_one, of_one_with_a_type])
def test_a_handler_of_one_message_is_refused_by_on_batch(consumer, handler):
    words = r"takes one message, and on_batch passes a list of messages; use @consumer.on_message"
    with pytest.raises(TypeError, match=words):
        consumer.on_batch("T")(handler)


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"max_messages": 0}, ValueError, "max_messages must be 1 to 65535, not 0"),
        ({"max_messages": 1001}, ValueError, r"more than a consumer holds of one queue; raise lim"),
        ({"max_wait": 5000}, ValueError, "max_wait must be at most 60 seconds, not 5000"),
        ({"max_wait": "1"}, TypeError, "max_wait must be a number of seconds"),
        ({"deserializer": "utf-8"}, TypeError, "deserializer must be an object with loads"),
    ],
)
def test_wrong_sizes_of_batches_are_refused(consumer, options, error, why):
    with pytest.raises(error, match=why):
        consumer.on_batch("T", **options)(of_a_list)


def of_bytes(body: bytes): ...


def of_text(body: "str", context): ...


def of_a_sent_message(it: Message): ...


def of_a_dict(it: dict[str, int]): ...


def of_the_context(context: ConsumeContext): ...


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (of_bytes, "bytes.*; the bytes are message.body"),
        (of_text, "str.*; the bytes are message.body"),
        (of_a_sent_message, "Message"),
        (of_a_dict, "dict"),
        (of_the_context, "ConsumeContext"),
    ],
)
def test_annotations_that_no_message_fits_are_refused(consumer, handler, name):
    words = f"{handler.__name__} takes {name.partition('.')[0]}, and on_message passes a Received"
    with pytest.raises(TypeError, match=words):
        consumer.on_message("T")(handler)
    with pytest.raises(TypeError, match=f"takes {name}"):
        consumer.subscribe("T", "*", handler)
    with pytest.raises(TypeError, match=f"takes {name}"):
        consumer.on_batch("T")(handler)


def of_anything(it: object): ...


def of_an_unknown_name(it: "Order"): ...  # noqa: F821


@pytest.mark.parametrize("handler", [of_anything, of_an_unknown_name])
def test_annotations_that_may_fit_are_taken(consumer, handler):
    consumer.on_message("T")(handler)


def test_a_handler_in_the_place_of_the_expression_is_named(consumer):
    with pytest.raises(TypeError, match=r"write subscribe\(topic, '\*', handler\), or use @cons"):
        consumer.subscribe("D", of_messages)
    with pytest.raises(TypeError, match=r"^subscribe needs a handler; write subscribe\(topic, "):
        consumer.subscribe("D", "TagA")


def test_on_message_without_parentheses_is_refused(consumer):
    with pytest.raises(TypeError, match=r"write @consumer.on_message\('TopicTest'\)"):

        @consumer.on_message
        def handle(message): ...


@pytest.mark.parametrize(
    ("arguments", "error"), [(("",), ValueError), (("T", "||"), ValueError), (("T", 1), TypeError)]
)
def test_on_message_refuses_bad_filters_before_the_function(consumer, arguments, error):
    with pytest.raises(error):
        consumer.on_message(*arguments)


@pytest.mark.parametrize("face", FACES)
def test_a_listener_of_the_wrong_signature_is_refused(face):
    consumer = face.LitePullConsumer("g", NAMESRV)
    with pytest.raises(TypeError, match=r"revoked .*cannot be called with \(queues\)"):
        consumer.on_rebalance(revoked=of_messages)
    with pytest.raises(TypeError, match="lost must be callable, not int"):
        consumer.on_rebalance(lost=5)


@pytest.mark.parametrize("face", FACES)
def test_wrong_signatures_are_refused_for_other_callbacks_too(face):
    with pytest.raises(TypeError, match=r"allocate .*\(client_id, queues, client_ids\)"):
        face.PushConsumer("g", NAMESRV, allocate=of_one)
    with pytest.raises(TypeError, match=r"check .*cannot be called with \(message\)"):
        face.TransactionProducer("g", NAMESRV, check=of_messages)


CLIENTS = {
    "Producer": {},
    "PushConsumer": {"group": "g"},
    "LitePullConsumer": {"group": "g"},
    "TransactionProducer": {"group": "g", "check": of_one},
    "Admin": {},
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_with_on_an_asyncio_client_names_async_with(kind):
    words = f"^{kind} of mqclient.aio needs `async with`; mqclient.{kind} has `with`$"
    with pytest.raises(TypeError, match=words), getattr(aio, kind)(**CLIENTS[kind]):
        pass


@pytest.mark.parametrize("kind", CLIENTS)
async def test_async_with_on_a_blocking_client_names_with(kind):
    words = f"^mqclient.{kind} needs `with`; mqclient.aio.{kind} has `async with`$"
    with pytest.raises(TypeError, match=words):
        async with getattr(mqclient, kind)(**CLIENTS[kind]):
            pass


@pytest.mark.parametrize("level", [-2, 19, 30])
def test_a_delay_level_out_of_range_is_refused(level):
    context = ConsumeContext(MessageQueue("T", "b", 0))
    with pytest.raises(ValueError, match=rf"delay_level {level} is no level: 1 to 18 .* -1 is"):
        context.delay_level = level
    assert context.delay_level == 0
    with pytest.raises(ValueError, match=rf"1 to 18 \(1 s to 2 h\), not {level};"):
        Message("T", b"x", delay_level=level)


@pytest.mark.parametrize("level", ["3", 1.5])
def test_a_delay_level_is_an_int(level):
    with pytest.raises(TypeError, match="delay_level must be int"):
        ConsumeContext(MessageQueue("T", "b", 0)).delay_level = level


def test_a_context_for_a_test_of_a_handler_needs_no_queue():
    context = ConsumeContext()
    context.delay_level = 3
    assert context.delay_level == 3
    assert context.message_queue == MessageQueue("TopicTest", "broker-a", 0)


def test_every_delay_level_of_rocketmq_is_taken():
    context = ConsumeContext(MessageQueue("T", "b", 0))
    for level in range(-1, 19):
        context.delay_level = level
        assert context.delay_level == level


NOTHING = r"of group g would read nothing; call subscribe\(topic"


@pytest.mark.parametrize("way", ["start", "run"])
def test_a_consumer_without_a_subscription_does_not_start(way):
    consumer = mqclient.PushConsumer("g", NAMESRV, transport=Cluster().transport)
    with pytest.raises(ValueError, match=NOTHING):
        getattr(consumer, way)()
    other = aio.PushConsumer("g", NAMESRV, transport=Cluster().transport)
    with pytest.raises(ValueError, match=NOTHING):
        asyncio.run(getattr(other, way)())


def test_with_starts_without_a_subscription_and_run_asks_for_one():
    transport = Cluster().transport
    with (
        mqclient.PushConsumer("g", NAMESRV, transport=transport) as consumer,
        pytest.raises(ValueError, match=NOTHING),
    ):
        consumer.run()


async def test_async_with_needs_no_subscription_but_run_does():
    async with aio.PushConsumer("g", NAMESRV, transport=Cluster().transport) as consumer:
        with pytest.raises(ValueError, match=NOTHING):
            await consumer.run()


def test_a_lite_consumer_that_reads_nothing_is_not_waited_for():
    transport = Cluster(T=1).transport
    with mqclient.LitePullConsumer("g", NAMESRV, transport=transport) as consumer:
        with pytest.raises(ValueError, match=r"nothing to read; call subscribe\(topic\) or assign"):
            consumer.poll(timeout=0.01)
        with pytest.raises(ValueError, match="nothing to read"):
            iter(consumer)
        consumer.subscribe("T")
        assert consumer.poll(timeout=0.01) == []
        consumer.unsubscribe("T")
        assert consumer.poll(timeout=0.01) == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (mqclient.TopicConfig("T", read_queue_nums="8"), "TopicConfig.read_queue_nums must be int"),
        (mqclient.TopicConfig("T", order=1), "TopicConfig.order must be bool, not 1"),
        (mqclient.TopicConfig(" "), "TopicConfig.topic_name must not be blank"),
        (mqclient.TopicConfig("T", perm=1 << 40), "TopicConfig.perm must fit 32 bits, not 109951"),
        (
            mqclient.GroupConfig("G"),
            r"config must be a TopicConfig, not GroupConfig\(group_name='G'",
        ),
    ],
)
async def test_a_wrong_configuration_names_the_field(config: Any, words: str) -> None:
    async with aio.Admin(NAMESRV, transport=mqclient.MockTransport({})) as admin:
        with pytest.raises((TypeError, ValueError), match=words):
            await admin.topics.update(config, broker="b:1")
        with pytest.raises((TypeError, ValueError), match=words):
            await admin.topics.update_order(config, ["b"])
        with pytest.raises((TypeError, ValueError), match=words):
            await admin.topics.add_to_order(config, "b")
    with mqclient.Admin(NAMESRV, transport=mqclient.MockTransport({})) as blocking:
        if isinstance(config, mqclient.TopicConfig):
            with pytest.raises((TypeError, ValueError), match=words):
                blocking.topics.create([config])
        with pytest.raises(TypeError, match="config must be a GroupConfig, not 5"):
            blocking.groups.update(5, broker="b:1")  # type: ignore[arg-type]


async def test_run_and_close_take_clients_and_seconds() -> None:
    with pytest.raises(TypeError, match=r"run takes clients of mqclient, as .*, not <"):
        mqclient.run(aio.Producer())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"run takes clients of mqclient\.aio, as .*, not <"):
        await aio.run(mqclient.Producer())  # type: ignore[arg-type]
    for wrong in (mqclient.run, mqclient.Producer.close):
        with pytest.raises(TypeError, match="timeout must be a number of seconds, not '5'"):
            wrong(mqclient.Producer(), timeout="5")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout must be a number of seconds, not '5'"):
        await aio.run(aio.Producer(), timeout="5")  # type: ignore[arg-type]
