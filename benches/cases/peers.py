"""What a Python user could pick instead of ours, in turns on one machine; only when named.

`python -m scripts.peers` installs the peers. `python -m benches.cases.peers --only pika --rounds 1`
measures ours and one peer.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benches.lib import client_load
from benches.lib.harness import LARGE, SMOKE, Mode, Report, check_room, saying_no
from benches.lib.loads import make_backlog, send
from benches.lib.measured import Figures
from benches.lib.one_load import run_load
from benches.lib.peers.servers import Kafka, Nats, Rabbit, Redis, Server
from benches.lib.servers import Ours
from scripts import peers

ROUNDS = 3
BACKLOG = {"smoke": 2_000, "large": 500_000}
OURS = "mqstack"
DISK_BYTES = 10e9
"""What the servers write in a run of three rounds, and some more."""

COUNTS = {
    "callbacks": 200_000,
    "futures": 200_000,
    "awaited_256": 200_000,
    "send_one": 20_000,
    "in_threads": 60_000,
    "latency": 3_000,
    "async_latency": 3_000,
}
"""Messages of a round of the cases that read no backlog; a peer's round also ends after 3 s."""
SMOKE_MESSAGES = 640

OUR_CASES = {
    "callbacks": "callbacks",
    "futures": "futures_with_limits",
    "awaited_256": "awaited_256",
    "send_one": "send_one",
    "in_threads": "in_threads",
    "handler": "push_plain",
    "async_handler": "push_async",
    "lists": "lite_lists",
    "latency": "latency_plain",
    "async_latency": "latency_async",
}
"""The case of `benches.lib.client_load` for each row."""

ROWS = {
    "callbacks": "blocking producer, one thread, callbacks",
    "futures": "blocking producer, one thread, futures",
    "awaited_256": "awaited sends, 256 in flight",
    "send_one": "one send at a time",
    "in_threads": "64 threads, blocking sends",
    "handler": "backlog, plain function",
    "async_handler": "backlog, `async def`",
    "lists": "backlog, lists of 500",
    "latency": "send to handler, plain function",
    "async_latency": "send to handler, `async def`",
}


@dataclass(frozen=True)
class Client:
    """A peer's Python client.

    module: its loads in `benches.lib.peers`. package: the Python package that they import. fills:
    whether its loads make the backlog; the other client of the server reads the same one, and
    RabbitMQ's clients fill their queue in each round.
    """

    name: str
    module: str
    package: str
    server: type[Server]
    cases: Sequence[str]
    fills: bool = False

    def missing(self) -> str | None:
        """The reason why it cannot be measured here; None if it can."""
        return self.server.missing() or peers.missing_package(self.package)

    def run(self, case: str, address: str, count: int) -> Figures:
        """The figures of one round of a case, in a process of its own."""
        module = f"peers.{self.module}"
        return run_load(module, case, address, count, packages=peers.PACKAGES)


_ASYNC = ("awaited_256", "send_one", "async_handler", "lists", "async_latency")
CLIENTS = (
    Client(
        "confluent-kafka",
        "confluent",
        "confluent_kafka",
        Kafka,
        ("callbacks", "futures", "send_one", "in_threads", "handler", "lists", "latency"),
        fills=True,
    ),
    Client("aiokafka", "aio_kafka", "aiokafka", Kafka, _ASYNC),
    Client("nats-py", "jetstream", "nats", Nats, _ASYNC, fills=True),
    Client(
        "redis-py",
        "redis_streams",
        "redis",
        Redis,
        ("awaited_256", "send_one", "in_threads", "handler", "lists", "latency"),
        fills=True,
    ),
    Client("pika", "rabbit", "pika", Rabbit, ("send_one", "in_threads", "handler", "latency")),
    Client(
        "aio-pika",
        "aio_rabbit",
        "aio_pika",
        Rabbit,
        ("awaited_256", "send_one", "async_handler", "async_latency"),
    ),
)


@dataclass
class Beside(Report):
    """A report with a line for each case and a column for each client."""

    absent: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The table, what is absent, and the environment."""
        names = (OURS, *(client.name for client in CLIENTS))
        clients = [name for name in names if any(row["of"] == name for row in self.rows)]
        lines = [["case", *clients], ["---"] * (len(clients) + 1)]
        for case in (case for case in ROWS if any(row["case"] == case for row in self.rows)):
            cells = {row["of"]: cell(row) for row in self.rows if row["case"] == case}
            lines.append([ROWS[case], *(cells.get(client, "-") for client in clients)])
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        where = ", ".join(f"{name} {value}" for name, value in self.environment.items())
        return "\n\n".join([table, *self.absent, f"{self.method}; {where}"])


def cell(row: Mapping[str, float | None]) -> str:
    """Messages a second and CPU a message, or the three latencies and the CPU."""
    if row.get("p50_us") is None:
        return f"{row['per_s']:,.0f} ({row['cpu_us']:.3g})"
    spans = " / ".join(f"{row[name]:,.0f}" for name in ("p50_us", "p99_us", "p999_us"))
    return f"{spans} ({row['cpu_us']:.0f})"


METHOD = (
    "messages/s (client CPU, µs a message); latency at 1,000 messages/s: p50 / p99 / p99.9 µs; "
    "- the client has no such call; medians of {} rounds in turns, a process for each case and "
    "round; backlog {:,}"
)


def main(
    smoke: bool = False,
    only: Sequence[str] = (),
    cases: Sequence[str] = (),
    rounds: int = ROUNDS,
    backlog: int | None = None,
) -> None:
    """Measure ours and every peer that this machine has.

    only: names of peers, default all. cases: names of ROWS, default all. backlog: messages to read.
    """
    mode = SMOKE if smoke else Mode(LARGE.name, LARGE.seconds, 0.0, rounds)
    count = backlog or BACKLOG[mode.name]
    report = Beside("peers", mode, METHOD.format(mode.rounds, count), ("case", "of"))
    chosen = [client for client in CLIENTS if not only or client.name in only]
    report.absent = absent(chosen)
    for line in report.absent:
        print(line, flush=True)
    present = [client for client in chosen if client.missing() is None]
    with tempfile.TemporaryDirectory(prefix="mqbench-") as scratch, ExitStack() as running:
        if not smoke:
            check_room(scratch, DISK_BYTES)
        ours = running.enter_context(Ours(Path(scratch) / "ours", {}))
        for topic in client_load.SENT_TOPICS:
            send(ours, topic, 1)
        make_backlog(ours, count)
        addresses = _start(present, Path(scratch), running, count)
        measured: dict[tuple[str, str], list[Figures]] = {}
        for _ in range(mode.rounds):
            for case in cases or ROWS:
                messages = SMOKE_MESSAGES if smoke else COUNTS.get(case, count)
                for name, figures in _turns(case, ours.namesrv, addresses, messages):
                    print(ROWS[case], name, figures, file=sys.stderr, flush=True)
                    measured.setdefault((case, name), []).append(figures)
    for (case, name), figures_of_rounds in measured.items():
        report.add(case, figures_of_rounds, of=name)
    report.finish()


def absent(clients: Sequence[Client]) -> list[str]:
    """A line for each client that cannot be measured here: which, and why."""
    reasons = {client.name: client.missing() for client in clients}
    return [f"not measured: {name}: {why}" for name, why in reasons.items() if why]


def _start(
    clients: Sequence[Client], scratch: Path, running: ExitStack, count: int
) -> dict[Client, str]:
    """Start the clients' servers and fill their backlogs; returns the clients' addresses."""
    servers = {
        kind: running.enter_context(kind(scratch))
        for kind in dict.fromkeys(client.server for client in clients)
    }
    for kind, server in servers.items():
        for filler in (client for client in CLIENTS if client.server is kind and client.fills):
            filler.run("fill", server.address, count)
    return {client: servers[client.server].address for client in clients}


def _turns(
    case: str, namesrv: str, addresses: Mapping[Client, str], count: int
) -> Iterator[tuple[str, Figures]]:
    """One round of a case: ours, then each client that has it."""
    yield OURS, run_load("client_load", OUR_CASES[case], namesrv, count)
    for client, address in addresses.items():
        if case in client.cases:
            yield client.name, client.run(case, address, count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.cases.peers", description=__doc__)
    names = [client.name for client in CLIENTS]
    parser.add_argument("--only", nargs="+", choices=names, default=[], help="peers to measure")
    parser.add_argument("--cases", nargs="+", choices=ROWS, default=[], help="rows to measure")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--backlog", type=int, help="messages that the consumers read")
    parser.add_argument(
        "--smoke", action="store_true", help="run for seconds, to see that it works"
    )
    options = parser.parse_args()
    if options.rounds < 1 or (options.backlog is not None and options.backlog < 1):
        parser.error("--rounds and --backlog must be at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers stop and files go
    with saying_no():
        main(options.smoke, options.only, options.cases, options.rounds, options.backlog)
