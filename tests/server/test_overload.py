"""Refusals when requests come faster than they are served, and the native counters."""

from __future__ import annotations

import os
import re
import sys
import threading
import time

import pytest

from mqserver.runtime.listener import REST_NICE, REST_SECONDS_MAX, REST_TIMES
from mqserver.runtime.processor_api import Family, Response
from mqstore import Store
from tests.server.conftest import Servers
from tests.server.native import TOPICS, Broker, send_fields
from tests.server.raw import DEADLINE, Raw, binary_frame, json_frame
from tests.waiting import until

REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"
WAITED = re.compile(
    r"\[(TIMEOUT|PCBUSY)_CLEAN_QUEUE\]broker busy, start flow control for a while, "
    r"period in queue: (\d+)ms, size of queue: (\d+)"
)
ALWAYS_BUSY = -1
"""Milliseconds: a free lock is held for 0."""

LONG_BYTES = 200_000
"""Size of a request that is handed to the family of long requests."""


LARGE_HANDOFF_BYTES_MAX = 64 << 20
"""Memory limit for the large requests that wait or are served."""


class Gate:
    """A processor that waits inside until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()
        self.served: list[int] = []

    def __call__(self, request):
        self.served.append(request.opaque)
        self.entered.release()
        assert self.open.wait(DEADLINE)
        return Response()


class Waiting:
    """A server whose only thread is busy with request 1 of some code."""

    def __init__(self, servers: Servers, code: int, kind: str = "namesrv", **more) -> None:
        self.gate = Gate()
        self.listener, port = servers.start({code: self.gate}, kind=kind, threads=1, **more)
        self.raw: Raw = servers.connect(port)
        self.raw.send(json_frame(code, 1))
        assert self.gate.entered.acquire(timeout=DEADLINE)

    def queued(self, count: int) -> None:
        """Wait until so many requests wait."""
        assert until(lambda: self.listener.counters()["waiting.all"] == count)


def test_a_request_that_waited_too_long_gets_2_unless_oneway(servers: Servers) -> None:
    waiting = Waiting(servers, 1)
    raw = waiting.raw
    raw.send(binary_frame(1, 2), json_frame(1, 3, flag=2), json_frame(1, 4))
    waiting.queued(3)
    waiting.listener.set_overload(1000, {"all": 30})
    replies = [raw.read(), raw.read()]
    assert [(reply.code, reply.opaque, reply.serialize) for reply in replies] == [
        (2, 2, 0),
        (2, 4, 0),
    ]
    for reply, left in zip(replies, (2, 0), strict=True):
        found = WAITED.fullmatch(reply.remark or "")
        assert found, reply.remark
        assert (found[1], found[3]) == ("TIMEOUT", str(left))
        assert int(found[2]) >= 30
    waiting.gate.open.set()
    assert raw.read()[:2] == (0, 1), "what is being served goes on"
    assert waiting.gate.served == [1]


def test_a_short_request_waits_for_no_long_one(servers: Servers) -> None:
    gate = Gate()

    def serve(request):
        return gate(request) if request.body else Response()

    _, port = servers.start({1: serve}, threads=1, also=[Family("large", 10, 1)])
    raw = servers.connect(port)
    raw.send(json_frame(1, 1, body=bytes(LONG_BYTES)))
    assert gate.entered.acquire(timeout=DEADLINE)
    raw.send(json_frame(1, 2))
    assert raw.read()[:2] == (0, 2)
    gate.open.set()
    assert raw.read()[:2] == (0, 1)


def test_a_family_that_rests_does_so_for_longer_than_it_worked(servers: Servers) -> None:
    worked_seconds = REST_SECONDS_MAX / REST_TIMES / 2
    rests: list[float] = []

    class Stopping(threading.Event):
        def wait(self, timeout=None):
            rests.append(timeout)
            return True

    def serve(request):
        until_cpu = time.thread_time() + worked_seconds
        while time.thread_time() < until_cpu:
            pass
        return Response()

    listener, port = servers.start({1: serve}, also=[Family("large", 10, 1, rests=True)])
    listener._stopping = Stopping()
    raw = servers.connect(port)
    for number, size in enumerate((LONG_BYTES, 0)):
        assert raw.ask(json_frame(1, number, body=bytes(size))).code == 0
    assert until(lambda: len(rests) == 1), "the short request is of a family that does not"
    assert REST_TIMES * worked_seconds <= rests[0] <= REST_SECONDS_MAX


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no nice value of their own")
def test_others_get_a_core_before_a_family_that_rests(servers: Servers) -> None:
    found: dict[int, tuple[int, int]] = {}

    def serve(request):
        nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        found[request.opaque] = nice, os.sched_getscheduler(0)
        return Response()

    _, port = servers.start({1: serve}, also=[Family("large", 10, 1, rests=True)])
    raw = servers.connect(port)
    for number, size in enumerate((LONG_BYTES, 0)):
        assert raw.ask(json_frame(1, number, body=bytes(size))).code == 0
    usual, policy = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)
    batch = os.SCHED_BATCH if policy == os.SCHED_OTHER else policy
    assert found == {0: (max(usual, REST_NICE), batch), 1: (usual, policy)}


def test_long_requests_leave_room_for_others(servers: Servers) -> None:
    gate = Gate()

    def serve(request):
        return gate(request) if request.body else Response()

    _, port = servers.start({1: serve}, threads=1, also=[Family("large", 1_000, 1)])
    raw = servers.connect(port)
    size = (1 << 20) - 1_024  # a larger one waits for room before it is read
    held = LARGE_HANDOFF_BYTES_MAX // size
    for number in range(held + 2):
        raw.send(json_frame(1, number, body=bytes(size)))
    refused = raw.read()
    assert refused.code == 2
    assert held - 1 <= refused.opaque <= held + 1
    opaque = held + 2
    reply = raw.ask(json_frame(1, opaque))
    while reply.code == 2:
        reply = raw.read()
    assert reply[:2] == (0, opaque)
    gate.open.set()
    assert [raw.read()[:2] for _ in range(refused.opaque)] == [
        (0, number) for number in range(refused.opaque)
    ]


def test_a_smaller_budget_holds_fewer_requests(servers: Servers) -> None:
    gate, size, largest = Gate(), 64_000, 256_000
    limits = {"max_frame_bytes": largest, "max_handoff_bytes": 1}  # raised to two frames
    _, port = servers.start({1: gate}, threads=1, capacity=1_000, **limits)
    raw = servers.connect(port)
    held = 2 * largest // (size + 1_000)
    for number in range(held + 1):
        raw.send(json_frame(1, number, body=bytes(size)))
    assert raw.read()[:2] == (2, held)
    gate.open.set()
    assert [raw.read()[:2] for _ in range(held)] == [(0, number) for number in range(held)]


def test_without_a_limit_everything_waits(servers: Servers) -> None:
    waiting = Waiting(servers, 1)
    waiting.listener.set_overload(1000, {})
    waiting.raw.send(json_frame(1, 2))
    waiting.queued(1)
    waiting.listener.set_overload(1000, {"all": 1})
    assert waiting.raw.read().code == 2
    waiting.listener.set_overload(1000, None)
    waiting.raw.send(json_frame(1, 3))
    waiting.queued(1)
    waiting.gate.open.set()
    assert {waiting.raw.read()[:2] for _ in range(2)} == {(0, 1), (0, 3)}


def test_how_long_the_oldest_request_waits(servers: Servers) -> None:
    waiting = Waiting(servers, 1)
    assert waiting.listener.counters()["head_wait_ms.all"] == 0
    waiting.raw.send(json_frame(1, 2))
    waiting.queued(1)
    assert until(lambda: waiting.listener.counters()["head_wait_ms.all"] >= 20)
    assert waiting.listener.counters()["head_wait_ms.all"] < 100_000
    waiting.gate.open.set()


def test_a_family_that_does_not_exist_is_an_error(servers: Servers) -> None:
    listener, _ = servers.start({1: Gate()})
    with pytest.raises(ValueError, match='no family "nope"'):
        listener.set_overload(1000, {"nope": 1})


@pytest.mark.parametrize("frame", [json_frame, binary_frame])
def test_a_busy_store_rejects_sends_even_oneway(broker: Broker, frame) -> None:
    broker.listener.set_overload(ALWAYS_BUSY, None)
    for code in (10, 310, 320, 36):
        for flag in (0, 2):
            reply = broker.raw.ask(frame(code, 5, send_fields(), b"x", flag=flag))
            assert (reply.code, reply.remark, reply.serialize) == (2, REJECTED, 0)
    assert broker.raw.ask(json_frame(30, 6, {"topic": "T", "queueId": "0"})).code == 0
    broker.listener.set_overload(1000, None)
    assert broker.send(b"x").code == 0
    assert broker.store.max_offset("T", 0) <= 1


def test_a_busy_store_empties_the_queue_of_sends(servers: Servers, store: Store) -> None:
    waiting = Waiting(servers, 36, "broker", store=store)
    waiting.raw.send(json_frame(36, 2), json_frame(36, 3))
    waiting.queued(2)
    waiting.listener.set_overload(ALWAYS_BUSY, {})
    for opaque, left in ((2, 1), (3, 0)):
        reply = waiting.raw.read()
        found = WAITED.fullmatch(reply.remark or "")
        assert found, reply.remark
        assert (reply.code, reply.opaque, found[1], found[3]) == (2, opaque, "PCBUSY", str(left))
    waiting.gate.open.set()
    assert waiting.raw.read()[:2] == (0, 1)
    waiting.listener.stop(5.0)  # before the store closes


def traffic(broker: Broker) -> dict[tuple[object, ...], tuple[int, ...]]:
    """Traffic since the last call, summed over the rows of all threads."""
    rows: dict[tuple[object, ...], tuple[int, ...]] = {}
    for *key, sums in broker.listener.take_traffic():
        known = rows.get(tuple(key), (0, 0, 0, 0, 0))
        rows[tuple(key)] = tuple(a + b for a, b in zip(known, sums, strict=True))
    return rows


def test_sends_and_pulls_are_counted_once(broker: Broker) -> None:
    assert broker.listener.take_traffic() == []
    for _ in range(3):
        assert broker.send(b"0123456789").code == 0
    oneway = json_frame(310, 9, send_fields(), b"0123456789", flag=2)
    broker.raw.send(oneway)
    broker.send(b"later", i="DELAY\x013")
    broker.send(b"half", i="TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01u")
    broker.wait_readable(4)
    found = broker.pull(1)
    assert found.code == 0
    assert broker.pull(4).code == 19
    rows = traffic(broker)
    size = len(found.body) // 3
    times, messages, read, _, behind = rows.pop(("get", "T", "g", 0))
    assert (times, messages, read) == (1, 3, 3 * size)
    assert behind > size, "the messages behind the last one read"
    assert rows.pop(("put", "T", "", -1)) == (4, 4, 4 * size, 0, 0)
    assert rows.pop(("put", "SCHEDULE_TOPIC_XXXX", "", 2))[:2] == (1, 1)
    assert rows.pop(("put", "RMQ_SYS_TRANS_HALF_TOPIC", "", -1))[:2] == (1, 1)
    assert not rows
    assert broker.listener.take_traffic() == []


def test_deliveries_of_delayed_messages_are_counted(broker: Broker) -> None:
    broker.publish("topics", TOPICS)
    assert broker.send(b"soon", i="DELAY\x011").code == 0
    broker.wait_readable(1)
    rows = traffic(broker)
    delivered = ("delivery", "T", "", 0)
    assert until(lambda: delivered in rows or rows.update(traffic(broker)) or delivered in rows)
    assert rows[("put", "SCHEDULE_TOPIC_XXXX", "", 0)][:2] == (1, 1)
    times, messages, size, *_ = rows[delivered]
    assert (times, messages) == (1, 1)
    assert size == len(broker.pull(0).body)


def test_a_client_that_asks_for_much_does_not_delay_another(servers: Servers) -> None:
    gate = Gate()
    listener, port = servers.start({1: gate}, threads=1, also=[Family("large", 100, 1)])
    flood, operator = servers.connect(port), servers.connect(port)
    flood.send(*(json_frame(1, number, body=bytes(LONG_BYTES)) for number in range(10)))
    assert gate.entered.acquire(timeout=DEADLINE)
    assert until(lambda: listener.counters()["waiting.large"] == 9)
    operator.send(json_frame(1, 99, body=bytes(LONG_BYTES)))
    assert until(lambda: listener.counters()["waiting.large"] == 10)
    gate.open.set()
    assert operator.read()[:2] == (0, 99)
    assert gate.served.index(99) <= 2, "clients take turns"
    assert {flood.read().opaque for _ in range(10)} == set(range(10))


def test_a_client_fills_half_of_a_queue_and_others_find_room(servers: Servers) -> None:
    gate = Gate()
    listener, port = servers.start({1: gate}, threads=1, also=[Family("large", 10, 1)])
    flood, operator = servers.connect(port), servers.connect(port)
    flood.send(json_frame(1, 0, body=bytes(LONG_BYTES)))
    assert gate.entered.acquire(timeout=DEADLINE)
    flood.send(*(json_frame(1, number, body=bytes(LONG_BYTES)) for number in range(1, 20)))
    refused = [flood.read() for _ in range(14)]
    assert {reply.code for reply in refused} == {2}
    operator.send(json_frame(1, 99, body=bytes(LONG_BYTES)))
    assert until(lambda: listener.counters()["waiting.large"] == 6)
    gate.open.set()
    assert operator.read()[:2] == (0, 99)
