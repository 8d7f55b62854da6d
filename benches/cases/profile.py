"""The broker's CPU time per message, by thread and by function.

`python -m benches.cases.profile ROW...` loads our broker with rows of `versus_java` and samples it
with `perf`. Function names need a build with symbols: `CARGO_PROFILE_RELEASE_STRIP=none
CARGO_PROFILE_RELEASE_DEBUG=line-tables-only maturin develop --release`. Prints tables;
`artifacts/benches/profile-ROW.folded` holds the stacks for a flame graph viewer. It has no goals,
so `python -m benches` does not run it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benches.cases.versus_java import WARMUP_SECONDS, row_of
from benches.cases.versus_java.rows import Session
from benches.cases.versus_java.under_load import Load
from benches.lib.harness import RESULTS, BenchFailed, saying_no, touch_memory
from benches.lib.loads import make_backlog
from benches.lib.servers import Ours

SECONDS = 6.0
WARM_RUNS = 5
TOUCHED_BYTES = 5 << 30
HERTZ = 1_999
LEAST_SHARE = 0.02
"""Functions with a smaller share of their thread are summed up in one line."""
UNNAMED_MAX = 0.2
"""If a larger share of the samples has no function name, the build has no symbols."""
KERNEL_BASE = 1 << 63
_ENTRY = re.compile(r"(?:__x64_|__arm64_)?sys_(\w+)|(asm_exc_\w+|asm_sysvec_\w+|ret_from_fork\w*)")
_NUMBER = re.compile(r"[-_]?\d+$")
_NOISE = re.compile(r"::h[0-9a-f]{16}$|\bmq_(?=[a-z]+::)|\{\{?closure\}?\}|\{impl#\d+\}|::(?=::)")

Stack = tuple[str, ...]
"""A thread's name, and its known frames from the outermost to the innermost."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.cases.profile", description=__doc__)
    parser.add_argument("rows", nargs="+", metavar="ROW", help="row of versus_java to profile")
    arguments = parser.parse_args()
    if shutil.which("perf") is None:
        parser.exit(1, "perf is not installed (Debian: linux-perf)\n")
    with saying_no():
        for name in arguments.rows:
            profile(name)
    return 0


def profile(name: str) -> None:
    """Load, sample and print one row. BenchFailed if it does not exist or loads no broker."""
    try:
        how = row_of(name).how
    except ValueError as reason:
        raise BenchFailed(str(reason)) from None
    if not isinstance(how, Load):
        raise BenchFailed(f"{name} is no load of a broker")
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    session = Session(folder, SECONDS, WARMUP_SECONDS, rounds=1)
    try:
        with Ours(session.new_folder("ours"), {"flushDiskType": how.flush}) as cluster:
            if how.backlog:
                make_backlog(cluster, session.backlog_messages)
            load = how.make(session)
            for _ in range(WARM_RUNS):
                load.run(cluster, WARMUP_SECONDS)
            if not how.backlog:
                touch_memory(TOUCHED_BYTES)
            before = cluster.cost.cpu_of_threads()
            with _Perf(cluster.pids[-1], folder / "perf.data") as perf:
                report = load.run(cluster, SECONDS)
            after = cluster.cost.cpu_of_threads()
        stacks = perf.stacks()
    finally:
        session.stop()
        shutil.rmtree(folder)
    used = _together({name: after[name] - before.get(name, 0.0) for name in after})
    _keep(name, stacks)
    print(f"\n### {name}: {report['messages_per_second']:,.0f} messages/s\n")
    _print(stacks, {thread: seconds / report["messages"] * 1e6 for thread, seconds in used.items()})


class _Perf:
    """`perf record` of a process while a `with` block runs."""

    def __init__(self, pid: int, output: Path) -> None:
        self._output = output
        self._command = ["perf", "record", "-q", "-g", "-F", str(HERTZ), "-o", str(output)]
        self._command += ["-p", str(pid)]

    def __enter__(self) -> _Perf:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def stacks(self) -> Counter[Stack]:
        """Samples per stack; raises BenchFailed if the functions have no names."""
        command = ["perf", "script", "-F", "comm,ip,sym", "-i", str(self._output)]
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace")
        found = Counter(_stack(lines) for lines in _samples(answer.stdout))
        unnamed = sum(count for stack, count in found.items() if stack[-1] == "[unknown]")
        if not found:
            raise BenchFailed(f"perf saw nothing: {answer.stderr.strip()}")
        if unnamed > UNNAMED_MAX * found.total():
            raise BenchFailed("functions have no names in this build, see `--help`")
        return found


def _samples(text: str) -> Iterator[list[str]]:
    """Yields the lines of each sample: the thread, then its frames, innermost first."""
    for block in text.split("\n\n"):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if len(lines) > 1:
            yield lines


def _stack(lines: list[str]) -> Stack:
    """The stack of one sample.

    In user space only the innermost function: without frame pointers the callers are guesses.
    """
    frames = [line.partition(" ") for line in lines[1:]]
    kernel = [name for address, _, name in frames if int(address, 16) >= KERNEL_BASE]
    thread = _NUMBER.sub("", lines[0].split()[0])
    if kernel:
        return (thread, "kernel", *reversed(kernel))
    return (thread, _NOISE.sub("", frames[0][2]).strip(":") or "[unknown]")


def _what(stack: Stack) -> str:
    """The name of our function, or of the system call or interrupt."""
    if stack[1] != "kernel":
        return stack[1]
    for name in stack[2:]:
        if entry := _ENTRY.search(name):
            return f"kernel: {entry[1] or entry[2]}"
    return "kernel: other"


def _together(used: dict[str, float]) -> dict[str, float]:
    """Sum up threads whose names differ only by a number."""
    kinds: dict[str, float] = {}
    for name, seconds in used.items():
        kind = _NUMBER.sub("", name)
        kinds[kind] = kinds.get(kind, 0.0) + seconds
    return kinds


def _print(stacks: Counter[Stack], microseconds: dict[str, float]) -> None:
    """Print a Markdown table."""
    total = sum(microseconds.values())
    print("| thread | what | µs a message | of it |\n|---|---|---|---|")
    for thread, spent in sorted(microseconds.items(), key=lambda item: -item[1]):
        if spent < LEAST_SHARE * total:
            continue
        print(f"| **{thread}** | | **{spent:.3f}** | **{spent / total:.0%}** |")
        counts: Counter[str] = Counter()
        for stack, count in stacks.items():
            if stack[0] == thread:
                counts[_what(stack)] += count
        seen = counts.total() or 1
        small = 0
        for what, count in counts.most_common():
            if count < LEAST_SHARE * seen:
                small += count
                continue
            print(f"| | {what} | {spent * count / seen:.3f} | {count / seen:.0%} |")
        print(f"| | less than {LEAST_SHARE:.0%} each | {spent * small / seen:.3f} | |")
    print(f"| all | | {total:.3f} | |")


def _keep(name: str, stacks: Counter[Stack]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    lines = (f"{';'.join(stack)} {count}\n" for stack, count in sorted(stacks.items()))
    (RESULTS / f"profile-{name}.folded").write_text("".join(lines))


if __name__ == "__main__":
    raise SystemExit(main())
