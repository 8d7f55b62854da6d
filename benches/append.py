"""The store alone: appends of 1 KiB by one thread, flushed later, each, or in groups."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benches.harness import ROOT, Mode, Report, command_line, mode_of
from mqstore import Settings, Store

BODY = bytes(1024)
DISK_BYTES_PER_FLUSH_MAX = 8192
"""A flush of one message must not write more: design limit of SYNC_FLUSH."""


def main(smoke: bool = False) -> None:
    """Run every case and print the table.

    Smoke goes through the Python door, which is built already; large compiles and runs the Rust
    example `append`.
    """
    mode = mode_of(smoke)
    report = Report("append", mode)
    if smoke:
        for name, settings in (("async", Settings()), ("sync_lone", Settings(sync_flush=True))):
            report.add(f"{name}, from Python", [through_python(settings, mode.seconds)])
    else:
        rounds = [run_example(mode) for _ in range(mode.rounds)]
        for case in ("async", "sync_lone", "sync_parked", "sync_group"):
            report.add(case, [one[case] for one in rounds])
    report.finish()
    flushed = [row.get("disk_bytes_per_flush") or 0 for row in report.rows]
    assert max(flushed) <= DISK_BYTES_PER_FLUSH_MAX, f"{max(flushed)} bytes to disk per flush"


def through_python(settings: Settings, seconds: float) -> dict[str, float]:
    """Puts per second of one thread, and the bytes the process sent to the disk per put."""
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    try:
        with Store(folder, settings, create=True) as store:
            store.put("BenchmarkTest", BODY)  # makes the first file
            _settle()
            count, started, before = 0, time.monotonic(), _written_bytes()
            while time.monotonic() < started + seconds:
                store.put("BenchmarkTest", BODY)
                count += 1
            figures = {"puts_per_s": count / (time.monotonic() - started)}
            if settings.sync_flush:
                figures["disk_bytes_per_flush"] = (_written_bytes() - before) / count
            return figures
    finally:
        shutil.rmtree(folder)


def run_example(mode: Mode) -> dict[str, dict[str, float]]:
    """The figures the Rust example prints, by case."""
    command = ["cargo", "run", "--quiet", "--profile", "fast", "--example", "append", "--"]
    seconds = ["--seconds", str(mode.seconds)]
    done = subprocess.run(
        [*command, *seconds], cwd=ROOT / "rust", capture_output=True, text=True, check=True
    )
    figures: dict[str, dict[str, float]] = json.loads(done.stdout)
    return figures


def _settle() -> None:
    """Wait for the first file's blocks to be prepared, which is not what a flush costs."""
    before, deadline = -1, time.monotonic() + 5.0
    while (now := _written_bytes()) != before and time.monotonic() < deadline:
        before = now
        time.sleep(0.1)


def _written_bytes() -> int:
    text = Path(f"/proc/{os.getpid()}/io").read_text()
    line = next(line for line in text.splitlines() if line.startswith("write_bytes:"))
    return int(line.split()[1])


if __name__ == "__main__":
    command_line(main)
