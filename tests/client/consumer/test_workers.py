"""The threads and tasks that run handlers: number, order, and end."""

import asyncio
import threading
from typing import Any

from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.push.calls import ConsumeRequest
from mqclient.consumer.push.workers import Workers
from mqcommon.message import MessageQueue, ReceivedMessage, decode_messages
from tests.client.cluster import record
from tests.waiting import until_async

DEADLINE = 60
QUEUE = MessageQueue("T", "a", 0)


def messages(count: int) -> list[ReceivedMessage]:
    return decode_messages(b"".join(record(0, offset, "T", b"b", {}) for offset in range(count)))


class Outcomes:
    """Collects handled messages; sets an event after `enough` of them."""

    def __init__(self, enough: int) -> None:
        self.offsets: list[list[int]] = []
        self.outcomes: list[Any] = []
        self.all = asyncio.Event()
        self._enough = enough

    def done(self, request: ConsumeRequest, outcome: Any) -> None:
        self.offsets.append([message.queue_offset for message in request.messages])
        self.outcomes.append(outcome)
        if len(self.offsets) == self._enough:
            self.all.set()

    def run_done(
        self, held: ProcessQueue, handled: list[ReceivedMessage], consume_s: float
    ) -> None:
        for message in handled:
            self.offsets.append([message.queue_offset])
            self.outcomes.append(None)
            if len(self.offsets) == self._enough:
                self.all.set()

    async def wait(self) -> None:
        await asyncio.wait_for(self.all.wait(), DEADLINE)


def start(workers: Workers, handler: Any, count: int, size: int, on_loop: bool) -> None:
    pulled = messages(count)
    workers.submit(ProcessQueue(QUEUE, 0), pulled, handler, on_loop, size)


async def test_quick_handlers_are_run_by_one_task_in_order():
    seen = Outcomes(4)
    workers = Workers(8, "test", seen.done, seen.run_done)
    tasks = set()

    async def handle(some, context):
        tasks.add(asyncio.current_task())
        assert context.message_queue == QUEUE
        assert all(message.consume_start_ms for message in some)

    start(workers, handle, 10, 3, on_loop=True)
    await seen.wait()
    assert seen.offsets == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert seen.outcomes == [None] * 4
    assert len(tasks) == 1
    assert await workers.stop(DEADLINE)


async def test_waiting_handlers_run_in_parallel_up_to_the_limit():
    seen, go_on, full = Outcomes(7), asyncio.Event(), asyncio.Event()
    workers = Workers(3, "test", seen.done, seen.run_done)
    running = most = 0

    async def handle(_some, _context):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await go_on.wait()
        running -= 1

    start(workers, handle, 7, 1, on_loop=True)
    await asyncio.wait_for(full.wait(), DEADLINE)
    assert workers.in_flight == 7
    go_on.set()
    await seen.wait()
    assert most == 3
    assert workers.in_flight == 0
    start(workers, handle, 1, 1, on_loop=True)
    assert await workers.stop(DEADLINE), "idle ones take new work, or are stopped"


async def test_threads_run_in_parallel_and_one_serves_quick_handlers():
    seen = Outcomes(3)
    workers = Workers(3, "test", seen.done, seen.run_done)
    together = threading.Barrier(3)

    def meet(_some, _context):
        together.wait(DEADLINE)

    start(workers, meet, 3, 1, on_loop=False)
    await seen.wait()
    assert seen.outcomes == [None] * 3, "no barrier was broken"
    assert sorted(seen.offsets) == [[0], [1], [2]]
    assert await workers.stop(DEADLINE)


async def test_the_thread_that_was_busy_last_serves_single_calls():
    singles, idents = 10, []
    seen = Outcomes(3 + singles)
    workers = Workers(3, "test", seen.done, seen.run_done)
    together = threading.Barrier(3)

    def handle(some, _context):
        if len(idents) < 3:
            idents.append(threading.get_ident())
            together.wait(DEADLINE)
        else:
            idents.append(threading.get_ident())

    start(workers, handle, 3, 1, on_loop=False)
    await until_async(lambda: len(seen.offsets) == 3)
    for number in range(singles):
        start(workers, handle, 1, 1, on_loop=False)
        await until_async(lambda done=4 + number: len(seen.offsets) == done)
    assert len(set(idents[:3])) == 3
    assert len(set(idents[3:])) == 1, "no other idle thread is woken"
    assert await workers.stop(DEADLINE)


async def test_a_thread_that_stays_in_a_call_is_replaced():
    seen = Outcomes(400)
    workers = Workers(3, "test", seen.done, seen.run_done)
    go_on, threads = threading.Event(), set()

    def handle(some, _context):
        offset = some[0].queue_offset
        threads.add(threading.get_ident())
        if offset == 200:
            assert go_on.wait(DEADLINE)

    start(workers, handle, 400, 1, on_loop=False)
    await until_async(lambda: len(seen.offsets) >= 399)
    assert [200] not in seen.offsets, "what came before and after it is reported"
    assert len(threads) > 1
    go_on.set()
    await seen.wait()
    assert sorted(seen.offsets) == [[offset] for offset in range(400)]
    assert await workers.stop(DEADLINE)


async def test_forgetting_a_queue_ends_a_run_of_its_calls():
    seen = Outcomes(1)
    workers = Workers(1, "test", seen.done, seen.run_done)
    begun, go_on = threading.Event(), threading.Event()

    def handle(some, _context):
        if some[0].queue_offset == 100:
            begun.set()
            assert go_on.wait(DEADLINE)

    start(workers, handle, 300, 1, on_loop=False)
    assert await asyncio.to_thread(begun.wait, DEADLINE)
    assert workers.forget() == 199
    go_on.set()
    assert await workers.stop(DEADLINE)
    assert sorted(seen.offsets) == [[offset] for offset in range(101)]


async def test_every_call_has_its_own_outcome():
    seen = Outcomes(4)
    workers = Workers(1, "test", seen.done, seen.run_done)

    async def later(offset):
        return offset

    def handle(some, _context):
        offset = some[0].queue_offset
        if offset == 1:
            raise RuntimeError("boo")
        return later(offset) if offset == 2 else None

    start(workers, handle, 4, 1, on_loop=False)
    await seen.wait()
    outcomes = dict(zip((offsets[0] for offsets in seen.offsets), seen.outcomes, strict=True))
    assert isinstance(outcomes.pop(1), RuntimeError)
    assert outcomes == {0: None, 2: 2, 3: None}, "a coroutine is awaited on the loop"
    assert await workers.stop(DEADLINE)


async def test_stopping_forgets_what_waits_and_waits_for_what_runs():
    seen, begun, go_on = Outcomes(2), threading.Barrier(3), threading.Event()
    workers = Workers(2, "test", seen.done, seen.run_done)

    def handle(_some, _context):
        begun.wait(DEADLINE)
        assert go_on.wait(DEADLINE)

    start(workers, handle, 9, 1, on_loop=False)
    await asyncio.to_thread(begun.wait, DEADLINE)
    assert not await workers.stop(0.01)
    assert workers.in_flight == 2
    go_on.set()
    await seen.wait()
    assert await workers.stop(DEADLINE)
    start(workers, handle, 1, 1, on_loop=False)
    assert workers.in_flight == 0
