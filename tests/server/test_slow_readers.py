"""Clients that ask for more than they read: they are served as they read, and others meanwhile."""

from __future__ import annotations

import threading

import pytest

from mqserver.runtime.processor_api import Response
from tests.server.cold import BODY
from tests.server.conftest import Servers, wait_counted
from tests.server.native import Broker, pull_fields
from tests.server.raw import DEADLINE, Raw, json_frame
from tests.waiting import until

BIG = Response(body=b"x" * (256 << 10))
MANY = 400
"""Such replies are 100 MiB: a client that is owed 64 MiB is closed."""
CROWD, ASKED = 40, 10
"""Together they are owed more than 32 MiB."""
TRIED_BYTES_MAX = 1 << 20
"""More than sockets and a few turns take; the broker is asked for a hundred times as much."""


class Asked:
    """A server that was asked for much by a client that has read nothing yet."""

    def __init__(
        self, servers: Servers, code: int = 1, count: int = MANY, threads: int = 4, **more
    ) -> None:
        self.served: list[int] = []
        self.open = threading.Event()
        self.listener, self.port = servers.start(
            {code: self._serve, 2: lambda _: Response()}, threads=threads, capacity=1_000, **more
        )
        self.raw = servers.connect(self.port)
        self.raw.send(*(json_frame(code, n, {"b": "T"}) for n in range(count)))
        if code == 1:
            wait_counted(self.listener, python_1=count)
        self.open.set()
        # The remaining replies wait until the client reads.
        wait_counted(self.listener, waiting=0, parked=1)

    def _serve(self, request):
        assert self.open.wait(DEADLINE)
        self.served.append(request.opaque)
        return BIG


def test_what_was_read_at_once_is_answered_as_its_client_reads(servers: Servers):
    asked = Asked(servers)
    assert servers.connect(asked.port).ask(json_frame(2, 1)).code == 0, "others are served"
    assert asked.listener.counters()["parked"] > MANY / 2
    assert {asked.raw.read()[:2] for _ in range(MANY)} == {(0, n) for n in range(MANY)}
    assert until(lambda: asked.listener.counters()["parked"] == 0)
    assert asked.listener.counters()["connections"] == 2


def test_a_client_that_reads_nothing_is_closed_as_an_idle_one(servers: Servers):
    asked = Asked(servers, threads=1, idle_timeout=4.0)
    assert "took none for 4 s" in servers.wait_event("unread").detail
    assert servers.connect(asked.port).ask(json_frame(2, 1)).code == 0
    assert until(lambda: asked.listener.counters()["parked"] == 0)


def test_sends_keep_their_order_while_they_wait_for_their_client(servers: Servers):
    asked = Asked(servers, 310, 60, kind="broker", data_plane="python")
    assert [asked.raw.read().opaque for _ in range(60)] == list(range(60))
    assert asked.served == list(range(60))


def test_a_stop_waits_for_a_client_that_reads(servers: Servers):
    asked = Asked(servers, count=60)
    stop = threading.Thread(target=asked.listener.stop, args=(DEADLINE,))
    stop.start()
    with pytest.raises(ConnectionError):  # at the end
        while asked.raw.read().code == 0:
            pass
    stop.join(DEADLINE)
    assert not stop.is_alive()
    assert sorted(asked.served) == list(range(60))


def test_a_stop_gives_up_a_client_that_does_not_read(servers: Servers):
    asked = Asked(servers, threads=1)
    asked.listener.stop(0.1)
    assert len(asked.served) < MANY / 2
    assert asked.listener.counters()["parked"] == 0


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_pulls_are_answered_as_their_client_reads(request, servers: Servers, where: str):
    broker = request.getfixturevalue("broker" if where == "memory" else "cold_broker")
    if where == "memory":
        for _ in range(8):
            broker.send(BODY, e="0")
        broker.wait_readable(8)
    slow = servers.connect(broker.port)
    slow.send(*(pull(n, n % 8, sysFlag="4", maxMsgNums="1") for n in range(MANY)))
    wait_counted(broker.listener, native_11=1)
    assert broker.pull(0).code == 0, "others are served"
    assert {slow.read()[:2] for _ in range(MANY)} == {(0, n) for n in range(MANY)}
    assert (broker.listener.counters()["cold_reads"] > 0) == (where == "disk")


def test_of_one_that_reads_nothing_few_pulls_are_answered(broker: Broker, servers: Servers):
    broker.send(BODY, e="0")
    broker.wait_readable(1)
    slow = servers.connect(broker.port)
    slow.send(*(pull(n, 0, sysFlag="4", maxMsgNums="1") for n in range(MANY)))
    assert until(lambda: broker.listener.counters()["bytes_out"] > TRIED_BYTES_MAX / 8)
    for _ in range(MANY):  # trials pause between each other, but for a shorter time
        assert broker.pull(1).code == 19, "others are answered, here that there is nothing new"
    assert broker.listener.counters()["bytes_out"] < TRIED_BYTES_MAX, "it has taken nothing"
    assert {slow.read()[:2] for _ in range(MANY)} == {(0, n) for n in range(MANY)}


def test_many_that_do_not_read_wait_and_are_not_refused(broker: Broker, servers: Servers):
    broker.send(BODY, e="0")
    broker.wait_readable(1)
    crowd = [servers.connect(broker.port) for _ in range(CROWD)]
    for slow in crowd:
        slow.send(*(pull(n, 0, sysFlag="4", maxMsgNums="1") for n in range(ASKED)))
    wait_counted(broker.listener, native_11=CROWD)
    assert broker.pull(0).code == 0, "others are served"
    for slow in crowd:
        assert [slow.read()[:2] for _ in range(ASKED)] == [(0, n) for n in range(ASKED)]
    assert broker.listener.counters().get("overloaded", 0) == 0


def test_held_pulls_woken_together_do_not_flood_their_client(broker: Broker, servers):
    slow: Raw = servers.connect(broker.port)
    slow.send(*(pull(n, 0, sysFlag="6", suspendTimeoutMillis="60000") for n in range(MANY)))
    wait_counted(broker.listener, held=MANY)
    broker.send(BODY, e="0")
    replies = [slow.read() for _ in range(MANY)]
    assert {reply.opaque for reply in replies} == set(range(MANY))
    assert {reply.code for reply in replies} <= {0, 20}, "found, or pull again at once"
    assert replies[0].code == 0


def pull(number: int, offset: int, **fields: str) -> bytes:
    return json_frame(11, number, pull_fields(offset, **fields))
