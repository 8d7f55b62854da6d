"""Clients that do not read, that dribble, that ask for too much: what others notice of them."""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.cases import BACKLOG_TOPIC, make_backlog
from benches.crowd import allow_files
from benches.harness import Report, command_line, mode_of
from benches.scale import Rows, broker_of, send_frame
from benches.servers import Ours
from mqclient.cli.bench import run_produce
from mqclient.wire.codes import RequestCode
from mqclient.wire.frame import Frame, encode

ANONYMOUS_MB_MAX = 512.0
P99_RATIO_MAX = 2.0
RATE = 500.0
"""Messages per second of the healthy client: a rate that leaves the machine idle."""
PULLS_EACH = 400
"""Of 32 KiB each, were they read: the sockets take a few hundred of that."""
INLINE_SUBSCRIPTION = 4
FLOOD_BODY = bytes(1 << 20)
DRIBBLE_BYTES = 7
METHOD = "one round; plain sockets misbehave, `mqclient bench` sends at a rate beside them"


@dataclass(frozen=True)
class Size:
    """How many misbehave, and for how many seconds."""

    readers: int
    dribblers: int
    floods: int
    backlog: int
    seconds: float


LARGE = Size(readers=1_000, dribblers=5_000, floods=200, backlog=20_000, seconds=5.0)
SMALL = Size(readers=20, dribblers=50, floods=5, backlog=500, seconds=1.0)


def main(smoke: bool = False) -> None:
    """Run every kind of overload, and print what it does to memory and to a healthy client."""
    mode = mode_of(smoke)
    size = SMALL if smoke else LARGE
    report = Report("overload", mode, METHOD)
    rows = Rows(report)
    allow_files()
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as folder,
        Ours(Path(folder) / "ours", {}) as cluster,
    ):
        make_backlog(cluster, size.backlog)
        _run(cluster, size, rows)
    report.finish()


def _run(cluster: Ours, size: Size, rows: Rows) -> None:
    broker = broker_of(cluster)
    alone = _p99(cluster, size.seconds)
    rows.note("p99 of a healthy client, alone", alone, "us")
    kinds: list[tuple[str, Any]] = [
        (f"{size.readers:,} stopped readers", stopped_readers(broker, size.readers)),
        (f"{size.dribblers:,} slow senders", dribblers(broker, size.dribblers)),
        (f"{size.floods:,} clients with 1 MB requests for Python", floods(broker, size.floods)),
    ]
    for name, trouble in kinds:
        with trouble, Peak(cluster) as peak:
            p99 = _p99(cluster, size.seconds)
        rows.judge(f"anonymous memory, {name}", peak.megabytes, "MB", ANONYMOUS_MB_MAX)
        rows.judge(f"p99 beside them, {name}", p99 / alone, "x alone", P99_RATIO_MAX)


class Peak:
    """The most anonymous memory that a broker had during the `with` block."""

    def __init__(self, cluster: Ours) -> None:
        self.megabytes = 0.0
        self._cost = cluster.cost
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.megabytes = max(self.megabytes, self._cost.anonymous_mb())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()


def _p99(cluster: Ours, seconds: float) -> float:
    load: dict[str, object] = {"namesrv": cluster.namesrv, "topic": "Healthy", "warmup_s": 0.5}
    report = run_produce({**load, "duration_s": seconds}, rate=RATE)
    for problem in report["problems"]:
        print(problem, file=sys.stderr)
    return float(report["latency_us"]["p99"])


def _connections(broker: str, count: int) -> list[socket.socket]:
    host, _, port = broker.rpartition(":")
    return [socket.create_connection((host, int(port)), 30.0) for _ in range(count)]


@contextlib.contextmanager
def stopped_readers(broker: str, count: int) -> Iterator[None]:
    """Each asks for the backlog again and again, and reads nothing."""
    fields = {"consumerGroup": "CID_ONSAPI_OWNER", "topic": BACKLOG_TOPIC, "queueId": "0"}
    fields |= {"queueOffset": "0", "maxMsgNums": "32", "sysFlag": str(INLINE_SUBSCRIPTION)}
    fields |= {"commitOffset": "0", "suspendTimeoutMillis": "1000", "subVersion": "0"}
    fields |= {"subscription": "*", "expressionType": "TAG"}
    pulls = encode(Frame(int(RequestCode.PULL_MESSAGE), fields)) * PULLS_EACH
    sockets = _connections(broker, count)
    for each in sockets:
        each.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            each.send(pulls)
    yield
    for each in sockets:
        each.close()


@contextlib.contextmanager
def dribblers(broker: str, count: int) -> Iterator[None]:
    """Each sends a frame a few bytes at a time."""
    frame = encode(send_frame("Dribbled", 4, bytes(4_096)))
    sockets = _connections(broker, count)
    over = threading.Event()

    def dribble() -> None:
        for at in range(0, len(frame) - DRIBBLE_BYTES, DRIBBLE_BYTES):
            for each in sockets:
                each.sendall(frame[at : at + DRIBBLE_BYTES])
            if over.wait(1.0):
                return

    thread = threading.Thread(target=dribble)
    thread.start()
    yield
    over.set()
    thread.join()
    for each in sockets:
        each.close()


@contextlib.contextmanager
def floods(broker: str, count: int) -> Iterator[None]:
    """Each has requests of a megabyte that Python answers, as fast as the broker takes them."""
    beat = encode(Frame(int(RequestCode.HEART_BEAT), {}, b'{"clientID":"x"}' + FLOOD_BODY))
    sockets = _connections(broker, count)
    for each in sockets:
        each.settimeout(0.05)
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            for each in sockets[: len(sockets)]:
                with contextlib.suppress(OSError):
                    each.sendall(beat)
                if over.is_set():
                    return

    thread = threading.Thread(target=flood)
    thread.start()
    time.sleep(0.5)
    yield
    over.set()
    thread.join()
    for each in sockets:
        each.close()


if __name__ == "__main__":
    command_line(main)
