"""Saves the results of each row as a JSON file, and writes RESULTS.md with a plot per row."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benches.cases.versus_java.figures import NAMES, written
from benches.cases.versus_java.plot import draw
from benches.cases.versus_java.rows import (
    LIMIT,
    OURS,
    Goal,
    Measured,
    Need,
    Row,
    Session,
    Verdict,
    of_limit,
    ratios,
)
from benches.lib.harness import ROOT, environment

HERE = ROOT / "benches" / "versus_java"
METHOD = """\
**Method.** `python -m benches versus_java` measures all rows, `python -m benches.cases.versus_java
--only ROW` measures one; each row is one run, and `results/` holds its raw rounds. Load
generator, NameServers and brokers share the machine. The brokers of a row run at the same time
and their rounds alternate, so that a noisy machine is noisy for all of them; the rows of
start and memory restart each broker for every round. Before a round, all dirty pages are
written to the disk and 700 MiB of memory are touched per second of the round, because a virtual
machine's host supplies unused memory slowly. A broker whose store has passed 2 GiB continues with
an empty store. Java brokers are warmed by the row's own load with 64 requests in flight, in 4 to
8 runs of 2 s, until a run is less than 20 % faster than the one before. RocketMQ has a heap of 1
GiB with G1 and 1 GiB of direct memory; the Java client is 4.9.7 for every broker, in one warm JVM
(`java/src/`). Unless a row says otherwise, bodies have 1 KiB and there are 4 queues. A round is
repeated if other processes or the machine's host used over 10 % of the CPU. Figures are medians
over the rounds; rates also have their least and most.

| term | meaning |
|---|---|
| CPU | user and system time of the server's process |
| Java's, in a goal | the better of the two Java brokers in the same run |
| limit | a server that answers and stores nothing (`rust/bench/examples/limit.rs`), in the same \
alternating rounds: about the highest rate that a broker can reach with this client; with \
SYNC_FLUSH it writes and flushes each request |
| percentile | latency of one request, from the call to the answer; with the native client's \
backlog, of one pull of up to 32 messages; the Java client's backlog has none |
| open loop | each request has a time when it is due, and its latency counts from that time |
| from sender to reader | from a message's due time until a reader that waits at 4 queues has it |
| at once | a connection is open once the kernel has accepted it, so the time to the answer of \
its first heartbeat is another column |
| oneway | only stored messages count: growth of the queues' end offsets, until they stop growing |
| routes | 128 requests in flight for the rate; 8, one per connection, for the percentiles |
| failed | not sent in time, not answered, refused, lost, or received twice |
"""


def keep(row: Row, session: Session, measured: Measured, home: Path) -> None:
    """Save one row's results; a later run of the row replaces them."""
    path = home / "results" / f"{row.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "row": row.name,
        "environment": {**environment(), "java": _java_version()},
        "seconds": session.seconds,
        "warmup_seconds": session.warmup_seconds,
        "note": measured.note,
        "rounds": measured.rounds,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def write(rows: tuple[Row, ...], home: Path) -> Path:
    """Write RESULTS.md and the plots of all rows that have been measured."""
    kept = [(row, _read(row, home)) for row in rows]
    parts = ["# Beside Apache RocketMQ, on one machine\n", METHOD, "## Goals\n"]
    measured = [(row, content) for row, content in kept if content]
    parts.append("\n".join(_goals_table(measured)) + "\n")
    unknown = [row.title for row, content in kept if not content]
    if unknown:
        parts.append(f"Not measured: {'; '.join(unknown)}.\n")
    for row, content in measured:
        parts.append(_section(row, content, home))
    path = home / "RESULTS.md"
    path.write_text("\n".join(parts))
    return path


def summary(row: Row, measured: Measured) -> str:
    """A row's table and the verdicts on its goals."""
    lines = [f"### {row.title}\n", *_table(measured), ""]
    lines += [f"- {_judged(verdict)}" for verdict in _verdicts(row, measured)]
    return "\n".join(lines)


def missed(row: Row, measured: Measured) -> list[str]:
    """Goals of a row that are not met or whose figures were not measured."""
    judged = ((goal, goal.judge(measured)) for goal in row.goals)
    return [
        f"{row.name}: {_asked(goal)}: {_found(verdict) if verdict else 'not measured'}"
        for goal, verdict in judged
        if verdict is None or not verdict.met
    ]


def _read(row: Row, home: Path) -> dict[str, Any] | None:
    path = home / "results" / f"{row.name}.json"
    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text())
    content["measured"] = Measured(content["rounds"], content["note"])
    return content


def _goals_table(kept: list[tuple[Row, dict[str, Any]]]) -> Iterator[str]:
    yield "| row | goal | found | met | the limit's |"
    yield "|---|---|---|---|---|"
    for row, content in kept:
        for verdict in _verdicts(row, content["measured"]):
            found, met = _found(verdict), "yes" if verdict.met else "**no**"
            most = verdict.goal.judge(content["measured"], LIMIT)
            limit = "" if most is None else _found(most)
            yield f"| {row.title} | {_asked(verdict.goal)} | {found} | {met} | {limit} |"


def _section(row: Row, content: dict[str, Any], home: Path) -> str:
    measured, where = content["measured"], content["environment"]
    parts = [f"## {row.title}\n"]
    if draw(row, measured, home / "plots" / f"{row.name}.svg"):
        parts.append(f"![{row.title}](plots/{row.name}.svg)\n")
    parts.append("\n".join(_table(measured)) + "\n")
    rates = ratios(measured, row.plot)
    times = ", ".join(f"{written(ratio)} x {name}" for name, ratio in rates.items())
    if times:
        parts.append(f"Ours, {NAMES[row.plot]}: {times}.")
    if (share := of_limit(measured, row.plot)) is not None:
        parts.append(f"That is {share:.0%} of the limit in the same run.")
    if measured.note:
        parts.append(f"{measured.note[0].upper()}{measured.note[1:]}.")
    count = max(len(rounds) for rounds in measured.rounds.values())
    seconds = content["seconds"] if row.how.seconds is None else row.how.seconds
    length = f"Rounds: {count}" + (f" of {seconds:g} s" if seconds else "")
    shown = ("time", "commit", "cpu", "cores", "memory_mb", "kernel", "python", "java")
    parts.append(f"{length}; {', '.join(f'{name} {where[name]}' for name in shown)}.\n")
    return "\n".join(parts)


def _table(measured: Measured) -> Iterator[str]:
    rounds = [one for found in measured.rounds.values() for one in found]
    columns = [name for name in NAMES if any(one.get(name) is not None for one in rounds)]
    yield "| broker | " + " | ".join(NAMES[name] for name in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for broker in measured.rounds:
        cells = [_cell(measured, broker, name) for name in columns]
        yield f"| {'**' + broker + '**' if broker == OURS else broker} | {' | '.join(cells)} |"


def _cell(measured: Measured, broker: str, figure: str) -> str:
    values = measured.values(broker, figure)
    middle = written(measured.median(broker, figure))
    if not figure.endswith("_per_s") or len(values) < 2:
        return middle
    return f"{middle} ({written(min(values))}..{written(max(values))})"


def _verdicts(row: Row, measured: Measured) -> list[Verdict]:
    judged = (goal.judge(measured) for goal in row.goals)
    return [verdict for verdict in judged if verdict is not None]


def _judged(verdict: Verdict) -> str:
    return f"{_asked(verdict.goal)}: {_found(verdict)}, {'met' if verdict.met else 'NOT met'}"


def _asked(goal: Goal) -> str:
    value = f"{goal.value:,.0f}" if goal.value >= 100 else f"{goal.value:g}"
    return f"{NAMES[goal.figure]} {goal.need.value.format(value)}"


def _found(verdict: Verdict) -> str:
    is_ratio = verdict.goal.need in (Need.TIMES_JAVA, Need.OF_JAVA)
    return f"{written(verdict.found)}{' x' if is_ratio else ''}"


def _java_version() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[0] if done.stderr else ""
