"""The store and its offline tools, with the goals that they must reach.

Large: runs the optimised Rust benches, then the Python cases with an optimised `_core`; a few
minutes. Smoke: runs everything once, without judging.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benches.lib import rust_figures
from benches.lib.harness import ROOT, Report, mode_of, verdict
from mqcommon import _core

DISK_BYTES_PER_FLUSH_MAX = 8_192
"""Most bytes that a SYNC_FLUSH of one 1 KiB message may write to the disk."""
SCALES = {"k/s": 1e3, "M/s": 1e6, "GB/s": 1e9}
"""Factor from a figure to its unit; 1 for units that are not listed."""


@dataclass(frozen=True)
class Number:
    """A figure that must be at least or at most `goal`; None for a figure without a goal."""

    what: str
    figure: str
    unit: str
    goal: float | None = None
    is_least: bool = True

    def row(self, figures: dict[str, float], judge: bool) -> dict[str, object]:
        """The row of the table; a number that was not measured counts as missed, even without a
        goal."""
        found = figures.get(self.figure)
        value = None if found is None else found / SCALES.get(self.unit, 1.0)
        row: dict[str, object] = {"number": self.what, "measured": value, "unit": self.unit}
        row |= {"goal": "", "met": ""}
        if self.goal is not None:
            row["goal"] = f"{'>=' if self.is_least else '<='} {self.goal:g}"
        if judge and (value is None or self.goal is not None):
            row["met"] = verdict(value is not None and self._is_reached(value))
        return row

    def _is_reached(self, value: float) -> bool:
        if self.goal is None:
            return True
        return value >= self.goal if self.is_least else value <= self.goal


def at_most(what: str, figure: str, unit: str, goal: float) -> Number:
    """A number that must not be larger than its goal."""
    return Number(what, figure, unit, goal, is_least=False)


NUMBERS = (
    Number("append 1 KiB, prepared files", "append.prepared.appends_per_s", "M/s", 2),
    Number("append 1 KiB for seconds, disk included", "append.async.appends_per_s", "M/s"),
    Number("slowest 10,000 of these, file rolls included", "append.async.slowest_10k_ms", "ms"),
    Number("CRC32 of 1 KiB", "format/crc32_1k", "GB/s", 15),
    Number("encode a 1 KiB record", "format/encode_1k", "M/s"),
    Number("parse a 1 KiB record with CRC", "format/parse_1k", "M/s"),
    Number("SQL filter of two terms, six properties", "format/sql_filter", "M/s", 3),
    Number("consume-queue build", "build/consume_queues", "M/s", 5),
    Number("consume-queue build, 1 KiB bodies", "build/consume_queues_1k", "M/s", 5),
    Number("index build, keys", "build/index", "M/s", 3),
    Number("recovery with CRC, warm", "recover/warm", "GB/s", 2),
    Number("recovery with CRC, cold", "recover/cold", "GB/s", 0.7),
    at_most("create an empty store", "open/create_empty", "ms", 10),
    at_most("open an empty store", "open/reopen_empty", "ms", 10),
    Number("fdatasync of one record, the disk's p50", "sync.disk_p50_us", "us"),
    at_most("SYNC_FLUSH, one thread, added to that", "sync.lone_added_us", "us", 60),
    at_most(
        "SYNC_FLUSH, to disk per flush",
        "sync.lone_disk_bytes_per_flush",
        "bytes",
        DISK_BYTES_PER_FLUSH_MAX,
    ),
    Number("SYNC_FLUSH, 64 parked", "sync.parked_per_s", "k/s"),
    Number("the same of the disk's rate", "sync.parked_of_disk", "", 0.6),
    Number("SYNC_FLUSH, 64 waiting threads", "sync.latched_per_s", "k/s"),
    Number("the same of the disk's rate", "sync.latched_of_disk", "", 0.2),
    Number("batches of 32 x 128 B, dispatch included", "batches.dispatched_per_s", "M/s", 0.5),
    at_most("delivery time error, 1 M pending", "delay.error_ms_max", "ms", 100),
    Number("delivery of due messages", "delay.delivered_per_s", "k/s", 200),
    at_most("anonymous memory, 10,000 queues filled", "memory.queues_filled_mb", "MB", 20),
    at_most("anonymous memory, 10,000 queues opened", "memory.queues_reopened_mb", "MB", 20),
    Number("open with 10,000 queues", "memory.queues_open_ms", "ms"),
    at_most("memory growth, store of 0.25 to 4 GiB", "memory.growth_mb", "MB", 1),
    Number("mqstore dump, bodies off", "python.dump_without_bodies", "M/s", 1),
    Number("iterate into Python objects", "python.iterate_a_store", "M/s", 1.5),
    Number("a store as Arrow, eight columns", "python.a_store_as_arrow", "M/s", 5),
    Number("a store as Arrow, four columns", "python.a_store_as_arrow_places_only", "M/s"),
    Number("decode a pull of 32", "python.decode_a_pull_of_32", "M/s", 2),
    Number("decode and read four fields", "python.decode_and_read_four_fields", "M/s"),
    Number("eight Arrow columns of one chunk", "python.eight_arrow_columns", "M/s"),
    Number("verify", "python.verify", "M/s"),
    Number("put from Python, 128 B", "python.put_from_python", "M/s"),
)


def main(smoke: bool = False) -> None:
    """Measure everything and print the table."""
    if not (smoke or _core.OPTIMISED):
        raise RuntimeError(
            "mqcommon._core is a development build; "
            f"first: maturin develop --skip-install --profile {rust_figures.PROFILE}"
        )
    method = "medians; engine, figures: see rust/store/benches"
    report = Report("store", mode_of(smoke), method, named_by=("number",))
    report.environment["core"] = "optimised" if _core.OPTIMISED else "development profile"
    figures = {**rust_numbers(smoke), **python_numbers(smoke)}
    report.rows += [number.row(figures, judge=not smoke) for number in NUMBERS]
    report.finish()


def rust_numbers(smoke: bool) -> dict[str, float]:
    """Figures of the Rust benches."""
    found = {**rust_figures.criterion("format", smoke), **rust_figures.criterion("engine", smoke)}
    found |= flat(rust_figures.printed("figures", smoke).items())
    appends = rust_figures.example("append", smoke, "--seconds", "4")
    return found | {
        f"append.{name}": figure
        for name, figure in flat(
            (case, values) for case, values in appends.items() if isinstance(values, dict)
        ).items()
    }


def flat(parts: Iterable[tuple[str, dict[str, float]]]) -> dict[str, float]:
    """{"part": {"figure": 1}} as {"part.figure": 1}."""
    return {f"{part}.{name}": value for part, values in parts for name, value in values.items()}


def python_numbers(smoke: bool) -> dict[str, float]:
    """Messages per second of the pytest-benchmark cases."""
    with tempfile.TemporaryDirectory(prefix="mqbench-") as folder:
        path = Path(folder) / "cases.json"
        rounds, seconds, messages = (1, 0.01, 2_000) if smoke else (5, 1.0, 1_000_000)
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "benches/cases/regression/offline_cases.py",
                f"--basetemp={folder}/pytest", f"--benchmark-json={path}",
                f"--benchmark-min-rounds={rounds}", f"--benchmark-max-time={seconds}",
                "--benchmark-warmup=off", "--benchmark-quiet",
            ],
            cwd=ROOT,
            env={**os.environ, "MQSTACK_BENCH_MESSAGES": str(messages)},
            capture_output=True,
            text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        cases = json.loads(path.read_text())["benchmarks"]
    return {
        f"python.{case['name'].removeprefix('test_')}": case["extra_info"]["messages"]
        / case["stats"]["median"]
        for case in cases
    }
