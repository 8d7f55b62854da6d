"""Floods a broker in its own process beside a healthy client, and measures both."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Self

from mqclient.cli.bench import run_latency, run_produce
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.subprocess_servers import SubprocessServers
from tests.server.floods.control_group import ControlGroup
from tests.server.raw import Raw, Reply

HEALTHY_TOPIC = "Healthy"
RATE_PER_SECOND = 500.0
SLICE_SECONDS = 0.5
WARMUP_SECONDS = 0.1
MEMORY_PERIOD_SECONDS = 0.02
IN_FLIGHT = 256
RESPONSE = 1
"""Bit of a frame's flag."""


@dataclass
class Seen:
    """Measurements during a flood.

    Megabytes are of the servers' own (anonymous) memory. p99_ms: of the sends of the healthy
    client, one figure for each slice of time that it finished.
    """

    before_mb: float = 0.0
    peak_mb: float = 0.0
    after_mb: float = 0.0
    seconds: float = 0.0
    alone_p99_ms: float = 0.0
    p99_ms: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def grown_mb(self) -> float:
        """How much more memory there was at most."""
        return self.peak_mb - self.before_mb

    @property
    def worst_p99_ms(self) -> float:
        """The p99 of the worst slice."""
        return max(self.p99_ms, default=0.0)

    @property
    def usual_p99_ms(self) -> float:
        """The p99 of the slice in the middle."""
        return median(self.p99_ms) if self.p99_ms else 0.0

    def __str__(self) -> str:
        return (
            f"memory {self.before_mb:.0f} MB, peak {self.peak_mb:.0f} MB, after "
            f"{self.after_mb:.0f} MB; p99 alone {self.alone_p99_ms:.1f} ms, beside "
            f"{self.usual_p99_ms:.1f} ms, worst {self.worst_p99_ms:.1f} ms; {self.seconds:.1f} s"
        )


class Rig:
    """A NameServer and a broker in one process of their own; a context manager.

    memory_bytes: the memory limit of the control group of the process; None, or without the right
    to make control groups: no limit. slice_seconds: of the healthy client, which reads what it
    sends if `reads` is set; its p99 is then from when a message was due to its reader.
    alone_slices: before a flood and, if there are several, again after it.
    """

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        memory_bytes: int | None = None,
        slice_seconds: float = SLICE_SECONDS,
        reads: bool = False,
        alone_slices: int = 1,
    ) -> None:
        self.mq = Standalone(process=True, settings=settings)
        self.group = ControlGroup.made(memory_bytes) if memory_bytes else None
        self._slice_seconds = slice_seconds
        self._reads = reads
        self._alone_slices = alone_slices

    def __enter__(self) -> Self:
        with self.group.entered() if self.group else nullcontext():
            self.mq.start()
        self.mq.topic(HEALTHY_TOPIC)
        return self

    def __exit__(self, *raised: object) -> None:
        self.mq.stop()
        if self.group:
            self.group.remove()

    @property
    def port(self) -> int:
        """The broker's."""
        return int(self.mq.broker_address.rpartition(":")[2])

    @property
    def namesrv_port(self) -> int:
        """The NameServer's."""
        return int(self.mq.namesrv.rpartition(":")[2])

    def memory_mb(self) -> float:
        """The servers' own memory now."""
        assert isinstance(self.mq.servers, SubprocessServers)
        lines = Path(f"/proc/{self.mq.servers.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024

    def store_mb(self) -> float:
        """Disk space of the store in MB."""
        files = (path for path in self.mq.data.rglob("*") if path.is_file())
        return sum(path.stat().st_blocks * 512 for path in files) / 1e6

    @contextmanager
    def watching(self) -> Iterator[Seen]:
        """Watch memory and the healthy client during the `with` block; figures are there after."""
        seen, alone, over = Seen(), Seen(), threading.Event()
        self._healthy_slice(Seen())
        for _ in range(self._alone_slices):
            self._healthy_slice(alone)
        seen.before_mb = self.memory_mb()
        watchers = [
            threading.Thread(target=self._watch_memory, args=(seen, over)),
            threading.Thread(target=self._stay_healthy, args=(seen, over)),
        ]
        began = time.monotonic()
        for watcher in watchers:
            watcher.start()
        try:
            yield seen
        finally:
            seen.seconds = time.monotonic() - began
            over.set()
            for watcher in watchers:
                watcher.join()
        seen.after_mb = self.memory_mb()
        for _ in range(self._alone_slices - 1):
            self._healthy_slice(alone)
        seen.alone_p99_ms = alone.usual_p99_ms

    def _watch_memory(self, seen: Seen, over: threading.Event) -> None:
        while True:
            seen.peak_mb = max(seen.peak_mb, self.memory_mb())
            if over.wait(MEMORY_PERIOD_SECONDS):
                return

    def _stay_healthy(self, seen: Seen, over: threading.Event) -> None:
        while True:
            self._healthy_slice(seen)
            if over.is_set():
                return

    def _healthy_slice(self, seen: Seen) -> None:
        load: dict[str, object] = {"namesrv": self.mq.namesrv, "topic": HEALTHY_TOPIC}
        times = {"warmup_s": WARMUP_SECONDS, "duration_s": self._slice_seconds}
        try:
            if self._reads:
                sends = {"load": {**load, **times}, "rate": RATE_PER_SECOND}
                report = run_latency(sends, readers=1, group="healthy")
            else:
                report = run_produce({**load, **times}, rate=RATE_PER_SECOND)
        except (ConnectionError, RuntimeError) as error:
            seen.problems.append(str(error))
            return
        seen.p99_ms.append(float(report["latency_us"]["p99"]) / 1_000)
        seen.problems += report["problems"]


def pour(raw: Raw, frames: Iterable[bytes], in_flight: int = IN_FLIGHT) -> Counter[int]:
    """Send all frames, some at a time, and read an answer to each: how many had which code."""
    return Counter(reply.code for reply in answers(raw, frames, in_flight))


def answers(raw: Raw, frames: Iterable[bytes], in_flight: int = IN_FLIGHT) -> Iterator[Reply]:
    """Send all frames, some at a time; the answers to them, as they come."""
    waiting = iter(frames)
    while batch := list(islice(waiting, in_flight)):
        raw.send(*batch)
        for _ in batch:
            yield answer(raw)


def answer(raw: Raw) -> Reply:
    """The next answer; requests of the broker to this client are passed over."""
    while True:
        reply = raw.read()
        if reply.flag & RESPONSE:
            return reply
