"""Sends that a thread does not wait for: their futures, their order, and what goes wrong."""

import asyncio
import concurrent.futures
import threading
import time

import pytest

from mqclient import (
    ClosedError,
    Message,
    Producer,
    SendLimits,
    SendResult,
    UnreachableError,
)
from mqclient.producer.in_flight import InFlight
from mqclient.producer.posted_send import PostedSend
from mqserver.testing import Standalone
from tests.waiting import until

TOPIC = "Posted"
DEADLINE = 60


@pytest.fixture
def producer(mq):
    mq.topic(TOPIC)
    with Producer(mq.namesrv) as one:
        one.send(Message(TOPIC, b"first"))
        yield one


def test_posted_sends_are_stored_in_order(producer) -> None:
    queue = producer.queues(TOPIC)[0]
    futures = [producer.send_async(Message(TOPIC, b"%d" % at)) for at in range(400)]
    assert all(isinstance(future, PostedSend) for future in futures)
    results = [future.result(DEADLINE) for future in futures]
    offsets = [one.queue_offset for one in results if one.message_queue == queue]
    assert offsets == sorted(offsets)
    assert len({one.msg_id for one in results}) == 400
    assert futures[0].result() is futures[0].result()


def test_a_future_is_one_of_the_standard_library(producer) -> None:
    futures = [producer.send_async(Message(TOPIC, b"x")) for _ in range(20)]
    done, left = concurrent.futures.wait(futures, DEADLINE)
    assert (len(done), len(left)) == (20, 0)
    assert set(concurrent.futures.as_completed(futures, DEADLINE)) == set(futures)
    future = producer.send_async(Message(TOPIC, b"x"))
    assert not future.cancel()
    assert future.exception(DEADLINE) is None
    assert future.done() and not future.cancelled() and not future.running()


async def test_a_future_can_be_awaited(producer) -> None:
    future = producer.send_async(Message(TOPIC, b"x"))
    result = await asyncio.wait_for(asyncio.wrap_future(future), DEADLINE)
    assert isinstance(result, SendResult)


def test_callbacks_come_once_early_or_late(producer) -> None:
    called: list[object] = []
    future = producer.send_async(Message(TOPIC, b"x"))
    future.add_done_callback(lambda _future: 1 / 0)
    future.add_done_callback(called.append)
    future.result(DEADLINE)
    assert until(lambda: called == [future])
    future.add_done_callback(called.append)
    assert called == [future, future]


def test_on_done_gets_the_result_or_the_error(producer) -> None:
    ended: list[tuple[object, object]] = []
    first = producer.send_async(Message(TOPIC, b"x"), on_done=lambda *end: ended.append(end))
    assert until(lambda: len(ended) == 1)
    assert ended == [(first.result(), None)]
    wrong = Message(TOPIC, b"x")
    wrong.body = b""
    producer.send_async(wrong, on_done=lambda *end: ended.append(end))
    assert until(lambda: len(ended) == 2)
    assert ended[1][0] is None
    assert isinstance(ended[1][1], ValueError)


def test_a_callback_may_send(producer) -> None:
    later: list[concurrent.futures.Future[SendResult]] = []
    first = producer.send_async(
        Message(TOPIC, b"x"),
        on_done=lambda *_: later.append(producer.send_async(Message(TOPIC, b"y"))),
    )
    first.result(DEADLINE)
    assert until(lambda: bool(later))
    assert later[0].result(DEADLINE).queue_offset >= 0


def test_many_threads_share_a_producer(producer) -> None:
    results: list[SendResult] = []

    def work() -> None:
        sends = [producer.send_async(Message(TOPIC, b"x")) for _ in range(200)]
        results.extend(send.result(DEADLINE) for send in sends)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(one.message_queue, one.queue_offset) for one in results}) == 1600


def test_a_lost_connection_is_tried_again() -> None:
    with Standalone() as mq, Producer(mq.namesrv, timeout=30.0) as producer:
        topic = mq.topic()
        producer.send(Message(topic, b"first"))
        path = producer._async._sender.next_path(topic)
        assert path is not None
        outgoing = producer._async._sender.prepare(Message(topic, b"x"), producer._async.settings)
        sends = producer._async._posts
        accepted = sends._in_flight.accept(1, 1)
        assert accepted is not None
        now = time.monotonic()
        about = (sends, outgoing, now, 30.0, None)
        pending = PostedSend.__new__(PostedSend, accepted, 1, path, outgoing.msg_id, *about)
        error = UnreachableError("connection reset", "127.0.0.1:1")
        producer._running.call(pending.set_exception, error)
        assert pending.result(DEADLINE).msg_id == outgoing.msg_id
        assert producer._async._in_flight.messages == 0


def test_the_first_sends_of_a_topic_go_by_the_loop(producer) -> None:
    futures = [producer.send_async(Message("PostedNew", b"x")) for _ in range(50)]
    assert not isinstance(futures[0], PostedSend)
    assert len({future.result(DEADLINE).msg_id for future in futures}) == 50
    assert producer._async._posts.must_queue == 0


def test_a_flush_writes_oneway_sends(producer, mq) -> None:
    topic = mq.topic()
    producer.send(Message(topic, b"x"))
    for _ in range(300):
        producer.send_oneway(Message(topic, b"x"))
    producer.flush(DEADLINE)
    assert until(lambda: len(mq.messages(topic)) == 301)


def test_after_the_close_nothing_is_posted(mq) -> None:
    with Producer(mq.namesrv) as one:
        one.send(Message(TOPIC, b"x"))
        futures = [one.send_async(Message(TOPIC, b"x")) for _ in range(500)]
    assert all(future.done() for future in futures)
    assert all(future.exception() is None for future in futures)
    with pytest.raises(ClosedError):
        one.send_async(Message(TOPIC, b"x"))


class HeldCondition(threading.Condition):
    """The condition of a future that another thread holds until `released`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.released = threading.Event(), threading.Event()

    def __enter__(self) -> bool:
        self.asked.set()
        assert self.released.wait(DEADLINE)
        return super().__enter__()


def new_send() -> PostedSend:
    accepted = InFlight(SendLimits()).accept(1, 1)
    return PostedSend.__new__(PostedSend, accepted, 1, None, "id", None, None, 0.0, 1.0, None)


def test_the_end_of_a_send_holds_no_lock_of_other_sends() -> None:
    """`concurrent.futures.wait` holds the condition of a future while it asks for another's."""
    ended, other = new_send(), new_send()
    assert ended.running()  # makes the attributes of the standard future, as a wait does
    held = ended._condition = HeldCondition()
    ending = threading.Thread(target=ended._end, args=(None, ClosedError("x")), daemon=True)
    asking = threading.Thread(target=lambda: other._condition, daemon=True)
    ending.start()
    assert held.asked.wait(DEADLINE)  # the end of a send waits for the condition of its future
    asking.start()
    asking.join(10)
    is_locked = asking.is_alive()
    held.released.set()
    ending.join(DEADLINE)
    assert not is_locked and ended.done()
