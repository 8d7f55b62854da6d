"""CPU that the broker spends per message while its store and its number of queues grow.

Each ratio compares two cases whose rounds alternate: a large store with an empty one, many queues
with one queue. Before each load on queues, the full files of the log are dropped from the page
cache, so that every load gets pages which were freed just before: in a virtual machine, pages that
have been free for a while cost up to ten times as much, and either case could get them by chance.
Reads repeat the oldest and the newest messages of the large store; from the second round on these
are in memory. At the end the oldest messages are read from the disk (`from_disk.py`). The bench
takes eight minutes and 20 GiB of disk for the large store, which it deletes.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.lib import from_disk
from benches.lib.harness import Report, check_room, mode_of
from benches.lib.loads import no_problems, send
from benches.lib.rows import Rows
from benches.lib.servers import Ours
from mqclient.cli.bench import run_consume, run_produce

RATIO_MAX = 1.2
FEW_QUEUES = 256
"""Up to this number of queues, the broker writes their entries five times a second."""
WRITTEN_FILES = 2
"""Files of the log that stay in memory: the last one, and the next one, which is prepared ahead."""
FILL_BATCH = 16
ROOM = 1.2
"""Free disk space needed, as a multiple of the large store: for the small store and some spare."""
TOPIC, OLDEST, NEWEST = "Flat", "FlatOldest", "FlatNewest"
METHOD = "CPU of the broker per message; medians of {} rounds, both cases of a ratio alternate"


@dataclass(frozen=True)
class Size:
    """The amounts of one run.

    store_bytes: sizes to which the large store is filled, in steps. queues: number of topics, and
    queues of each topic. read: number of messages that are read repeatedly. settle_seconds: time
    after each load whose CPU counts as well, because the load's last writes happen then.
    many_settle_seconds: the same with many queues, whose entries are written up to three seconds
    late.
    """

    store_bytes: tuple[int, ...]
    queues: tuple[tuple[int, int], ...]
    read: int
    rounds: int
    seconds: float
    settle_seconds: float
    many_settle_seconds: float


LARGE = Size(
    store_bytes=(1 << 30, 5 << 30, 20 << 30),
    queues=((10, 10), (100, 10), (1_000, 10)),
    read=50_000,
    rounds=5,
    seconds=1.0,
    settle_seconds=1.2,
    many_settle_seconds=3.5,
)
SMALL = Size(
    store_bytes=(96 << 20,),  # more than a broker allocates ahead, so that the fill sends something
    queues=((2, 10),),
    read=500,
    rounds=1,
    seconds=0.2,
    settle_seconds=0,
    many_settle_seconds=0,
)

Load = Callable[[], dict[str, Any]]


def main(smoke: bool = False) -> None:
    """Measure the cost over queues and over store size, and print each ratio."""
    size = SMALL if smoke else LARGE
    report = Report("flat", mode_of(smoke), METHOD.format(size.rounds))
    rows = Rows(report)
    with tempfile.TemporaryDirectory(prefix="mqbench-") as folder:
        check_room(folder, size.store_bytes[-1] * ROOM)
        with Ours(Path(folder) / "small", {}) as small:
            _over_queues(small, size, rows)
        with Ours(Path(folder) / "empty", {}) as small, Ours(Path(folder) / "large", {}) as large:
            _over_bytes(small, large, size, rows)
    report.finish()


def _over_queues(cluster: Ours, size: Size, rows: Rows) -> None:
    few = _after_giving_back(cluster, _sends(cluster, size.seconds, topic="OneQueue", queues=1))
    for topics, queues in size.queues:
        name = f"Queues{topics * queues}-"
        sends = _sends(cluster, size.seconds, topic=name, topics=topics, queues=queues)
        many = _after_giving_back(cluster, sends)
        is_many = topics * queues > FEW_QUEUES
        settle_seconds = size.many_settle_seconds if is_many else size.settle_seconds
        sides = ((cluster, few), (cluster, many))
        of_few, of_many = _in_turns(*sides, size.rounds, settle_seconds)
        rows.note(f"send, beside {topics * queues:,} queues: to one", of_few, "us")
        rows.note(f"send to {topics * queues:,} queues", of_many, "us")
        rows.judge(f"send to {topics * queues:,} queues", of_many / of_few, "x one", RATIO_MAX)


def _after_giving_back(cluster: Ours, load: Load) -> Load:
    def run() -> dict[str, Any]:
        files = sorted((cluster.folder / "store" / "commitlog").glob("0*"))
        from_disk.forget(files[:-WRITTEN_FILES])
        return load()

    return run


def _over_bytes(small: Ours, large: Ours, size: Size, rows: Rows) -> None:
    send(large, OLDEST, size.read)
    from_disk.fill(large, size.rounds, size.read)
    for step in size.store_bytes:
        _fill(large, step)
        stored = f"{large.store_bytes() / 2**30:.2g} GiB"
        newest = f"{NEWEST}{step >> 20}"
        send(large, newest, size.read)
        small.restart_empty()
        send(small, OLDEST, size.read)
        loads = (
            ("send", _sends(small, size.seconds), _sends(large, size.seconds)),
            ("read, oldest,", _reads(small, size.seconds), _reads(large, size.seconds)),
            ("read, newest,", _reads(small, size.seconds), _reads(large, size.seconds, newest)),
        )
        for kind, of_small, of_large in loads:
            sides = ((small, of_small), (large, of_large))
            costs = _in_turns(*sides, size.rounds, size.settle_seconds)
            rows.note(f"{kind} beside {stored}: an empty store", costs[0], "us")
            rows.note(f"{kind} in a store of {stored}", costs[1], "us")
            ratio = costs[1] / costs[0]
            rows.judge(f"{kind} in a store of {stored}", ratio, "x empty", RATIO_MAX)
    from_disk.fill(small, size.rounds, size.read)
    from_disk.measure(small, large, size.rounds, rows, RATIO_MAX)


def _fill(cluster: Ours, to_bytes: int) -> None:
    """Send until the store has this size, then flush it to the disk."""
    while cluster.store_bytes() < to_bytes:
        missing = (to_bytes - cluster.store_bytes()) // (1_200 * FILL_BATCH)
        count = FILL_BATCH * max(100, min(60_000, missing))
        load = {"namesrv": cluster.namesrv, "topic": TOPIC, "count": count}
        no_problems(run_produce(load, in_flight=64, batch=FILL_BATCH))
    os.sync()


def _sends(cluster: Ours, seconds: float, **which: object) -> Load:
    load = {"namesrv": cluster.namesrv, "topic": TOPIC, "duration_s": seconds, "warmup_s": 0.2}
    return lambda: run_produce({**load, **which}, in_flight=64)


def _reads(cluster: Ours, seconds: float, topic: str = OLDEST) -> Load:
    load = {"namesrv": cluster.namesrv, "topic": topic, "duration_s": seconds}
    return lambda: run_consume({**load, "warmup_s": 0.2}, repeat=True)


def _in_turns(
    one: tuple[Ours, Load], other: tuple[Ours, Load], rounds: int, settle_seconds: float
) -> tuple[float, float]:
    """Median CPU per message of each load, in microseconds; the first round does not count."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 1):
        for (cluster, load), costs in zip((one, other), found, strict=True):
            costs.append(_cost_us(cluster, load, settle_seconds))
    medians = [statistics.median(costs[1:]) for costs in found]
    return medians[0], medians[1]


def _cost_us(cluster: Ours, load: Load, settle_seconds: float) -> float:
    before = cluster.cost.cpu_seconds()
    totals = no_problems(load())["totals"]
    messages = totals.get("sent", 0) + totals.get("received", 0)  # a load has only one of the two
    time.sleep(settle_seconds)
    return (cluster.cost.cpu_seconds() - before) / messages * 1e6
