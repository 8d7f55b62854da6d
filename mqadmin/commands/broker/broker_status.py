"""mqadmin brokerStatus: runtime figures of a broker, or of all masters of a cluster."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask one broker, or every master in turn."""
    cluster, address = arguments.text("clusterName"), arguments.text("brokerAddr")
    if not cluster and not address:
        raise UsageError("say which broker, or which cluster: -b or -c")
    # RocketMQ takes the cluster where both are given.
    addresses = await admin.brokers.masters(cluster) if cluster else [str(address)]
    rows: list[dict[str, object]] = []
    for address in addresses:
        runtime = await admin.brokers.runtime(address)
        rows.append({"addr": address, **dict(sorted(runtime.items()))})
    return Report(rows, lambda: _table(rows, with_address=bool(cluster)))


def _table(rows: list[dict[str, object]], *, with_address: bool) -> str:
    lines = []
    for row in rows:
        head = f"{row['addr']!s:<24} " if with_address else ""
        figures = ((name, value) for name, value in row.items() if name != "addr")
        lines += [f"{head}{name:<32}: {value}" for name, value in figures]
    return "\n".join(lines)


BROKER_STATUS = Command(
    "brokerStatus",
    run,
    [
        Option("b", "brokerAddr", "Broker address"),
        Option("c", "clusterName", "which cluster"),
    ],
)
