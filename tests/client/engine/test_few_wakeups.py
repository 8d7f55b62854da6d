"""A burst of awaited sends wakes the event loop for each piece of the stream, not for each message.

Between the client and a broker of ours stands a relay that keeps the answers until all are there.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqclient import Connection, Message, aio
from mqclient.engine import instance
from mqclient.engine.transport import Transport
from mqserver import Standalone
from tests.server.raw import DEADLINE

BURST = 256
WAKE_UPS_MAX = BURST // 16
"""A read takes 8 KiB or more, so at least 50 answers. That leaves room for a system that splits a
burst into several pieces.
"""
WRITES_MAX = 4
"""The first request leaves at once; later ones leave at 64 KiB and at the end of a loop turn."""


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts its wake-ups, and the calls that it leaves to other threads."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def add_reader(self, fd: Any, callback: Callable[..., Any], *arguments: Any) -> None:
        def counted() -> None:
            self.counts["wake-ups"] += 1
            callback(*arguments)

        super().add_reader(fd, counted)

    def call_soon_threadsafe(self, *arguments: Any, **more: Any) -> Any:
        self.counts["calls of other threads"] += 1
        return super().call_soon_threadsafe(*arguments, **more)

    def run_in_executor(self, *arguments: Any) -> Any:
        self.counts["calls in other threads"] += 1
        return super().run_in_executor(*arguments)


class Relay:
    """A relay to a broker for one client; `hold(count)` joins `count` answers in one write."""

    def __init__(self, broker: str) -> None:
        host, port = broker.split(":")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listening.getsockname())
        self._broker = socket.create_connection((host, int(port)), DEADLINE)
        self.client: socket.socket | None = None
        self._held = 0
        self._threads = [threading.Thread(target=work) for work in (self._ask, self._answer)]
        for thread in self._threads:
            thread.start()

    def hold(self, count: int) -> None:
        """Keep the next `count` answers and then pass them on. Call it while no answer is due."""
        self._held = count

    def _ask(self) -> None:
        self.client, _ = self._listening.accept()
        while requests := self.client.recv(1 << 20):
            self._broker.sendall(requests)
        self._broker.shutdown(socket.SHUT_WR)

    def _answer(self) -> None:
        answers: list[bytes] = []
        with self._broker.makefile("rb") as file:
            while word := file.read(4):
                answers.append(word + file.read(int.from_bytes(word)))
                if len(answers) >= self._held:
                    assert self.client is not None
                    self.client.sendall(b"".join(answers))
                    answers.clear()

    def close(self) -> None:
        """Stop the relay after the client has closed its connection."""
        for thread in self._threads:
            thread.join(DEADLINE)
        for one in (self._listening, self._broker, self.client):
            if one is not None:
                one.close()


@pytest.fixture
def relay(mq_broker: Standalone, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    monkeypatch.setattr(instance, "FIRST_HEARTBEAT", 3600.0)  # there are no other requests
    running = Relay(mq_broker.broker_address)
    yield running
    running.close()


def test_a_burst_of_awaited_sends_wakes_the_loop_for_pieces(
    mq_broker: Standalone, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of the bytes, whatever else the machine does: a turn's requests are written together,
    and the loop is woken once at most for each time that the client's thread has read answers,
    which are there together. Nothing is left to other threads, or by them to the loop.
    """
    writes: list[None] = []
    flush = Transport._flush

    def counted(transport: Transport) -> None:
        writes.append(None)
        flush(transport)

    monkeypatch.setattr(Transport, "_flush", counted)
    topic = mq_broker.topic()

    async def burst() -> tuple[Counter[str], int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        addresses = {mq_broker.broker_address: relay.address}
        patience = {
            "connection": Connection(
                heartbeat_interval=3600.0, route_poll_interval=3600.0, address_map=addresses
            ),
            "timeout": DEADLINE,
        }
        async with aio.Producer(mq_broker.namesrv, **patience) as producer:
            await producer.send(Message(topic, b"first"))  # opens the connection
            relay.hold(BURST)
            before = loop.counts.copy()
            writes.clear()
            sends = (producer.send(Message(topic, b"%d" % n)) for n in range(BURST))
            results = await asyncio.gather(*sends)
            relay.hold(0)
            counts, asked = loop.counts - before, len(writes)
            assert len({result.msg_id for result in results}) == BURST
            return counts, asked

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        counts, asked = runner.run(burst())
    assert set(counts) == {"wake-ups"}
    assert 1 <= counts["wake-ups"] <= WAKE_UPS_MAX
    assert 1 <= asked <= WRITES_MAX
