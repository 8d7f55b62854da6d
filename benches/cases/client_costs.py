"""Costs of the Python client other than rates: its import, many producers, many group members.

A thousand blocking producers send one message each, in a separate process. The members of one group
start together and share the queues of one topic; the group has settled when each queue has exactly
one member.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benches.lib.harness import Report, mode_of, verdict
from benches.lib.servers import Ours
from mqclient import Admin, MessageQueue
from mqclient.aio import PushConsumer
from mqcommon.wire.bodies.topics import TopicConfig

IMPORT_MS_MAX = 40.0
IMPORTS = {"smoke": 1, "large": 11}
PRODUCERS = {"smoke": 20, "large": 1000}
MEMBERS = {"smoke": 5, "large": 100}
QUEUES_OF_A_MEMBER = 10
TOPIC = "BenchCosts"
PRODUCERS_TOPIC, PRODUCERS_QUEUES = "BenchProducers", 8
SETTLE_TIMEOUT = 120.0
LOOK_S = 0.02
"""Seconds between two checks of the queue assignment."""
METHOD = "medians of {} rounds; import: median of {} processes"

IMPORT = "import time; t = time.perf_counter(); import mqclient; print(time.perf_counter() - t)"
MANY_PRODUCERS = """
import contextlib, os, sys
from mqclient import Message, Producer

def used():
    status = open("/proc/self/status").read()
    memory_kb = int(status.partition("VmRSS:")[2].split()[0])
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), memory_kb

namesrv, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
before = used()
with contextlib.ExitStack() as stack:
    for _ in range(count):
        stack.enter_context(Producer(namesrv)).send(Message(topic, b"x"))
    print(*(now - then for now, then in zip(used(), before)))
"""
"""Prints what the producers use: file descriptors, threads, kilobytes of memory."""


def main(smoke: bool = False) -> None:
    """Run all rows and print them."""
    mode = mode_of(smoke)
    report = Report("client_costs", mode, METHOD.format(mode.rounds, IMPORTS[mode.name]))
    row = report.add("import mqclient", [_import() for _ in range(IMPORTS[mode.name])])
    row |= {"goal": f"<= {IMPORT_MS_MAX:g} ms", "met": verdict(row["ms"] <= IMPORT_MS_MAX)}
    members = MEMBERS[mode.name]
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as scratch,
        Ours(Path(scratch) / "ours", {}) as cluster,
    ):
        queues = members * QUEUES_OF_A_MEMBER
        with Admin(cluster.namesrv) as admin:
            for topic, size in ((TOPIC, queues), (PRODUCERS_TOPIC, PRODUCERS_QUEUES)):
                config = TopicConfig(topic, read_queue_nums=size, write_queue_nums=size)
                admin.topics.update(config, cluster="DefaultCluster")
        count = PRODUCERS[mode.name]
        rounds = range(mode.rounds)
        report.add(f"{count} blocking producers", [_producers(cluster, count) for _ in rounds])
        settled = [asyncio.run(_settle(cluster, f"g_{at}", members)) for at in rounds]
        report.add(f"{members} members share {queues} queues", settled)
    report.finish()


def _output(*command: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", *command], check=True, stdout=subprocess.PIPE)
    return [float(word) for word in done.stdout.split()]


def _import() -> dict[str, float]:
    (taken,) = _output(IMPORT)
    return {"ms": taken * 1000}


def _producers(cluster: Ours, count: int) -> dict[str, float]:
    words = (cluster.namesrv, PRODUCERS_TOPIC, str(count))
    descriptors, threads, memory_kb = _output(MANY_PRODUCERS, *words)
    return {"descriptors": descriptors, "threads": threads, "memory_mb": memory_kb / 1024}


async def _settle(cluster: Ours, group: str, members: int) -> dict[str, float]:
    """Seconds until every queue has one member and every member has its share of queues."""
    consumers = []
    for _ in range(members):
        consumer = PushConsumer(group, cluster.namesrv)
        consumer.subscribe(TOPIC, "*", lambda _messages, _context: None)
        consumers.append(consumer)
    started = time.monotonic()
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(SETTLE_TIMEOUT):
        await asyncio.gather(*(stack.enter_async_context(consumer) for consumer in consumers))
        joined = time.monotonic() - started
        while not _is_settled([consumer.assignment() for consumer in consumers]):
            await asyncio.sleep(LOOK_S)
        return {"joined_s": joined, "settled_s": time.monotonic() - started}


def _is_settled(held: list[Any]) -> bool:
    queues: list[MessageQueue] = [queue for one in held for queue in one]
    return {len(one) for one in held} == {QUEUES_OF_A_MEMBER} and len(set(queues)) == len(queues)
