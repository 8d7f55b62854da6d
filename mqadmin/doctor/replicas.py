"""Checks of replication: each slave against its master, by bytes and by time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from mqadmin.doctor.facts import BrokerFacts, Facts
from mqadmin.doctor.findings import Finding

__all__ = ["MIB", "check_replicas"]

MIB = 1 << 20
WARNING_BYTES = 16 * MIB
ERROR_BYTES = 256 * MIB
"""RocketMQ does not count a slave that is further behind (haSlaveFallbehindMax)."""
WARNING_S = 30.0
"""A slave whose connection was lost reconnects within haHousekeepingInterval, 20 s by default."""
ERROR_S = 300.0
JOINING = ("waiting", "verifying")
"""A slave that has just connected knows only the age of its newest message, which is no lag."""
_LAG = re.compile(r"(?:^|, )(?P<state>[a-z]+), .+ since (?P<seconds>[\d.]+) s$")


class _Late(NamedTuple):
    """What a broker of mqstack says about the lag of a slave in time."""

    state: str = "transfer"
    seconds: float = 0.0


def check_replicas(facts: Facts) -> Iterator[Finding]:
    """All findings about the slaves of the masters that answered."""
    slaves: dict[str, list[BrokerFacts]] = defaultdict(list)
    for broker in facts.living:
        if not broker.is_master:
            slaves[broker.name].append(broker)
    for master in facts.masters:
        if master.config.get("brokerRole") == "SYNC_MASTER" and not slaves[master.name]:
            yield Finding(
                "error", "broker.replica", master.subject,
                "is a SYNC_MASTER without a slave: sends end with SLAVE_NOT_AVAILABLE",
                "start a slave, or make it an ASYNC_MASTER",
            )  # fmt: skip
        for slave in slaves[master.name]:
            yield from _replica(master, slave)


def _replica(master: BrokerFacts, slave: BrokerFacts) -> Iterator[Finding]:
    end, copied = master.number("commitLogMaxOffset"), slave.number("commitLogMaxOffset")
    lag_bytes = end - copied if end is not None and copied is not None else 0
    late = _late(master, slave)
    if lag_bytes <= -WARNING_BYTES:
        yield Finding(
            "error", "broker.replica", slave.subject,
            f"has {-lag_bytes / MIB:.0f} MiB more than its master: their logs differ",
            "stop the slave, move its store away and start it again, so that it copies anew",
            lag_bytes, "bytes",
        )  # fmt: skip
    elif lag_bytes >= WARNING_BYTES or late.seconds >= WARNING_S:
        is_error = lag_bytes >= ERROR_BYTES or late.seconds >= ERROR_S
        since = f"{late.seconds:.0f} s ({late.state})"
        what, figure, unit = f"has been behind its master for {since}", late.seconds, "seconds"
        if lag_bytes >= WARNING_BYTES:
            what = f"is {lag_bytes / MIB:.0f} MiB behind its master"
            what += f", and has been behind for {since}" if late.seconds else ""
            figure, unit = lag_bytes, "bytes"
        yield Finding(
            "error" if is_error else "warning", "broker.replica", slave.subject, what,
            "look at its log, the network between both and its disk; see haMasterAddress",
            figure, unit,
        )  # fmt: skip


def _late(master: BrokerFacts, slave: BrokerFacts) -> _Late:
    """The lag that the slave states.

    A slave of RocketMQ states none. Then it is the lag that the master states, if only one slave
    is connected from that host.
    """
    stated = slave.runtime.get("haMaster")
    if stated is None:
        prefix = f"haSlave.{slave.address.rpartition(':')[0]}:"
        rows = [value for key, value in master.runtime.items() if key.startswith(prefix)]
        stated = rows[0] if len(rows) == 1 else ""
    found = _LAG.search(stated)
    if found is None or found["state"] in JOINING:
        return _Late()
    return _Late(found["state"], float(found["seconds"]))
