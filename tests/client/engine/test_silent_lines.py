"""Connections that stay open and carry nothing any more, as after a NAT forgot them."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from mqclient import Connection, Message, Producer, PushConsumer
from mqclient.engine.transport import Transport
from mqclient.errors import RocketMQError
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.embedded.standalone import Standalone
from tests.waiting import until

TIMEOUT_S = 1.0


class Forgetful:
    """Forwards connections to a server; `forget` makes the open ones silent."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._forgotten: float = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def forget(self, *, also_new: bool = False) -> None:
        """Carry no further byte on the connections that are open, and on none if `also_new`."""
        self._forgotten = math.inf if also_new else self.connections

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self.connections += 1
                self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    arguments = (self.connections, *ends)
                    threading.Thread(target=self._carry, args=arguments, daemon=True).start()

    def _carry(self, number: int, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if number > self._forgotten:
                    sink.sendall(data)
            if number > self._forgotten:
                sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def between(mq: Standalone) -> Iterator[Forgetful]:
    """The relay to the broker."""
    forgetful = Forgetful(mq.broker_address)
    yield forgetful
    forgetful.close()


def through(mq: Standalone, between: Forgetful) -> dict[str, str]:
    return {mq.broker_address: between.address}


def test_sends_work_again_within_two_timeouts(mq: Standalone, between: Forgetful) -> None:
    with Producer(
        mq.namesrv, connection=Connection(address_map=through(mq, between)), timeout=TIMEOUT_S
    ) as producer:
        producer.send(Message("SilentSends", b"before"))
        between.forget()
        began, failed = time.monotonic(), 0
        while True:
            try:
                producer.send(Message("SilentSends", b"after"))
                break
            except RocketMQError:
                failed += 1
        assert time.monotonic() - began < 2 * TIMEOUT_S + 1
        assert failed <= 2
        assert between.connections == 2


def test_a_push_consumer_reads_on(mq: Standalone, between: Forgetful) -> None:
    bodies: list[bytes] = []
    addresses = through(mq, between)
    connection = Connection(address_map=addresses, request_timeout=TIMEOUT_S)
    options = {"connection": connection, "consume_from": "earliest"}
    with (
        Producer(mq.namesrv) as producer,
        PushConsumer("g_silent", mq.namesrv, **options) as consumer,
    ):
        producer.send(Message("SilentPulls", b"before"))
        consumer.subscribe("SilentPulls", "*", lambda some, _: bodies.extend(m.body for m in some))
        assert until(lambda: bodies == [b"before"])
        between.forget()
        producer.send(Message("SilentPulls", b"after"))
        assert until(lambda: bodies == [b"before", b"after"])


def test_one_silent_nameserver_of_two(mq: Standalone) -> None:
    first, second = Forgetful(mq.namesrv), Forgetful(mq.namesrv)
    servers = f"{first.address};{second.address}"
    with Producer(
        servers, connection=Connection(route_poll_interval=0.2, request_timeout=TIMEOUT_S)
    ) as producer:
        producer.send(Message("SilentNames0", b"x"))
        used = first if first.connections else second
        used.forget(also_new=True)
        for number in (1, 2):
            producer.send(Message(f"SilentNames{number}", b"x"), timeout=3 * TIMEOUT_S)
    first.close()
    second.close()


def test_a_server_that_answers_nothing_gets_few_connections(
    mq: Standalone, between: Forgetful
) -> None:
    with Producer(
        mq.namesrv, connection=Connection(address_map=through(mq, between)), timeout=0.2
    ) as producer:
        producer.send(Message("SilentServer", b"x"), timeout=10)
        between.forget(also_new=True)
        end = time.monotonic() + 6
        while time.monotonic() < end:
            with contextlib.suppress(RocketMQError):
                producer.send(Message("SilentServer", b"x"))
        assert 2 <= between.connections <= 4


async def test_the_question_to_a_suspect_server_is_answered_at_once(mq: Standalone) -> None:
    transport = Transport()
    for address in (mq.namesrv, mq.broker_address):
        question = Frame(RequestCode.GET_KV_CONFIG, {"namespace": "", "key": ""})
        assert (await transport.call(address, question, 0.9)).code != 0
    await transport.aclose()
