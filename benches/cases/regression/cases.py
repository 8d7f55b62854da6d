"""The regression cases; each alternates with a calibration of the resource that it depends on.

pytest-benchmark cases with a fixed amount of work; `python -m benches regression` runs them. A
case's ratio is its fourth best round divided by the fourth best calibration, because disturbances
only add time and undisturbed rounds are rare. Cases with flushes use the median of the ratios of
each round, because a disk changes its speed for a while and then slows case and calibration alike.
All cases run on one core, except the start and 64 sends in flight: on one core the number of sends
that travel together varies between runs.
MQSTACK_BENCH_SMOKE: run one short round of each case.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import truediv
from pathlib import Path
from typing import Any

import pytest

from benches.cases.regression.offline_cases import (  # the fixtures are found by their names
    BODY,
    COLUMNS,
    PROPERTIES,
    pulled,  # noqa: F401
    reader,  # noqa: F401
)
from benches.lib import calibrate
from benches.lib.harness import touch_memory
from benches.lib.loads import BACKLOG_TOPIC, make_backlog
from benches.lib.servers import Ours
from mqclient.aio import Message, Producer
from mqclient.cli.bench import run_consume, run_produce
from mqstore import Settings, Store, StoreReader, decode_messages
from mqstore.arrow import BatchBuilder, arrow_schema

SMOKE = bool(os.environ.get("MQSTACK_BENCH_SMOKE"))
ROUNDS, WARMUP_ROUNDS, SHARE = (1, 0, 0.01) if SMOKE else (15, 1, 1.0)
LOAD = {"warmup_s": 0.0, "duration_s": 60.0}

Work = Callable[[], object]
Against = Callable[[Work], None]


def times(count: int) -> int:
    """`count`, or one hundredth of it in a smoke run."""
    return max(1, int(count * SHARE))


def fourth_best(taken: Sequence[float], marks: Sequence[float]) -> float:
    """The fourth best time divided by the fourth best calibration, or the worst of fewer rounds."""
    rank = min(3, len(taken) - 1)
    return sorted(taken)[rank] / sorted(marks)[rank]


def of_the_rounds(taken: Sequence[float], marks: Sequence[float]) -> float:
    """The median over rounds of the time divided by the calibration before it."""
    return statistics.median(map(truediv, taken, marks))


def hold(
    benchmark: Any,
    calibration: Callable[[], float],
    work: Work,
    ratio: Callable[[Sequence[float], Sequence[float]], float] = fourth_best,
) -> None:
    """Run rounds that alternate the calibration and the work, and record the ratio."""
    marks: list[float] = []
    benchmark.pedantic(
        work,
        setup=lambda: marks.append(calibration()),
        rounds=ROUNDS,
        warmup_rounds=WARMUP_ROUNDS,
    )
    benchmark.extra_info["ratio"] = ratio(benchmark.stats.stats.data, marks[WARMUP_ROUNDS:])


@contextmanager
def every_core() -> Iterator[None]:
    """Processes that start in this block may use all cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.fixture
def against_work(benchmark: Any) -> Against:
    """Calibration for work of the CPU and of memory."""
    return partial(hold, benchmark, calibrate.work_s)


@pytest.fixture(scope="session")
def loopback() -> Iterator[calibrate.Echo]:
    with calibrate.echo() as echo:
        yield echo


@pytest.fixture(scope="session")
def disk(folder: Path) -> Iterator[calibrate.Disk]:
    with calibrate.disk(folder) as disk:
        yield disk


@pytest.fixture
def against_disk(benchmark: Any, disk: calibrate.Disk) -> Against:
    """Calibration for flushes."""
    return partial(hold, benchmark, lambda: disk.flushes_s(times(500)), ratio=of_the_rounds)


@pytest.fixture
def against_disk_and_wire(
    benchmark: Any, disk: calibrate.Disk, loopback: calibrate.Echo
) -> Against:
    """Calibration for single flushes, with two wake-ups of another process for each.

    A wake-up takes 9 us in one hour and 28 us in another, while flushes take the same time.
    """
    count = times(500)

    def mark() -> float:
        return disk.flushes_s(count) + loopback.round_trip_s(2 * count)

    return partial(hold, benchmark, mark, ratio=of_the_rounds)


@pytest.fixture
def against_disk_and_cpu(benchmark: Any, disk: calibrate.Disk) -> Against:
    """Calibration for flushes shared by many sends, and for the CPU cost of each send."""
    cpu = partial(calibrate.cpu_s, 3 * calibrate.COUNTED)
    return partial(hold, benchmark, lambda: disk.flushes_s(times(500)) + cpu(), ratio=of_the_rounds)


@pytest.fixture
def against_wire(benchmark: Any, loopback: calibrate.Echo) -> Against:
    """Calibration for loopback round trips between two processes that wake each other."""
    return partial(hold, benchmark, loopback.round_trip_s)


@pytest.fixture
def against_stream(benchmark: Any, loopback: calibrate.Echo) -> Against:
    """Calibration for the loopback with many records in flight, and for the CPU.

    One record at a time would not fit: its time depends on how soon a sleeping process wakes up.
    """
    return partial(hold, benchmark, lambda: loopback.stream_s(times(10_000)) + calibrate.cpu_s())


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="mqbench-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[Ours]:
    with Ours(folder / "async", {}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def sync_server(folder: Path) -> Iterator[Ours]:
    with Ours(folder / "sync", {"flushDiskType": "SYNC_FLUSH"}) as cluster:
        yield cluster


def send(cluster: Ours, count: int, threads: int = 1, **settings: object) -> None:
    """Send `count` messages with the native client."""
    load = {**LOAD, "namesrv": cluster.namesrv, "topic": "BenchRegression", "threads": threads}
    run_produce({**load, "count": times(count)}, **settings)


def test_decode_a_pull(against_work: Against, pulled: bytes) -> None:  # noqa: F811
    def work() -> None:
        for _ in range(times(5_000)):
            decode_messages(pulled, "broker-a")

    against_work(work)


def test_decode_and_read(against_work: Against, pulled: bytes) -> None:  # noqa: F811
    def work() -> None:
        for _ in range(times(500)):
            for message in decode_messages(pulled, "broker-a"):
                _ = (message.topic, message.body, message.queue_offset, message.properties)

    against_work(work)


def test_arrow_columns(against_work: Against, reader: StoreReader) -> None:  # noqa: F811
    body = next(reader.chunks()).body
    builder = BatchBuilder(arrow_schema(COLUMNS))

    def work() -> None:
        for _ in range(times(20)):
            builder.add(body)
            builder.take()

    against_work(work)


def test_iterate_a_store(against_work: Against, reader: StoreReader) -> None:  # noqa: F811
    against_work(lambda: [sum(1 for _ in reader.records()) for _ in range(times(10))])


def test_verify(against_work: Against, reader: StoreReader) -> None:  # noqa: F811
    against_work(lambda: [reader.verify() for _ in range(times(3))])


def test_put(against_work: Against, tmp_path: Path) -> None:
    with Store(tmp_path / "store", Settings(), create=True) as store:

        def work() -> None:
            for _ in range(times(20_000)):
                store.put("BenchRegression", BODY, properties=PROPERTIES)

        against_work(work)


def test_start(against_work: Against, folder: Path) -> None:
    def work() -> None:
        at = Path(tempfile.mkdtemp(dir=folder))
        with every_core(), Ours(at / "start", {}):
            pass

    against_work(work)


def test_put_sync_flush(against_disk: Against, tmp_path: Path) -> None:
    with Store(tmp_path / "store", Settings(sync_flush=True), create=True) as store:

        def work() -> None:
            for _ in range(times(500)):
                store.put("BenchRegression", bytes(1024))

        against_disk(work)


def test_send_sync_flush(against_disk_and_wire: Against, sync_server: Ours) -> None:
    against_disk_and_wire(lambda: send(sync_server, 500))


def test_send_sync_flush_64_threads(against_disk_and_cpu: Against, sync_server: Ours) -> None:
    against_disk_and_cpu(lambda: send(sync_server, 5_000, 64))


def test_send_1_in_flight(against_wire: Against, server: Ours) -> None:
    against_wire(lambda: send(server, 4_000))


def test_send_64_in_flight(against_stream: Against, folder: Path) -> None:
    with every_core(), Ours(folder / "every-core", {}) as server:
        touch_memory(times(1 << 30))  # twice what all rounds store
        against_stream(lambda: send(server, 30_000, in_flight=64))


def test_send_64_threads(against_stream: Against, server: Ours) -> None:
    against_stream(lambda: send(server, 15_000, 64))


def test_send_batches(against_stream: Against, server: Ours) -> None:
    against_stream(lambda: send(server, 100_000, 4, batch=32, body_bytes=128))


def test_consume(against_stream: Against, server: Ours) -> None:
    count = times(50_000)
    make_backlog(server, count)
    load: dict[str, object] = {**LOAD, "namesrv": server.namesrv, "topic": BACKLOG_TOPIC}
    against_stream(lambda: [run_consume(load) for _ in range(2)])


def test_python_sends(against_stream: Against, server: Ours) -> None:
    async def sender(producer: Producer, count: int) -> None:
        for _ in range(count):
            await producer.send(Message("BenchRegression", bytes(1024)))

    async def work() -> None:
        async with Producer(server.namesrv) as producer:
            await producer.send(Message("BenchRegression", b"finds the route"))
            await asyncio.gather(*(sender(producer, times(40)) for _ in range(128)))

    against_stream(lambda: asyncio.run(work()))
