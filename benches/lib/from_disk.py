"""CPU that the broker spends on a message that it must read from the disk.

The broker reads the oldest messages of a store, whose pages are dropped from the page cache before
each round. Mapped pages cannot be dropped, and the broker maps the files that it reads, so each
round reads a topic that was never read before. The cost of the kernel alone is measured with bare
reads of the pages of another such topic. The goal limits what the broker adds to these bare reads
and to a read from memory.
"""

from __future__ import annotations

import mmap
import os
import statistics
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from benches.lib.loads import no_problems, send
from benches.lib.rows import Rows
from benches.lib.servers import Ours
from mqclient.cli.bench import run_consume

LIMIT_TOPIC = "FlatLimit"
READ_BYTES = 256 << 10
UNIT = struct.Struct(">qi8x")


def topics(rounds: int) -> list[str]:
    """One topic for warm-up, one for each round, and one for the bare reads."""
    return [*(f"FlatDisk{number}" for number in range(rounds + 1)), LIMIT_TOPIC]


def fill(cluster: Ours, rounds: int, count: int) -> None:
    """Send `count` messages to each of these topics, to read them later."""
    for topic in topics(rounds):
        send(cluster, topic, count)


def measure(small: Ours, large: Ours, rounds: int, rows: Rows, ratio_max: float) -> None:
    """Alternate reads from the disk with the same reads from the memory of a small store."""
    folder = large.folder / "store"
    found: list[tuple[float, float, float]] = []
    for topic in topics(rounds)[:-1]:
        of_small, _ = _read_once(small, topic)
        forget(folder.rglob("0*"))
        of_large, read = _read_once(large, topic)
        found.append((of_small, of_large, read))
    limits = [_limit_us(folder) for _ in range(rounds)]
    of_small, of_large, read = (statistics.median(each) for each in zip(*found[1:], strict=True))
    rows.note("read once, empty store, from memory", of_small, "us")
    rows.note("read once, the oldest, from the disk", of_large, "us")
    rows.note("... bytes that came from the disk", read, "a message")
    bare = statistics.median(limits)
    rows.note("... bare reads of such pages", bare, "us")
    rows.note("read once, the oldest, from the disk", of_large / of_small, "x empty")
    floor = of_large / (of_small + bare)
    rows.judge("read once, the oldest, from the disk", floor, "x empty and bare reads", ratio_max)


def forget(paths: Iterable[Path]) -> None:
    """Drop the pages of these files from the page cache, except pages that a process has mapped."""
    os.sync()
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_once(cluster: Ours, topic: str) -> tuple[float, float]:
    """Microseconds of CPU and bytes read from the disk, per message."""
    used, read = sum(cluster.cost.cpu_of_threads().values()), cluster.cost.read_mb()
    report = no_problems(run_consume({"namesrv": cluster.namesrv, "topic": topic}))
    used = sum(cluster.cost.cpu_of_threads().values()) - used
    read = cluster.cost.read_mb() - read
    messages = report["totals"]["received"]
    return used / messages * 1e6, read / messages * 1e6


def _limit_us(folder: Path) -> float:
    """Microseconds of CPU per message to read the pages of a topic's messages in order."""
    forget(folder.rglob("0*"))
    units = _units(folder / "consumequeue" / LIMIT_TOPIC)
    at, end = min(start for start, _ in units), max(start + size for start, size in units)
    buffer = mmap.mmap(-1, READ_BYTES)
    file_bytes = max(path.stat().st_size for path in (folder / "commitlog").glob("0*"))
    began = time.thread_time()
    while at < end:
        start = at - at % file_bytes
        name = folder / "commitlog" / f"{start:020}"
        with name.open("rb", buffering=0) as file:
            while at < min(end, start + file_bytes):
                at += os.preadv(file.fileno(), [buffer], at - start)
    return (time.thread_time() - began) / len(units) * 1e6


def _units(folder: Path) -> list[tuple[int, int]]:
    """Log offset and size of each message of a topic, from the files of its queues."""
    read = (UNIT.iter_unpack(path.read_bytes()) for path in folder.glob("*/0*"))
    return [unit for of_file in read for unit in of_file if unit[1]]
