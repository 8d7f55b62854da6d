"""What many connections, topics, queues, groups and held pulls cost a broker."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from pathlib import Path
from zlib import crc32

from msgspec.structs import replace

from benches.lib.crowd import Crowd, Line, Shape, ask_all, send_frame, topic_name
from benches.lib.harness import Report, mode_of
from benches.lib.loads import no_problems
from benches.lib.rows import Rows
from benches.lib.servers import Ours, broker_of
from mqclient.cli.bench import run_produce
from mqcommon.wire.bodies.topics import RegisterBrokerBody
from mqcommon.wire.calls import topic_calls
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.namesrv import RegisterBrokerRequestHeader
from mqserver.commands.command_runtime import allow_open_files
from mqserver.embedded.raw_client import Probe

LARGE = Shape(connections=10_000, topics=10_000, queues_each=5, groups=1_000, holds=100_000)
SMALL = Shape(connections=200, topics=200, queues_each=5, groups=20, holds=2_000)
SETTLE_SECONDS = {"smoke": 0.0, "large": 12.0}
"""The broker collects statistics of reads and sends every 10 s."""
IDLE_SECONDS = {"smoke": 0.5, "large": 61.0}
"""Every minute the broker checks its connections and logs its statistics."""
LOAD_SECONDS = {"smoke": 0.3, "large": 2.0}
ROUNDS = {"smoke": 1, "large": 3}
CREATING_LINES = 128
"""Connections that create the topics; each has one send in flight, as a synchronous producer."""
THREADS_TOLD = 3
BUSY = int(ResponseCode.SYSTEM_BUSY)
METHOD = (
    "one round, sends alternate with empty servers; one process with plain sockets is the crowd "
    "of clients, `mqclient bench` is the load"
)

IDLE_CPU_PERCENT_MAX = 2.0
ANONYMOUS_MB_MAX = 200.0
HOLD_BYTES_MAX = 300.0
THROUGHPUT_RATIO_MIN = 0.8
CREATE_SECONDS_MAX = 10.0
REGISTER_MS_MAX = 50.0


def main(smoke: bool = False) -> None:
    """Build up the crowd of clients step by step, and print what each step costs."""
    mode = mode_of(smoke)
    shape = SMALL if smoke else LARGE
    report = Report("scale", mode, METHOD)
    rows = Rows(report)
    allow_open_files()
    settings = {
        "defaultTopicQueueNums": shape.queues_each,
        "autoCreateTopicMax": 2 * shape.topics,
        "autoCreateTopicPerSecond": shape.topics,
    }
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as folder,
        Ours(Path(folder) / "small", settings) as small,
        Ours(Path(folder) / "ours", settings) as cluster,
    ):
        _run(cluster, small, shape, rows, mode.name)
    report.finish()


def _run(cluster: Ours, small: Ours, shape: Shape, rows: Rows, mode: str) -> None:
    """small: servers without a crowd, whose sends alternate with those of `cluster`."""
    broker = broker_of(cluster)
    took, refused = create_by_sends(broker, shape)
    rows.judge(f"create {shape.topics:,} topics by sends", took, "s", CREATE_SECONDS_MAX)
    rows.note("... of which were answered busy first", refused, "sends")
    took = register(cluster.namesrv, broker)
    rows.judge(f"register {shape.topics:,} topics", took, "ms", REGISTER_MS_MAX)
    time.sleep(SETTLE_SECONDS[mode])
    topics_mb = cluster.cost.anonymous_mb()
    rows.note(f"anonymous memory, {shape.topics:,} topics", topics_mb, "MB")
    with Crowd(broker, shape) as crowd:
        _gather(cluster, crowd, shape, rows, mode)
        _rest(cluster, rows, mode)
        crowd.beat()  # otherwise the broker soon closes the clients as expired
        gc.freeze()  # the collector of this process need not scan the crowd's objects
        _compare(cluster, small, rows, mode)
        before_mb = cluster.cost.anonymous_mb()
        rows.judge("anonymous memory, loaded", before_mb, "MB", ANONYMOUS_MB_MAX)
        crowd.beat()
        # The first pulls used memory that was free inside the process; the second ones make it
        # grow.
        holds = crowd.hold()
        hold_bytes = (cluster.cost.anonymous_mb() - before_mb) * 2**20 / holds
        rows.judge("memory of one more held pull", hold_bytes, "B", HOLD_BYTES_MAX)


def _gather(cluster: Ours, crowd: Crowd, shape: Shape, rows: Rows, mode: str) -> None:
    before_mb = cluster.cost.anonymous_mb()
    began = time.monotonic()
    crowd.connect()
    took = time.monotonic() - began
    rows.note(f"{shape.connections:,} connections in {shape.groups:,} groups", took, "s")
    grown_mb = cluster.cost.anonymous_mb() - before_mb
    rows.note("memory of a connection", grown_mb * 2**20 / shape.connections, "B")
    before_mb = cluster.cost.anonymous_mb()
    crowd.await_dispatch()
    time.sleep(SETTLE_SECONDS[mode])
    grown_mb = cluster.cost.anonymous_mb() - before_mb
    rows.note("memory of statistics, two topics read by each", grown_mb, "MB")
    before_mb = cluster.cost.anonymous_mb()
    began = time.monotonic()
    holds = crowd.hold()
    rows.note(f"{holds:,} pulls held", time.monotonic() - began, "s")
    grown_mb = cluster.cost.anonymous_mb() - before_mb
    rows.note("memory of a held pull, besides what was free", grown_mb * 2**20 / holds, "B")


def _rest(cluster: Ours, rows: Rows, mode: str) -> None:
    """Measure the CPU and the memory of the idle broker."""
    cost, began = cluster.cost, time.monotonic()
    used, threads = cost.cpu_seconds(), cost.cpu_of_threads()
    time.sleep(IDLE_SECONDS[mode])
    percent = 100 / (time.monotonic() - began)
    idle = (cost.cpu_seconds() - used) * percent
    rows.judge("CPU when idle", idle, "% of a core", IDLE_CPU_PERCENT_MAX)
    grown = {name: cpu - threads.get(name, 0.0) for name, cpu in cost.cpu_of_threads().items()}
    for name in sorted(grown, key=grown.__getitem__, reverse=True)[:THREADS_TOLD]:
        rows.note(f"... of which {name}", grown[name] * percent, "% of a core")
    rows.judge("anonymous memory, idle", cost.anonymous_mb(), "MB", ANONYMOUS_MB_MAX)


def _compare(cluster: Ours, small: Ours, rows: Rows, mode: str) -> None:
    """Compare sends to the broker with the crowd and to servers without one, alternating."""
    seconds = LOAD_SECONDS[mode]
    rounds = [
        (_throughput(small, seconds), _throughput(cluster, seconds)) for _ in range(ROUNDS[mode])
    ]
    alone, crowded = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    rows.note("sends, small case", alone, "messages/s")
    rows.note("anonymous memory, small case", small.cost.anonymous_mb(), "MB")
    rows.note("sends beside the crowd", crowded, "messages/s")
    ratio = statistics.median(beside / without for without, beside in rounds)
    rows.judge("of the small case", ratio, "", THROUGHPUT_RATIO_MIN, least=True)


def _throughput(cluster: Ours, seconds: float) -> float:
    load: dict[str, object] = {"namesrv": cluster.namesrv, "topic": "ScaleLoad", "warmup_s": 0.5}
    report = no_problems(run_produce({**load, "duration_s": seconds}, in_flight=64))
    return float(report["messages_per_second"])


def create_by_sends(broker: str, shape: Shape) -> tuple[float, int]:
    """Create each topic by a send; returns the seconds and the number of busy answers."""
    host, _, port = broker.rpartition(":")
    lines = [Line((host, int(port)), "127.0.0.1") for _ in range(CREATING_LINES)]
    left = list(range(shape.topics))
    refused: list[int] = []  # answered busy and sent again, as clients do
    began = time.monotonic()
    while left:
        now, left = left[:CREATING_LINES], left[CREATING_LINES:]
        sends = [[send_frame(topic_name(number), shape.queues_each)] for number in now]
        replies = ask_all(lines[: len(now)], sends.__getitem__, accepts=(0, BUSY))
        again = [number for number, reply in zip(now, replies, strict=True) if reply == BUSY]
        refused += again
        left += again
    took = time.monotonic() - began
    for line in lines:
        line.socket.close()
    return took, len(refused)


def register(namesrv: str, broker: str, rounds: int = 5) -> float:
    """Register the broker's topics as if another broker did; milliseconds of the best round.

    The time runs from encoding the table, as a broker does, to the NameServer's answer after it has
    updated its routes.
    """
    call = topic_calls.all_topic_config()
    with Probe(broker) as probe:
        wrapper = call.result(probe.call(call.request))
    took = []
    with Probe(namesrv) as probe:
        for version in range(rounds):
            changed = replace(wrapper.data_version, counter=version + 1)
            began = time.monotonic()
            body = RegisterBrokerBody(replace(wrapper, data_version=changed)).encode(False)
            header = RegisterBrokerRequestHeader(
                broker_name="broker-of-the-bench",
                broker_addr="127.0.0.1:1",
                cluster_name="DefaultCluster",
                ha_server_addr="",
                broker_id=0,
                body_crc32=crc32(body) & 0x7FFFFFFF,
            )
            code = int(RequestCode.REGISTER_BROKER)
            reply = probe.call(Frame(code, header.to_fields(), body))
            took.append((time.monotonic() - began) * 1000)
            if reply.code:
                raise RuntimeError(f"code {reply.code}: {reply.remark}")
    return min(took)
