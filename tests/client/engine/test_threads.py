"""Functions that may block run in threads of the client's own."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mqclient.consumer.context import ConsumeResult
from mqclient.engine.threads import THREADS_MAX, in_thread
from tests.client.cluster import Cluster
from tests.client.reading import reading
from tests.waiting import until_async


async def test_a_full_executor_of_the_program_does_not_stop_a_consumer(tmp_path):
    cluster, seen, go_on = Cluster(T=1), [], threading.Event()
    cluster.put("T", b"x")
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    blocked = loop.run_in_executor(None, go_on.wait, 60)

    def handle(messages, _context):
        seen.extend(message.body for message in messages)
        return ConsumeResult.SUCCESS

    def all_of_them(_client_id, queues, _members):
        return queues

    options = {"consume_from": "earliest", "allocate": all_of_them}
    try:
        async with asyncio.timeout(30):
            async with reading(cluster, handle, **options):
                await until_async(lambda: seen == [b"x"])
            store = tmp_path / "offsets.json"
            more = {"model": "broadcasting", "offset_store": store, "consume_from": "earliest"}
            async with reading(cluster, handle, **more):
                await until_async(lambda: seen == [b"x", b"x"])
    finally:
        go_on.set()
        await blocked
    assert store.exists()


async def test_outcomes_and_context_are_those_of_the_function():
    assert await in_thread(divmod, 7, 3) == (2, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)
    with pytest.raises(SystemExit):
        await in_thread(exit, 3)
    assert await in_thread(threading.current_thread) is not threading.main_thread()


async def test_functions_beyond_the_limit_wait():
    go_on, running = threading.Event(), []

    def work(number):
        running.append(number)
        assert go_on.wait(60)

    calls = [asyncio.create_task(in_thread(work, n)) for n in range(THREADS_MAX + 10)]
    await until_async(lambda: len(running) == THREADS_MAX)
    calls[-1].cancel()
    await asyncio.wait(calls[-1:])
    go_on.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert len(running) == THREADS_MAX + 9
    assert calls[-1].cancelled()
