"""Shared by all benches: run length, environment, cost of processes, and the report."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "artifacts" / "benches"
"""Folder for JSON results; ignored by git."""


class BenchFailed(Exception):
    """A bench ran and failed; the text is for the user, without a traceback."""


@contextmanager
def saying_no() -> Iterator[None]:
    """End the process with exit code 1 and the text of BenchFailed, if a bench fails."""
    try:
        yield
    except BenchFailed as reason:
        sys.exit(str(reason))


def fail_if_missed(goals: Sequence[str]) -> None:
    """Fail a run that missed goals; called after the results are printed and saved.

    goals: the missed goals with the measured figures. A smoke run has none, because its figures
    mean nothing.
    """
    if goals:
        raise BenchFailed(f"goals not met: {'; '.join(goals)}")


@dataclass(frozen=True)
class Mode:
    """The amount of work of a run.

    seconds: length of a measured round. warmup_seconds: length of the warm-up before each case.
    rounds: number of measured rounds; the median counts. judges: whether a missed goal fails the
    run.
    """

    name: str
    seconds: float
    warmup_seconds: float
    rounds: int
    judges: bool = True


SMOKE = Mode("smoke", seconds=0.2, warmup_seconds=0.1, rounds=1, judges=False)
LARGE = Mode("large", seconds=4.0, warmup_seconds=3.0, rounds=5)


def mode_of(smoke: bool) -> Mode:
    """The mode for a bench's `smoke` argument."""
    return SMOKE if smoke else LARGE


def environment() -> dict[str, Any]:
    """The machine and the versions, which are saved with every result."""
    cpu = [line for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = [line for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    return {
        "time": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "cpu": cpu[0].partition(":")[2].strip() if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "memory_mb": int(memory[0].split()[1]) // 1024 if memory else None,
        "load_before": os.getloadavg()[0],
        "kernel": re.split(r"[^\d.]", platform.release())[0],
        "python": platform.python_version(),
        "commit": _output("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
    }


_TOUCH = "import mmap, sys; m = mmap.mmap(-1, int(sys.argv[1])); m.madvise(23, 0, len(m))"
"""Allocates memory, touches each page of it (MADV_POPULATE_WRITE), and frees it."""


def touch_memory(byte_count: int) -> None:
    """Free memory that the next load can use at full speed.

    In a virtual machine, memory that has been free for a while is ten times slower at its first
    use, because the host supplies it page by page; the figure would then show the host. Touches at
    most half of the available memory. Does nothing on kernels before 5.14, which lack the call.
    """
    available = [line for line in _lines("/proc/meminfo") if line.startswith("MemAvailable")]
    most = int(available[0].split()[1]) * 1024 // 2
    touch = [sys.executable, "-c", _TOUCH, str(min(byte_count, most))]
    subprocess.run(touch, stderr=subprocess.DEVNULL)


def check_room(folder: str, byte_count: float) -> None:
    """Fail before the run if the disk has less free space than it needs."""
    free = shutil.disk_usage(folder).free
    if free < byte_count:
        there, needed = (f"{size / 2**30:.0f} GiB" for size in (free, byte_count))
        raise BenchFailed(f"{folder} has {there} free, but the bench needs {needed}; set TMPDIR")


class ProcessCost:
    """CPU, memory and disk use of a process so far, from /proc. Linux only."""

    _TICK = os.sysconf("SC_CLK_TCK")

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)

    def cpu_seconds(self) -> float:
        """User and system time of all its threads."""
        after_name = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / self._TICK

    def cpu_of_threads(self) -> dict[str, float]:
        """CPU seconds by thread name; threads with the same name are summed up."""
        used: dict[str, float] = {}
        for task in (self._folder / "task").iterdir():
            try:
                name = (task / "comm").read_text().strip()
                nanoseconds = int((task / "schedstat").read_text().split()[0])
            except OSError:  # it ended
                continue
            used[name] = used.get(name, 0.0) + nanoseconds / 1e9
        return used

    def anonymous_mb(self) -> float:
        """Anonymous memory: no file backs it."""
        return self._mapped_kb()["Anonymous"] / 1024

    def file_mb(self) -> float:
        """File-backed memory that is mapped now; most of it is page cache."""
        mapped = self._mapped_kb()
        return (mapped["Rss"] - mapped["Anonymous"]) / 1024

    def written_mb(self) -> float:
        """Megabytes that it made the kernel write to a disk."""
        return self._moved_mb("write_bytes:")

    def read_mb(self) -> float:
        """Megabytes that it made the kernel read from a disk."""
        return self._moved_mb("read_bytes:")

    def _moved_mb(self, name: str) -> float:
        text = (self._folder / "io").read_text()
        line = next(line for line in text.splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1e6

    def _mapped_kb(self) -> dict[str, int]:
        lines = (self._folder / "smaps_rollup").read_text().splitlines()[1:]
        return {name.rstrip(":"): int(kb) for name, kb, _ in map(str.split, lines)}


@dataclass
class Report:
    """Rows of figures, with the environment in which they were measured.

    method: the text on how the figures were measured, default the rounds of the mode. named_by: the
    columns that identify a row. A row with a goal has the result of `verdict` in its column `met`.
    """

    bench: str
    mode: Mode
    method: str | None = None
    named_by: tuple[str, ...] = ("case",)
    rows: list[dict[str, Any]] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=environment)

    def add(self, case: str, rounds: Iterable[dict[str, float]], **labels: Any) -> dict[str, Any]:
        """Add a row with the median of every figure over the rounds; None if no round has it."""
        rounds = list(rounds)
        figures = {name: _median([one[name] for one in rounds]) for name in rounds[0]}
        row = {"case": case, **labels, **figures}
        self.rows.append(row)
        return row

    def finish(self) -> None:
        """Print the table and write the JSON file, then fail if a goal is missed."""
        print(self.markdown())
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / f"{self.bench}-{self.mode.name}.json"
        content = {"bench": self.bench, "mode": self.mode.name, "environment": self.environment}
        path.write_text(json.dumps({**content, "rows": self.rows}, indent=2) + "\n")
        print(f"\nwritten to {path.relative_to(ROOT)}", file=sys.stderr)
        if self.mode.judges:
            fail_if_missed(self.missed())

    def missed(self) -> list[str]:
        """The rows whose goal is not met, with their figures."""
        return [self._summary(row) for row in self.rows if row.get("met") == verdict(False)]

    def _summary(self, row: dict[str, Any]) -> str:
        name = ", ".join(str(row[column]) for column in self.named_by)
        others = (column for column in row if column not in (*self.named_by, "met"))
        return f"{name}: {', '.join(f'{column} {_cell(row[column])}' for column in others)}"

    def markdown(self) -> str:
        """The rows as a Markdown table, followed by the environment."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        lines = [columns, ["---"] * len(columns)]
        lines += [[_cell(row.get(name)) for name in columns] for row in self.rows]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        where = ", ".join(f"{name} {value}" for name, value in self.environment.items())
        rounds = f"median of {self.mode.rounds} rounds of {self.mode.seconds} s"
        return f"{table}\n\n{self.method or rounds}; {where}"


def verdict(is_met: bool) -> str:
    """The value of a row's column `met`."""
    return "yes" if is_met else "no"


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()
