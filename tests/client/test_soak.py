"""Memory, threads, sockets and tasks stay flat, however many messages and clients come and go.

The soak runs for 2 minutes, or for MQSTACK_SOAK_SECONDS: an hour by hand needs 6 GB of disk. The
clients run in a process of their own, which prints a line of figures after each round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mqserver.embedded.standalone import Standalone

WARM_UP = 5
"""Rounds after which every pool and cache has reached its size."""
ROUNDS = 40
RSS_GROWTH_MAX_KIB = 8 << 10
"""Growth from one half of the soak to the other if each message leaked 30 bytes."""
SECONDS = float(os.environ.get("MQSTACK_SOAK_SECONDS", "120"))

CLIENTS = """
    import asyncio, gc, json, os, sys, threading, time
    from mqclient import LitePullConsumer, Message, Producer, PushConsumer, aio

    namesrv, topic, rounds, seconds = sys.argv[1:]
    COUNT = 500
    handled = threading.Semaphore(0)

    def handle(messages, context):
        handled.release(len(messages))

    def figures():
        gc.collect()
        sockets = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        tasks = [one for one in gc.get_objects() if isinstance(one, asyncio.Task)]
        with open("/proc/self/status") as status:
            (rss,) = [line.split()[1] for line in status if line.startswith("VmRSS")]
        return {
            "threads": len(os.listdir("/proc/self/task")),
            "sockets": sum("socket:" in one for one in sockets),
            "files": len(sockets),
            "tasks": sum(not one.done() for one in tasks),
            "rss_kib": int(rss),
        }

    def send_and_consume(producer, lite):
        for number in range(COUNT // 2):
            producer.send(Message(topic, b"%d" % number))
        futures = [producer.send_async(Message(topic, b"x")) for _ in range(COUNT // 2)]
        for future in futures:
            future.result()
        for _ in range(COUNT):
            assert handled.acquire(timeout=60)
        read = 0
        while read < COUNT:
            batch = lite.poll(1000, timeout=60)
            assert batch
            read += len(batch)

    def come_and_go():
        with Producer(namesrv) as producer, PushConsumer("come_" + topic, namesrv) as consumer:
            consumer.subscribe(topic, "*", lambda messages, context: None)
            consumer.wait_assigned()
            producer.send(Message(topic, b"come"))

    async def come_and_go_on_a_loop():
        async with aio.Producer(namesrv) as producer:
            async with aio.LitePullConsumer(None, namesrv) as consumer:
                consumer.assign(await consumer.queues(topic))
                await consumer.wait_assigned()
                await producer.send(Message(topic, b"go"))
                assert await consumer.poll(timeout=60)

    begin = time.monotonic()
    options = {"consume_from": "earliest", "batch_size": 32, "threads": 4}
    push = PushConsumer("soak_" + topic, namesrv, **options)
    push.subscribe(topic, "*", handle)
    lite = LitePullConsumer("lite_" + topic, namesrv, consume_from="earliest")
    lite.subscribe(topic)
    with Producer(namesrv) as producer, push, lite:
        done = 0
        while done < int(rounds) or time.monotonic() - begin < float(seconds):
            send_and_consume(producer, lite)
            come_and_go()
            asyncio.run(come_and_go_on_a_loop())
            done += 1
            print(json.dumps(figures()), flush=True)
"""


@pytest.mark.timeout(120 + 2 * SECONDS)
@pytest.mark.parametrize("seconds", [0.0, pytest.param(SECONDS, marks=pytest.mark.soak)])
def test_clients_stay_as_small_as_they_were(seconds: float, tmp_path: Path) -> None:
    with Standalone(process=True) as mq:
        arguments = [mq.namesrv, mq.topic(), str(ROUNDS), str(seconds)]
        command = [sys.executable, "-c", textwrap.dedent(CLIENTS), *arguments]
        clients = subprocess.run(command, capture_output=True, text=True)
    assert (clients.returncode, clients.stderr) == (0, "")
    rounds = [json.loads(line) for line in clients.stdout.splitlines()][WARM_UP:]
    print(f"{len(rounds)} rounds, from {rounds[0]} to {rounds[-1]}")
    assert len(rounds) >= ROUNDS - WARM_UP
    for what in ("threads", "sockets", "files", "tasks"):
        figures = [one[what] for one in rounds]
        early, late = figures[: len(figures) // 2], figures[len(figures) // 2 :]
        assert min(late) <= max(early), f"{what} grow: {figures}"
        assert max(late) <= max(early) + 3, f"{what} grow: {figures}"
    sizes = [one["rss_kib"] for one in rounds]
    half = len(sizes) // 2
    growth = statistics.median(sizes[half:]) - statistics.median(sizes[:half])
    assert growth < RSS_GROWTH_MAX_KIB, f"KiB of memory: {sizes}"
