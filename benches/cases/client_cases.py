"""Our client as most programs use it: futures, linger, threads, handlers, latency.

`python -m benches.cases.client_cases --only NAME --beside FOLDER` measures in turns with another
copy of the project, whose compiled parts are built.
"""

import argparse
import tempfile
from pathlib import Path

from benches.lib import client_load
from benches.lib.harness import LARGE, ROOT, SMOKE, Mode, Report, saying_no
from benches.lib.loads import make_backlog, send
from benches.lib.measured import Figures
from benches.lib.one_load import run_load
from benches.lib.servers import Ours

FULL = Mode("large", LARGE.seconds, 0.0, rounds=5)
METHOD = "median of {} rounds, a process for each case and round; cpu_us and switches a message"
BACKLOG = {"smoke": 2_000, "large": 500_000}
COUNTS = {
    "send_one": 30_000,
    "in_threads": 100_000,
    "awaited_256": 300_000,
    "awaited_4096": 300_000,
    "linger_256": 200_000,
    "linger_4096": 400_000,
    "latency_plain": 5_000,
    "latency_async": 5_000,
}
COUNT = 300_000
"""Messages of the cases that are not in COUNTS and read no backlog."""
SMOKE_COUNT = {"futures_in_lists": 10_000, "awaited_4096": 4_096, "linger_4096": 4_096}
SMOKE_MESSAGES = 640


def main(
    smoke: bool = False,
    only: list[str] | None = None,
    beside: str | None = None,
    rounds: int | None = None,
) -> None:
    """Measure each case. beside: folder of another copy of the project; they take turns."""
    mode = SMOKE if smoke else Mode(FULL.name, FULL.seconds, 0.0, rounds or FULL.rounds)
    report = Report("client_cases", mode, METHOD.format(mode.rounds), ("case", "of"))
    copies = {"ours": ROOT} if beside is None else {"ours": ROOT, "beside": Path(beside)}
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as scratch,
        Ours(Path(scratch) / "ours", {}) as cluster,
    ):
        for topic in client_load.SENT_TOPICS:
            send(cluster, topic, 1)
        cases = [case for case in client_load.CASES if not only or case in only]
        if any(_reads(case) for case in cases):
            make_backlog(cluster, BACKLOG[mode.name])
        for case in cases:
            measured: dict[str, list[dict[str, float]]] = {name: [] for name in copies}
            for _ in range(mode.rounds):
                for name, folder in copies.items():
                    measured[name].append(_run(folder, case, cluster.namesrv, mode.name))
            for name, figures in measured.items():
                report.add(case, figures, of=name)
                print(report.rows[-1], flush=True)
    report.finish()


def _reads(case: str) -> bool:
    return case.startswith(("push", "lite"))


def _run(folder: Path, case: str, namesrv: str, mode: str) -> Figures:
    if _reads(case):
        count = BACKLOG[mode]
    elif mode == "smoke":
        count = SMOKE_COUNT.get(case, SMOKE_MESSAGES)
    else:
        count = COUNTS.get(case, COUNT)
    return run_load("client_load", case, namesrv, count, copy=folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=client_load.CASES, help="cases to run")
    parser.add_argument("--beside", help="folder of another copy of the project")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    with saying_no():
        main(options.smoke, options.only, options.beside, options.rounds)
