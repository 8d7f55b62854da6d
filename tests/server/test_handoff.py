"""The hand-off contract: every request is answered, once, whatever a processor does."""

from __future__ import annotations

import gc
import logging
import queue
import threading
from itertools import pairwise

import pytest

from mqcommon import _core
from mqserver.runtime.listener import Request
from mqserver.runtime.processor_api import AGAIN, LATER, NO_REPLY, Hold, Refused, Response
from tests.server.conftest import Servers, wait_counted
from tests.server.raw import DEADLINE, Raw, binary_frame, json_frame
from tests.waiting import until

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"


class Gate:
    """A processor that waits inside until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, request):
        self.entered.release()
        assert self.open.wait(DEADLINE)
        return Response()


def test_a_full_queue_answers_2_in_json_and_nothing_to_oneway(servers: Servers):
    gate = Gate()
    _, port = servers.start({1: gate}, capacity=1, threads=1)
    raw = servers.connect(port)
    raw.send(json_frame(1, 1))
    assert gate.entered.acquire(timeout=DEADLINE)
    raw.send(json_frame(1, 2), json_frame(1, 3, flag=2), binary_frame(1, 4))
    reply = raw.read()
    assert (reply.code, reply.opaque, reply.remark, reply.serialize) == (2, 4, OVERLOAD, 0)
    gate.open.set()
    assert {raw.read()[:2] for _ in range(2)} == {(0, 1), (0, 2)}


def test_large_requests_are_refused_before_memory_is(servers):
    gate = Gate()
    _, port = servers.start({1: gate}, capacity=10_000, threads=1)
    raw = servers.connect(port)
    body = b"x" * ((1 << 20) - 1_024)  # a larger one waits for room before it is read
    for n in range(320):  # 256 MiB may be in Python's hands
        raw.send(json_frame(1, n, None, body))
    reply = raw.read()
    assert (reply.code, reply.remark) == (2, OVERLOAD)
    gate.open.set()


def test_larger_requests_wait_at_their_client_for_room(servers):
    gate = Gate()
    listener, port = servers.start({1: gate}, capacity=10_000, threads=1)
    raw, count = servers.connect(port), 10
    frames = [json_frame(1, n, None, bytes(8 << 20)) for n in range(count)]
    sender = threading.Thread(target=raw.send, args=frames)
    sender.start()
    assert gate.entered.acquire(timeout=DEADLINE)
    others = [servers.connect(port) for _ in range(3)]
    for other in others:
        other.send(frames[0])
    wait_counted(listener, python_1=1 + len(others))
    assert listener.counters()["python.1"] == 1 + len(others), "one of each connection"
    assert sender.is_alive(), "80 MiB are read where one connection may have 16"
    assert listener.counters()["overloaded"] == 0
    gate.open.set()
    assert [raw.read()[:2] for _ in range(count)] == [(0, n) for n in range(count)]
    sender.join(DEADLINE)
    assert not sender.is_alive()


def test_an_exception_is_1_and_logged_once(servers, caplog):
    def broken(_):
        raise LookupError("no such thing")

    raw = servers.connect(servers.start({1: broken})[1])
    with caplog.at_level(logging.ERROR):
        reply = raw.ask(binary_frame(1, 1))
    assert (reply.code, reply.remark, reply.serialize) == (1, "LookupError: no such thing", 0)
    assert len([record for record in caplog.records if record.exc_info]) == 1
    assert raw.ask(json_frame(1, 2)).code == 1, "the thread goes on"


def test_a_refusal_is_its_response_and_not_logged(servers, caplog):
    def refuse(_):
        raise Refused(17, "no topic", {"a": "b"})

    raw = servers.connect(servers.start({1: refuse})[1])
    reply = raw.ask(binary_frame(1, 1))
    assert reply[:5] == (17, 1, 1, "no topic", {"a": "b"})
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_something_that_is_no_reply_is_1(servers):
    raw = servers.connect(servers.start({1: lambda _: "fine"})[1])
    reply = raw.ask(json_frame(1, 1))
    assert reply.code == 1
    assert "returned 'fine'" in (reply.remark or "")


def test_oneway_requests_get_nothing(servers):
    seen = []
    raw = servers.connect(servers.start({1: lambda r: seen.append(r.oneway) or Response()})[1])
    raw.send(json_frame(1, 1, flag=2), json_frame(1, 2))
    assert raw.read().opaque == 2
    assert sorted(seen) == [False, True]


def test_no_reply_is_silence(servers):
    answers = {1: lambda _: NO_REPLY, 2: lambda _: Response()}
    raw = servers.connect(servers.start(answers, threads=1)[1])
    raw.send(json_frame(1, 1), json_frame(2, 2))
    assert raw.read().opaque == 2, "one thread answers in order"


def test_later_is_answered_from_another_thread_once(servers):
    came: queue.SimpleQueue[Request] = queue.SimpleQueue()
    answers = {1: lambda r: came.put(r) or LATER, 2: lambda _: Response()}
    raw = servers.connect(servers.start(answers, threads=1)[1])
    raw.send(json_frame(1, 1), json_frame(2, 2))
    kept = came.get(timeout=DEADLINE)
    assert raw.read().opaque == 2, "one thread answers in order"
    thread = threading.Thread(target=kept.respond, args=(0, "late", None, b"body"))
    thread.start()
    reply = raw.read()
    thread.join(DEADLINE)
    assert (reply.remark, reply.body) == ("late", b"body")
    with pytest.raises(RuntimeError, match="answered already"):
        kept.respond(0)
    assert kept.code == 1, "it can still be read"


def test_a_request_dropped_unanswered_is_1(servers):
    listener, port = servers.start({1: lambda _: LATER})
    raw = servers.connect(port)
    reply = raw.ask(json_frame(1, 1))
    gc.collect()
    assert reply.code == 1
    assert "without a reply" in (reply.remark or "")
    assert listener.counters()["unanswered"] == 1


def test_again_comes_back_once(servers):
    attempts = []

    def again(request):
        attempts.append(request.attempt)
        return AGAIN

    reply = servers.connect(servers.start({1: again})[1]).ask(json_frame(1, 1))
    assert attempts == [0, 1]
    assert reply.code == 1


def test_a_hold_comes_back_at_its_deadline(servers):
    """The one that came first has the later deadline."""
    seconds = {1: DEADLINE * 60, 2: 0.2}

    def hold(request):
        if request.attempt:
            return Response(19, "waited")
        return Hold("T", 0, 5, seconds[request.opaque])

    listener, port = servers.start({1: hold})
    raw = servers.connect(port)
    raw.send(binary_frame(1, 1))
    wait_counted(listener, held=1)
    raw.send(binary_frame(1, 2))
    reply = raw.read()
    assert (reply.opaque, reply.remark) == (2, "waited")
    assert reply.serialize == 0, "in JSON, as RocketMQ"
    assert listener.counters()["held"] == 1


def test_releasing_holds_answers_them_and_holds_no_more(servers):
    def hold(request):
        return Response(19) if request.attempt else Hold("T", 0, 5, 60)

    listener, port = servers.start({1: hold})
    raw = servers.connect(port)
    raw.send(json_frame(1, 1))
    wait_counted(listener, held=1)
    listener.release_holds()
    assert raw.read().code == 19
    assert raw.ask(json_frame(1, 2)).code == 19


def test_what_a_query_found_is_in_json_as_rocketmq_does(servers):
    answers = {33: lambda _: Response(body=b"message"), 12: lambda _: Response(22)}
    raw = servers.connect(servers.start(answers)[1])
    assert raw.ask(binary_frame(33, 1)).serialize == 0
    assert raw.ask(binary_frame(12, 1)).serialize == 1


def test_a_request_can_be_read(servers):
    seen = []

    def look(request):
        seen.append(request)
        return Response()

    _, port = servers.start({1: look})
    raw = servers.connect(port)
    raw.ask(binary_frame(1, 7, {"a": "b", "empty": ""}, b"body"))
    raw.ask(json_frame(1, 8, None, remark="why", language="GO", version=317))
    first, second = seen
    assert (first.code, first.opaque, first.serialize, first.attempt) == (1, 7, 1, 0)
    assert (first.fields, first.body, first.remark) == ({"a": "b"}, b"body", None)
    host, local = raw.socket.getsockname()
    assert (first.remote, first.fast_port, first.oneway) == (f"{host}:{local}", False, False)
    assert (second.fields, second.remark, second.language) == ({}, "why", 9)
    assert second.connection == first.connection
    assert second.version == 317


def test_the_server_asks_a_client(servers):
    connections = []
    listener, port = servers.start({1: lambda r: connections.append(r.connection) or Response()})
    raw = servers.connect(port)
    raw.ask(json_frame(1, 1))
    (connection,) = connections
    assert listener.send(connection, json_frame(40, 3, {"consumerGroup": "g"}, flag=2))
    assert raw.read()[:2] == (40, 3)

    opaque = listener.ask(connection, json_frame(307, 0))
    request = raw.read()
    assert request.opaque == opaque
    raw.send(json_frame(0, request.opaque, {"a": "b"}, b"info", flag=1))
    replied = listener.next_client_reply(DEADLINE)
    assert replied[:2] == (connection, opaque) and replied[2].endswith(b"info")

    forgotten = listener.ask(connection, json_frame(307, 0))
    listener.forget_client_reply(connection, forgotten)
    raw.send(json_frame(0, forgotten, {}, b"late", flag=1))
    assert listener.next_client_reply(0.1) is None
    listener.wake_client_replies()
    assert listener.next_client_reply(DEADLINE) is None
    raw.close()
    servers.wait_event("closed")
    assert not listener.send(connection, json_frame(40, 3))
    assert not listener.is_open(connection)
    with pytest.raises(ConnectionError):
        listener.ask(connection, json_frame(307, 0))


def test_a_question_ends_at_once_when_the_client_goes(servers):
    connections = []
    listener, port = servers.start({1: lambda r: connections.append(r.connection) or Response()})
    raw = servers.connect(port)
    raw.ask(json_frame(1, 1))
    opaque = listener.ask(connections[0], json_frame(307, 0))
    raw.read()
    raw.close()
    assert listener.next_client_reply(DEADLINE) == (connections[0], opaque, None)


def test_sends_of_one_topic_stay_in_order_while_python_decides(servers):
    """The first send of each topic waits until all of the next topic are stored, so that later
    sends of its own topic have every chance to overtake it.
    """
    topics, count = ["A", "B", "C"], 50
    stored = {topic: [] for topic in topics}
    ended = {topic: threading.Event() for topic in topics}
    waits = {(topic, n): ended[after] for n, (topic, after) in enumerate(pairwise(topics))}

    def store(request):
        topic, position = request.fields["b"], int(request.body)
        is_in_time = (topic, position) not in waits or waits[topic, position].wait(DEADLINE)
        stored[topic].append(position)
        if len(stored[topic]) == count:
            ended[topic].set()
        return Response(0 if is_in_time else 1)

    _, port = servers.start(
        {310: store}, kind="broker", data_plane="python", threads=8, capacity=1000
    )
    raw = servers.connect(port)
    names = topics * count
    raw.send(*(json_frame(310, n, {"b": topic}, b"%d" % n) for n, topic in enumerate(names)))
    assert {raw.read().code for _ in names} == {0}, "a topic does not wait for another"
    for first, topic in enumerate(topics):
        assert stored[topic] == list(range(first, len(names), len(topics)))


def test_sends_that_must_wait_for_python_stay_at_their_client(servers):
    gate, stored = Gate(), []

    def store(request):
        gate(request)
        stored.append(request.opaque)
        return NO_REPLY

    count, body = 15_000, b"x" * 1_000  # more than wait, and than sockets take
    listener, port = servers.start({310: store}, kind="broker", data_plane="python", threads=1)
    raw = servers.connect(port)
    left = memoryview(b"".join(json_frame(310, n, {"b": "T"}, body, flag=2) for n in range(count)))
    while left and raw.is_writable():
        left = left[raw.socket.send(left[: 64 << 10]) :]
    assert left, "all of them are read"
    gate.open.set()
    raw.send(left)
    assert until(lambda: len(stored) == count)
    assert stored == list(range(count))
    assert listener.counters()["overloaded"] == 0


def test_a_stop_answers_what_was_asked(servers):
    gate = Gate()
    listener, port = servers.start({1: gate}, threads=1)
    raw = servers.connect(port)
    raw.send(json_frame(1, 1), json_frame(1, 2))
    assert gate.entered.acquire(timeout=DEADLINE)
    stop = threading.Thread(target=listener.stop, args=(DEADLINE,))
    stop.start()
    assert until(lambda: _is_refused(port))
    gate.open.set()
    assert {raw.read()[:2] for _ in range(2)} == {(0, 1), (0, 2)}
    assert raw.is_closed()
    stop.join(DEADLINE)
    assert not stop.is_alive()


def _is_refused(port):
    try:
        Raw(port).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_stop_gives_up_what_does_not_end(servers):
    gate = Gate()
    listener, port = servers.start({1: gate}, threads=1)
    raw = servers.connect(port)
    raw.send(json_frame(1, 1), json_frame(1, 2))
    assert gate.entered.acquire(timeout=DEADLINE)
    stop = threading.Thread(target=listener.stop, args=(0.1,))
    stop.start()
    assert raw.read()[:2] == (1, 2), "the one that waited"
    gate.open.set()
    stop.join(DEADLINE)
    assert not stop.is_alive()


def test_a_port_in_use_is_an_oserror(servers):
    _, port = servers.start({})
    taken = _core.Server({"kind": "namesrv", "host": "127.0.0.1", "port": port})
    with pytest.raises(OSError, match=str(port)) as caught:
        taken.start()
    assert caught.value.errno == 98


@pytest.mark.parametrize(
    "settings",
    [
        {"port": 0},
        {"kind": "proxy", "port": 0},
        {"kind": "broker", "port": 0, "data_plane": "java"},
        {"kind": "broker", "port": 0, "max_frame_bytes": 3},
        {"kind": "broker", "port": 0, "pork": 1},
        {"kind": "broker", "port": 0, "routes": {1: "nobody"}},
    ],
)
def test_bad_settings_are_named(settings):
    with pytest.raises(ValueError, match=r"kind|data_plane|max_frame_bytes|pork|nobody"):
        _core.Server(settings)
