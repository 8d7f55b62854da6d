"""The blocking clients: threads, futures, signals, forks, and warnings about unclosed clients."""

import asyncio
import gc
import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from mqclient import ClosedError, Message, NoRouteError, Producer, PushConsumer
from mqcommon.message import MessageQueue
from mqcommon.wire import RequestCode
from tests.client.cluster import NAME, NAMESRV, Cluster
from tests.waiting import until


def producer(cluster: Cluster) -> Producer:
    return Producer(NAMESRV, transport=cluster.transport, queue_index_start=0)


def test_send_from_many_threads():
    cluster = Cluster(T=4)
    with producer(cluster) as sender, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: sender.send(Message("T", b"%d" % i)), range(100)))
    assert len({result.msg_id for result in results}) == 100
    assert sum(map(len, cluster.stored.values())) == 100


def test_send_async_gives_futures():
    cluster = Cluster(T=1)
    with producer(cluster) as sender:
        sender.queues("T")  # while the route is asked for, later sends may overtake the first
        futures = [sender.send_async(Message("T", b"x")) for _ in range(10)]
        assert [future.result(60).queue_offset for future in futures] == list(range(10))
        assert isinstance(sender.send_async(Message("No", b"x")).exception(60), NoRouteError)
        sender.send_oneway(Message("T", b"x"))
        assert sender.queues("T") == [MessageQueue("T", NAME, 0)]


def test_states():
    sender = producer(Cluster(T=1))
    with pytest.raises(ClosedError, match="not started"):
        sender.send(Message("T", b"x"))
    sender.close()
    with sender:
        pass
    sender.close()
    with pytest.raises(ClosedError, match="closed"):
        sender.send(Message("T", b"x"))
    with pytest.raises(ClosedError, match="make a new one"):
        sender.start()


def test_close_settles_every_future():
    cluster = Cluster(T=1)

    async def never(_address, _request):
        await asyncio.Event().wait()

    cluster.transport.scripts[310] = never
    sender = producer(cluster)
    sender.start()
    future = sender.send_async(Message("T", b"x"), timeout=60)
    assert until(lambda: bool(cluster.requests(RequestCode.SEND_MESSAGE_V2)))
    sender.close(timeout=0.1)
    assert future.done()


def test_a_failed_start_leaves_no_thread():
    before = {*threading.enumerate()}
    cluster = Cluster()
    cluster.transport.scripts[105] = lambda _a, _r: ConnectionError("no")
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport)
    consumer.subscribe("T", "*", print)
    with pytest.raises(ConnectionError):
        consumer.start()
    assert until(lambda: not {*threading.enumerate()} - before)


def test_an_unclosed_client_is_reported_and_its_thread_ends():
    sender = producer(Cluster(T=1))
    sender.start()
    assert loop_threads() == 1
    with pytest.warns(ResourceWarning, match="unclosed <Producer"):
        del sender
        gc.collect()
    assert until(lambda: loop_threads() == 0)


def loop_threads() -> int:
    """Loops of blocking clients in this process."""
    return [thread.name for thread in threading.enumerate()].count("mqclient-loop")


def test_clients_share_one_loop_thread_until_the_last_closes():
    clusters = [Cluster(T=1) for _ in range(20)]
    senders = [producer(cluster) for cluster in clusters]
    for sender in senders:
        sender.start()
    assert loop_threads() == 1
    for sender in senders[1:]:
        sender.close()
    assert senders[0].send(Message("T", b"x")).queue_offset == 0
    with pytest.raises(ClosedError, match="closed"):
        senders[1].queues("T")
    senders[0].close()
    assert loop_threads() == 0
    with producer(clusters[0]) as again:
        assert again.send(Message("T", b"x")).queue_offset == 1


def test_a_stopped_loop_is_an_error_and_new_clients_get_another():
    with producer(Cluster(T=1)) as sender:
        loop = sender._running._shared.loop
        loop.call_soon_threadsafe(loop.stop)
        assert until(lambda: not sender._running.usable)
        with pytest.raises(ClosedError, match="make a new one"):
            sender.send(Message("T", b"x"))
        with producer(Cluster(T=1)) as another:
            assert another.send(Message("T", b"x")).queue_offset == 0
    assert until(lambda: loop_threads() == 0)


def test_an_async_handler_that_blocks_delays_no_other_client():
    cluster = Cluster(T=1)
    cluster.put("T", b"1")
    begun, over = threading.Event(), threading.Event()

    async def handle(_messages, _context):
        begun.set()
        assert over.wait(60)

    with consume(cluster, handle), producer(Cluster(U=1)) as sender:
        assert begun.wait(60)
        assert sender.send_async(Message("U", b"x")).result(60).queue_offset == 0
        over.set()
    assert cluster.committed[MessageQueue("T", NAME, 0)] == 1


def consume(cluster: Cluster, handler) -> PushConsumer:
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport, consume_from="earliest")
    consumer.subscribe("T", "*", handler)
    return consumer


def test_a_consumer_in_threads():
    cluster = Cluster(T=2)
    cluster.put("T", b"1", b"2")
    seen, done = [], threading.Event()

    def handle(messages, context):
        assert context.message_queue.topic == "T"
        assert threading.current_thread() is not threading.main_thread()
        seen.extend(message.body for message in messages)
        if len(seen) == 2:
            done.set()

    with consume(cluster, handle) as consumer:
        assert len(consumer.wait_assigned(60)) == 2
        assert done.wait(60)
        assert len(consumer.assignment()) == 2
    assert sorted(seen) == [b"1", b"2"]
    assert cluster.committed[MessageQueue("T", NAME, 0)] == 2


def test_subscribe_after_start():
    cluster = Cluster(T=1)
    cluster.put("T", b"1")
    done = threading.Event()
    with PushConsumer(
        "g", NAMESRV, transport=cluster.transport, consume_from="earliest"
    ) as consumer:
        consumer.subscribe("T", "*", lambda _messages, _context: done.set())
        assert done.wait(60)
        consumer.unsubscribe("T")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_ends_with_a_signal_and_puts_handlers_back(number):
    cluster = Cluster(T=1)
    cluster.put("T", b"1")
    before = signal.getsignal(number)
    consumer = consume(cluster, lambda *_: os.kill(os.getpid(), number) or None)
    consumer.run()
    assert signal.getsignal(number) is before
    assert cluster.committed[MessageQueue("T", NAME, 0)] == 1
    with pytest.raises(ClosedError):
        consumer.wait_assigned()


def test_run_on_another_thread_ends_with_close():
    consumer = consume(Cluster(T=1), lambda *_: None)
    consumer.start()
    thread = threading.Thread(target=consumer.run)
    thread.start()
    consumer.close()
    thread.join(60)
    assert not thread.is_alive()


def test_a_blocking_call_in_the_clients_own_loop_is_refused():
    cluster = Cluster(T=1)
    with producer(cluster) as sender:
        caught = []

        async def callback():
            try:
                sender.send(Message("T", b"x"))
            except ClosedError as error:
                caught.append(str(error))

        sender._running.run(callback())
    assert "wait for itself" in caught[0]


def in_child(work) -> int:
    """Run `work` in a forked child; its exit code, or -9 if it hangs for 5 s."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    ended: list[int] = []

    def has_ended() -> bool:
        done, status = os.waitpid(child, os.WNOHANG)
        ended.extend([status] if done else [])
        return bool(done)

    if until(has_ended):
        return os.waitstatus_to_exitcode(ended[0])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -9


def test_after_a_fork_a_client_says_so_and_never_hangs():
    cluster = Cluster(T=1)
    with producer(cluster) as sender:

        def child() -> int:
            try:
                sender.send(Message("T", b"x"))
            except ClosedError as error:
                sender.close()
                return 0 if "make a new one after the fork" in str(error) else 2
            return 3

        assert in_child(child) == 0

        def fresh() -> int:
            with producer(Cluster(T=1)) as another:
                another.send(Message("T", b"x"))
            return 0

        assert in_child(fresh) == 0
        assert sender.send(Message("T", b"x")).queue_offset == 0
