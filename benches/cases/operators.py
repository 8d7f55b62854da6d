"""Commands of mqadmin as an operator runs them: a small one, tables of a large cluster, a search.

Each command is a process of its own, measured from its start to its end. The large cluster is a
real NameServer with brokers that this process plays. The search goes through a real broker.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benches.cases.names import wrapper_of
from benches.lib.harness import ROOT, Report, mode_of, verdict
from benches.lib.played_brokers import PlayedBrokers
from benches.lib.servers import Ours
from mqclient import Admin, Message, Producer

BROKERS, TOPICS = {"smoke": 3, "large": 50}, {"smoke": 20, "large": 1_000}
MESSAGES = {"smoke": 2_000, "large": 1_000_000}
BODY_BYTES, BATCH = 1_024, 500
TOPIC = "BenchSearch"
ROUTE_MS_MAX = 150.0
CLUSTER_MS_MAX = 1_000.0
SEARCHED_MIN = 200_000
MEMORY_MB_MAX = 80.0
METHOD = "medians of {} rounds; a round is one process, its start included; memory is its peak"

COMMAND = """
import re, sys
from mqadmin import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)
"""
"""Runs mqadmin; its last line on standard error is its peak memory, kilobytes."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed command has its bytecode


def main(smoke: bool = False) -> None:
    """Run all rows and print them."""
    mode = mode_of(smoke)
    report = Report("operators", mode, METHOD.format(mode.rounds))
    with tempfile.TemporaryDirectory(prefix="mqbench-") as scratch:
        with Ours(Path(scratch) / "large", {}) as cluster:
            topics, brokers = TOPICS[mode.name], BROKERS[mode.name]
            with PlayedBrokers(cluster.namesrv, brokers, wrapper_of(topics, 1)):
                for line, least in (("topicList -c", topics), ("clusterList", brokers)):
                    rows = [_run(cluster, line, least) for _ in range(mode.rounds)]
                    row = report.add(f"{line}: {topics:,} topics, {brokers} brokers", rows)
                    _judge(row, "ms", CLUSTER_MS_MAX)
        with Ours(Path(scratch) / "search", {}) as cluster:
            _fill(cluster, MESSAGES[mode.name])
            rows = [_run(cluster, f"topicRoute -t {TOPIC}") for _ in range(mode.rounds)]
            _judge(report.add("topicRoute", rows), "ms", ROUTE_MS_MAX)
            for condition in ("-k ^order-77$", "--body customer-77", "--json @.order==77"):
                line = f"messages find -t {TOPIC} {condition}"
                rows = [_searched(cluster, line, MESSAGES[mode.name]) for _ in range(mode.rounds)]
                row = report.add(line.replace(f" -t {TOPIC}", ""), rows)
                _judge(row, "messages_per_s", SEARCHED_MIN, least=True)
    report.finish()


def _judge(row: dict[str, Any], figure: str, limit: float, least: bool = False) -> None:
    is_met = row[figure] >= limit if least else row[figure] <= limit
    row["goal"] = f"{'>=' if least else '<='} {limit:,g}, <= {MEMORY_MB_MAX:g} MB"
    row["met"] = verdict(is_met and row["memory_mb"] <= MEMORY_MB_MAX)


def _run(cluster: Ours, line: str, rows_min: int = 1) -> dict[str, float]:
    words = [*line.split(), "-n", cluster.namesrv, "--output", "jsonl"]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    output = process.stdout.read()
    taken = time.monotonic() - began
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or output.count("\n") < rows_min:
        raise RuntimeError(f"{line} ended with {process.returncode}: {errors}")
    cpu = used.ru_utime + used.ru_stime
    return {
        "ms": taken * 1000,
        "cpu_ms": cpu * 1000,
        "memory_mb": int(errors.split()[-1]) / 1024,
    }


def _searched(cluster: Ours, line: str, messages: int) -> dict[str, float]:
    figures = _run(cluster, line)
    return figures | {"messages_per_s": messages / figures["ms"] * 1000}


def _fill(cluster: Ours, count: int) -> None:
    """Send messages with a key, a text and JSON in their bodies."""
    body = '{"order": %d, "customer": "customer-%d", "rest": "' + "x" * (BODY_BYTES - 60) + '"}'
    with Producer(cluster.namesrv) as producer, Admin(cluster.namesrv) as admin:
        for start in range(0, count, BATCH):
            producer.send(
                [
                    Message(TOPIC, (body % (at, at)).encode(), keys=f"order-{at}")
                    for at in range(start, min(start + BATCH, count))
                ]
            )
        while sum(t.max_offset for t in admin.topics.stats(TOPIC).offset_table.values()) < count:
            time.sleep(0.05)
