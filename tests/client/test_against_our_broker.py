"""The client and its commands against our own servers, over real sockets."""

import asyncio
import json
import re
import shlex
import socket
import threading
import time

import pytest

from mqadmin import main as mqadmin_main
from mqclient import (
    BrokerError,
    ClientTimeout,
    Connection,
    LitePullConsumer,
    Message,
    MessageQueue,
    NoRouteError,
    Producer,
    PushConsumer,
    UnreachableError,
)
from mqclient import aio as mqaio
from mqclient.cli import main as mqclient_main
from mqclient.producer.queue_sender import QueueSender
from mqcommon.wire import SerializeType
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port
from tests.waiting import until

COMMANDS = {"mqadmin": mqadmin_main, "mqclient": mqclient_main}


@pytest.fixture
def strict_mq():
    """A broker that creates no topic by itself."""
    with Standalone(settings={"autoCreateTopicEnable": "false"}) as both:
        yield both


class Collector:
    """A handler that collects bodies; `wait(n)` returns them after n have arrived."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._changed = threading.Condition()

    def __call__(self, messages, _context) -> None:
        with self._changed:
            self.bodies += [message.body for message in messages]
            self._changed.notify_all()

    def wait(self, count: int, timeout: float = 60.0) -> list[bytes]:
        with self._changed:
            self._changed.wait_for(lambda: len(self.bodies) >= count, timeout)
        return self.bodies


def run_printed(text: str, program: str = "mqadmin") -> None:
    """Run the command that an error text ends with."""
    (command,) = re.findall(rf"{program} [a-zA-Z]+ (?:-[a-z] \S+ ?)+", text)
    words = shlex.split(command)
    assert COMMANDS[program](words[1:]) in (0, None)


@pytest.mark.parametrize("serialize", list(SerializeType))
def test_both_header_serialisations(mq, serialize):
    topic = mq.topic()
    seen = Collector()
    with Producer(
        mq.namesrv, connection=Connection(serialize=serialize), queue_index_start=0
    ) as producer:
        results = [producer.send(Message(topic, b"%d" % i)) for i in range(8)]
        batch = producer.send([Message(topic, b"b1"), Message(topic, b"b2")])
        producer.send_oneway(Message(topic, b"x" * 5000))
    assert [r.message_queue.queue_id for r in results] == [0, 1, 2, 3] * 2
    assert len(batch.offset_msg_ids) == 2
    group = f"g_{serialize.name}"
    with PushConsumer(
        group, mq.namesrv, connection=Connection(serialize=serialize), consume_from="earliest"
    ) as consumer:
        consumer.subscribe(topic, "*", seen)
        bodies = seen.wait(11)
    assert sorted(bodies) == sorted([*(b"%d" % i for i in range(8)), b"b1", b"b2", b"x" * 5000])
    mq.wait_consumed(group, topic)


def test_a_group_goes_on_where_it_stopped(mq):
    topic = mq.topic(queues=1)
    with Producer(mq.namesrv) as producer:
        for turn in (1, 2):
            producer.send(Message(topic, b"%d" % turn))
            seen = Collector()
            with PushConsumer("g_again", mq.namesrv, consume_from="earliest") as consumer:
                consumer.subscribe(topic, "*", seen)
                assert seen.wait(1) == [b"%d" % turn]


@pytest.mark.parametrize("kind", ["push", "lite"])
def test_latest_means_the_end_of_a_young_queue(mq, kind, caplog):
    topic = mq.topic(queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    seen: list[bytes] = []
    with Producer(mq.namesrv) as producer:
        producer.send([Message(topic, b"old")] * 3)
        mq.wait_dispatched()
        if kind == "lite":
            consumer = LitePullConsumer(f"g_latest_{kind}", mq.namesrv)
            consumer.subscribe(topic)
        else:
            consumer = PushConsumer(f"g_latest_{kind}", mq.namesrv)
            consumer.on_message(topic)(lambda message: seen.append(message.body))
        with consumer:
            consumer.wait_assigned(60)
            assert consumer.position(queue) == 3
            producer.send(Message(topic, b"new"))
            if kind == "lite":
                seen = [message.body for message in consumer.poll(timeout=60)]
            assert until(lambda: seen)
    assert seen == [b"new"]
    assert "old messages" not in caplog.text


def test_a_list_of_messages_by_one_call(mq):
    """The loop that users of aiokafka and confluent-kafka write: no class, no thread."""
    topic = mq.topic()
    with Producer(mq.namesrv) as producer:
        producer.send([Message(topic, b"%d" % n) for n in range(100)])
    bodies: list[bytes] = []
    with LitePullConsumer("g_list", mq.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic)
        while len(bodies) < 100:
            for message in consumer.poll(500, timeout=60):
                bodies.append(message.body)
        consumer.poll(500, timeout=0.01)  # the messages before it are handled
    assert sorted(bodies, key=int) == [b"%d" % n for n in range(100)]
    mq.wait_consumed("g_list", topic)


def test_two_members_share_and_the_one_left_takes_over(mq):
    topic = mq.topic(queues=4)
    options = {"consume_from": "earliest"}
    seen = Collector()
    with PushConsumer("g_share", mq.namesrv, **options) as first:
        first.subscribe(topic, "*", seen)
        assert len(first.wait_assigned()) == 4
        with PushConsumer("g_share", mq.namesrv, **options) as second:
            second.subscribe(topic, "*", seen)
            assert len(second.wait_assigned()) == 2
            assert until(lambda: len(first.assignment()) == 2)
            assert not set(first.assignment()) & set(second.assignment())
        assert until(lambda: len(first.assignment()) == 4)
        with Producer(mq.namesrv) as producer:
            for index in range(8):
                producer.send(Message(topic, b"%d" % index))
        assert sorted(seen.wait(8)) == [b"%d" % index for index in range(8)]


def test_a_failed_message_comes_again(mq):
    topic = mq.topic(queues=1)
    tries, done = [], threading.Event()

    def handle(messages, context):
        tries.append((messages[0].topic, messages[0].reconsume_times, messages[0].body))
        if len(tries) == 1:
            context.delay_level = 1
            raise RuntimeError("first try fails")
        done.set()

    with (
        Producer(mq.namesrv) as producer,
        PushConsumer("g_retry", mq.namesrv, consume_from="earliest") as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        producer.send(Message(topic, b"x"))
        assert done.wait(60)
    assert tries == [(topic, 0, b"x"), (topic, 1, b"x")]


def test_consumer_before_the_topic(mq):
    seen = Collector()
    with PushConsumer("g_early", mq.namesrv) as consumer:
        consumer.subscribe("NotYetThere", "*", seen)
        with Producer(mq.namesrv) as producer:
            producer.send(Message("NotYetThere", b"first"))
        assert seen.wait(1) == [b"first"], "a topic born after the start is read from its start"


def test_a_broker_that_restarts_is_found_again(tmp_path):
    with (
        Standalone(tmp_path, namesrv_port=free_port(), port=free_port()) as both,
        Producer(both.namesrv, timeout=60) as producer,
        PushConsumer("g_restart", both.namesrv, consume_from="earliest") as consumer,
    ):
        topic = both.topic(queues=1)
        seen = Collector()
        consumer.subscribe(topic, "*", seen)
        producer.send(Message(topic, b"before"))
        assert seen.wait(1) == [b"before"]
        both.restart()
        assert until(lambda: sent(producer, topic))
        assert until(lambda: b"after" in seen.bodies)


def test_a_send_outlasts_a_restart_of_the_only_broker(tmp_path, monkeypatch):
    enough = threading.Event()
    tries = []

    def counted(path, outgoing, timeout, send=QueueSender.send):
        tries.append(timeout)
        if len(tries) == 5:
            enough.set()
        return send(path, outgoing, timeout)

    with (
        Standalone(tmp_path, namesrv_port=free_port(), port=free_port()) as both,
        Producer(both.namesrv, timeout=60) as producer,
    ):
        topic = both.topic(queues=1)
        producer.send(Message(topic, b"before"))
        both.stop()
        monkeypatch.setattr(QueueSender, "send", counted)
        future = producer.send_async(Message(topic, b"after"))
        assert enough.wait(60)
        both.start()
        assert future.result(60).status == "SEND_OK"
        assert [message.body for message in both.messages(topic)] == [b"before", b"after"]


def sent(producer: Producer, topic: str) -> bool:
    try:
        producer.send(Message(topic, b"after"), timeout=2)
    except (UnreachableError, BrokerError, ClientTimeout, NoRouteError):
        return False
    return True


def test_close_inside_a_plain_handler_lets_it_finish(mq):
    topic = mq.topic(queues=1)
    calls = []

    def handle(messages, _context):
        consumer.close(timeout=60)
        calls.append(messages[0].body)  # close() did not wait for us

    consumer = PushConsumer("g_close_inside", mq.namesrv, consume_from="earliest")
    consumer.subscribe(topic, "*", handle)
    with Producer(mq.namesrv) as producer:
        producer.send(Message(topic, b"last"))
    started = time.monotonic()
    consumer.run()
    assert calls == [b"last"]
    assert time.monotonic() - started < 50
    mq.wait_consumed("g_close_inside", topic)  # its outcome was committed


async def test_close_inside_an_async_handler_lets_it_finish(mq):
    topic = mq.topic(queues=1)
    calls = []

    async def handle(messages, _context):
        await asyncio.gather(consumer.close(timeout=60))  # in a task that the handler starts
        calls.append(messages[0].body)

    started = time.monotonic()
    consumer = mqaio.PushConsumer("g_aclose_inside", mq.namesrv, consume_from="earliest")
    consumer.subscribe(topic, "*", handle)
    async with mqaio.Producer(mq.namesrv) as producer:
        await producer.send(Message(topic, b"last"))
    await consumer.run()
    assert calls == [b"last"]
    assert time.monotonic() - started < 50
    mq.wait_consumed("g_aclose_inside", topic)


async def test_many_sends_at_once(mq):
    topic = mq.topic()
    async with mqaio.Producer(mq.namesrv) as producer:
        results = await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % i)) for i in range(500))
        )
    assert len({result.offset_msg_id for result in results}) == 500
    assert len(mq.messages(topic)) == 500


def test_no_route_and_its_command(strict_mq):
    with Producer(strict_mq.namesrv) as producer:
        with pytest.raises(NoRouteError, match="autoCreateTopicEnable is off") as caught:
            producer.send(Message("X", b"x"))
        run_printed(str(caught.value))
        assert until(lambda: sent(producer, "X"))


def test_tail_of_an_unknown_topic_prints_a_command_that_helps(strict_mq, capsys):
    assert mqclient_main(["tail", "Y", "-n", strict_mq.namesrv]) == 1
    run_printed(capsys.readouterr().err)
    assert mqclient_main(["send", "Y", "hello", "-n", strict_mq.namesrv]) == 0
    capsys.readouterr()
    words = ["tail", "Y", "--from", "earliest", "--count", "1", "--output", "json"]
    assert mqclient_main([*words, "-n", strict_mq.namesrv]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["body"] == "hello"


def test_waiting_for_an_assignment_prints_a_command(strict_mq, capsys):
    with PushConsumer("g_wait", strict_mq.namesrv) as consumer:
        consumer.subscribe("Z", "*", Collector())
        with pytest.raises(ClientTimeout, match="mqadmin topicRoute") as caught:
            consumer.wait_assigned(0.2)
    (command,) = re.findall(r"mqadmin topicRoute .*", str(caught.value))
    mqadmin_main(shlex.split(command)[1:])
    assert "Z" in "".join(capsys.readouterr())


def test_a_broker_given_as_nameserver_is_named(mq):
    with (
        Producer(mq.broker_address) as producer,
        pytest.raises(UnreachableError, match="is a broker, not a NameServer"),
    ):
        producer.send(Message("T", b"x"))


def test_a_port_that_speaks_something_else(mq):
    """An HTTP/2 server (a RocketMQ 5 proxy's door) closes on our frame."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.recv(100)
                connection.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with Producer(address) as producer, pytest.raises(UnreachableError, match="NameServer"):
            producer.send(Message("T", b"x"))
        server.shutdown(socket.SHUT_RDWR)


def test_an_advertised_address_that_is_dead_is_said_as_such():
    with Standalone(advertise="127.0.0.1:1") as both:
        with Producer(both.namesrv) as producer:
            with pytest.raises(UnreachableError, match="advertises for it") as caught:
                producer.send(Message("T", b"x"))
            assert "address_map={'127.0.0.1:1': 'HOST:PORT'}" in str(caught.value)
        with PushConsumer("g_dead", both.namesrv) as consumer:
            consumer.subscribe("TBW102", "*", Collector())
            with pytest.raises(ClientTimeout, match="advertises for it"):
                consumer.wait_assigned(3)
        mapped = {"127.0.0.1:1": both.broker_address}
        with Producer(both.namesrv, connection=Connection(address_map=mapped)) as producer:
            result = producer.send(Message("T", b"x"))
            assert result.message_queue == MessageQueue(
                "T", "broker-a", result.message_queue.queue_id
            )
