"""The broker's sustained rate once the page cache is full, compared with the disk's own rate.

The kernel buffers dirty pages up to a share of memory, and then slows writers down to the speed of
the disk. Two loads alternate: one thread writes files as large as the log's, and a broker receives
messages, 64 in flight on one connection. The first seconds do not count, nor do bytes that are
still dirty in memory. Before each load, memory is filled with the pages of a file, as on a machine
that has run for a long time: the kernel then recycles pages. Pages that were never used cost ten
times as much in a virtual machine. The disk is the one of TMPDIR.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benches.lib.harness import Report, check_room, mode_of
from benches.lib.loads import no_problems
from benches.lib.rows import Rows
from benches.lib.servers import Ours, broker_of
from mqclient.cli.bench import run_produce
from mqcommon.wire.calls import broker_calls
from mqserver.embedded.raw_client import Probe

OF_THE_DISK_MIN = 0.85
PIECE = bytes(range(256)) * (1 << 12)
FILE_BYTES = 1 << 30
MB = 1e6
SPARE_SECONDS = 1.0
"""Seconds that the load runs beyond the counted time."""
METHOD = (
    "medians of {} alternating rounds of {:g} s, without the first {:g} s; only bytes that "
    "reached the disk count"
)


@dataclass(frozen=True)
class Size:
    """The amounts of one run.

    filling_seconds: time until the kernel has as many dirty pages as it allows. memory_share: share
    of the available memory that is filled before each load. free_bytes: disk space for the writes
    of one round.
    """

    filling_seconds: float
    seconds: float
    rounds: int
    memory_share: float
    free_bytes: int


LARGE = Size(filling_seconds=8.0, seconds=8.0, rounds=3, memory_share=0.95, free_bytes=40 << 30)
SMALL = Size(filling_seconds=0.1, seconds=0.2, rounds=1, memory_share=0.001, free_bytes=4 << 30)


def main(smoke: bool = False) -> None:
    """Measure the disk and the broker, and print the broker's share of the disk's rate."""
    size = SMALL if smoke else LARGE
    round_seconds = size.filling_seconds + size.seconds
    method = METHOD.format(size.rounds, round_seconds, size.filling_seconds)
    report = Report("sustained", mode_of(smoke), method)
    rows = Rows(report)
    with tempfile.TemporaryDirectory(prefix="mqbench-") as folder:
        filler = _make_filler(Path(folder) / "filler", size)
        found = [
            (_disk_rate(size, filler), *_broker_rate(size, filler)) for _ in range(size.rounds)
        ]
    disk, broker, messages, p99_ms = (statistics.median(each) for each in zip(*found, strict=True))
    rows.note("the disk's own rate", disk / MB, "MB/s")
    rows.note("the log's rate", broker / MB, "MB/s")
    rows.note("messages of 1 KiB", messages, "a second")
    rows.note("p99 of a send", p99_ms, "ms")
    # A smoke run may end before anything reaches the disk.
    ratio = statistics.median(of_log / max(of_disk, 1.0) for of_disk, of_log, *_ in found)
    rows.judge("the log's rate", ratio, "x the disk's", OF_THE_DISK_MIN, least=True)
    report.finish()


def _memory_bytes(name: str) -> int:
    """A value of /proc/meminfo."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


def _make_filler(path: Path, size: Size) -> Path:
    """Write a file that fills the available memory; fails if a round would not fit on the disk."""
    byte_count = _memory_bytes("MemAvailable") * size.memory_share
    check_room(str(path.parent), byte_count + size.free_bytes)
    with path.open("wb", buffering=0) as file:
        while file.tell() < byte_count:
            file.write(PIECE)
    return path


def _folder(filler: Path) -> tempfile.TemporaryDirectory[str]:
    """A new folder for a round, after flushing the round before and filling memory."""
    os.sync()
    with filler.open("rb", buffering=0) as file:
        while file.read(len(PIECE)):
            pass
    return tempfile.TemporaryDirectory(prefix="mqbench-")


def _rate(size: Size, taken: Callable[[], int]) -> float:
    """Bytes per second that reach the disk; `taken` returns the bytes written so far."""

    def written() -> int:
        return taken() - _memory_bytes("Dirty") - _memory_bytes("Writeback")

    time.sleep(size.filling_seconds)
    began, before = time.monotonic(), written()
    time.sleep(size.seconds)
    return (written() - before) / (time.monotonic() - began)


def _disk_rate(size: Size, filler: Path) -> float:
    """Bytes per second of a thread that only writes."""
    taken, over = [0], threading.Event()
    with _folder(filler) as folder, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(_write, Path(folder), taken, over)
        try:
            rate = _rate(size, lambda: taken[0])
        finally:
            over.set()
        writing.result()
        return rate


def _write(folder: Path, taken: list[int], over: threading.Event) -> None:
    """Write files of the log's size one after the other until `over` is set."""
    while not over.is_set():
        with (folder / f"{taken[0]:020}").open("wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, FILE_BYTES)
            while file.tell() < FILE_BYTES and not over.is_set():
                taken[0] += file.write(PIECE)


def _broker_rate(size: Size, filler: Path) -> tuple[float, float, float]:
    """Bytes and messages per second, and the p99 of the sends in milliseconds."""
    with (
        _folder(filler) as folder,
        Ours(Path(folder) / "ours", {}) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        load = {"namesrv": cluster.namesrv, "topic": "Sustained", "headers": "rocketmq"}
        times = {"warmup_s": size.filling_seconds, "duration_s": size.seconds + SPARE_SECONDS}
        no_problems(run_produce({**load, "count": 1}))
        sending = pool.submit(run_produce, {**load, **times}, in_flight=64)
        rate = _rate(size, lambda: _log_end(cluster))
        report = no_problems(sending.result())
        p99_ms = float(report["latency_us"]["p99"]) / 1_000
        return rate, float(report["messages_per_second"]), p99_ms


def _log_end(cluster: Ours) -> int:
    """The offset at which the next message is stored."""
    call = broker_calls.broker_runtime()
    with Probe(broker_of(cluster)) as broker:
        return int(call.result(broker.call(call.request))["commitLogMaxOffset"])
