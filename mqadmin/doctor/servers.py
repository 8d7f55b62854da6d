"""Checks of NameServers and brokers: reachable, agreeing, in time, with disk and replicas."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Collection, Iterator

from mqadmin.doctor.facts import BrokerFacts, Facts
from mqadmin.doctor.findings import Finding
from mqadmin.doctor.replicas import check_replicas
from mqclient.errors import ClientTimeout, UnreachableError
from mqcommon.wire.bodies.route import ClusterInfo

__all__ = ["check_servers"]

CLOCK_WARNING_S = 1.0
CLOCK_ERROR_S = 60.0
DISK_WARNING_PERCENT = 75
"""RocketMQ deletes old files early above diskMaxUsedSpaceRatio, 75 by default."""
DISK_ERROR_PERCENT = 90
"""RocketMQ refuses sends above diskSpaceWarningLevelRatio, 90 by default."""
QUEUE_WAIT_WARNING_MS = 200
"""RocketMQ answers "system busy" to a send that waited longer (waitTimeMillsInSendQueue)."""
_RUNTIME = re.compile(r"(\d+) days?, (\d+) hours?, (\d+) minutes?, (\d+) seconds?")


def check_servers(facts: Facts, expected: Collection[str] = ()) -> Iterator[Finding]:
    """All findings about servers. expected: names of brokers that must be registered."""
    yield from _namesrvs(facts)
    yield from _missing(facts, expected)
    yield from _masters(facts)
    for broker in facts.brokers:
        if broker.failure is not None:
            yield _unreachable(broker)
            continue
        yield from _address(facts, broker)
        yield from _clock(broker)
        yield from _disk(broker)
        yield from _permission(broker)
        yield from _load(broker)
    yield from _versions(facts)
    yield from check_replicas(facts)


def _namesrvs(facts: Facts) -> Iterator[Finding]:
    known = {(broker.name, broker.broker_id) for broker in facts.brokers}
    for address, view in facts.namesrvs.items():
        subject = f"NameServer {address}"
        if not isinstance(view, ClusterInfo):
            advice = "start it, or take it out of the address; clients wait for it before the next"
            yield Finding("error", "namesrv.unreachable", subject, f"no answer: {view}", advice)
            continue
        here = {
            (name, broker_id)
            for name, data in view.broker_addr_table.items()
            for broker_id in data.broker_addrs
        }
        if lacking := sorted(known - here):
            names = ", ".join(f"{name} {broker_id}" for name, broker_id in lacking)
            yield Finding(
                "warning", "namesrv.disagree", subject,
                f"does not know {len(lacking)} brokers that others know: {names}",
                "list every NameServer in namesrvAddr of these brokers",
                len(lacking), "brokers",
            )  # fmt: skip


def _missing(facts: Facts, expected: Collection[str]) -> Iterator[Finding]:
    """Brokers that are down, or were never started: NameServers forget a broker that goes away."""
    for name in sorted({*expected} - {broker.name for broker in facts.brokers}):
        yield Finding(
            "error", "broker.missing", f"broker {name}", "is registered at no NameServer",
            "start it; if it runs, look at its namesrvAddr and its log",
        )  # fmt: skip


def _unreachable(broker: BrokerFacts) -> Finding:
    refused = isinstance(broker.failure, UnreachableError | ClientTimeout)
    return Finding(
        "error", "broker.unreachable", broker.subject,
        f"{'no answer' if refused else 'unusable answer'} at its advertised address: "
        f"{broker.failure}",
        "start it; if it runs, set brokerIP1 to an address that its clients reach, open the port, "
        "or give --address-map",
    )  # fmt: skip


def _masters(facts: Facts) -> Iterator[Finding]:
    names = {broker.name for broker in facts.brokers}
    for name in sorted(names - {broker.name for broker in facts.brokers if broker.is_master}):
        yield Finding(
            "error", "broker.master", f"broker {name}",
            "has slaves and no master: nothing can be sent to it",
            "start the master, brokerId 0",
        )  # fmt: skip


def _address(facts: Facts, broker: BrokerFacts) -> Iterator[Finding]:
    """A loopback address is fine only where everything runs on one machine."""
    if _is_loopback(broker.address) and not all(map(_is_loopback, facts.namesrvs)):
        yield Finding(
            "warning", "broker.address", broker.subject,
            "advertises a loopback address, which no other machine can reach",
            "set brokerIP1 to the broker's address in the network",
        )  # fmt: skip


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _clock(broker: BrokerFacts) -> Iterator[Finding]:
    """The broker's clock is its start plus its age, which has whole seconds."""
    age, boot_ms = (
        _RUNTIME.search(broker.runtime.get("runtime", "")),
        broker.number("bootTimestamp"),
    )
    if age is None or boot_ms is None:
        return
    days, hours, minutes, seconds = map(int, age.groups())
    least_ms = boot_ms + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    ahead_s = (least_ms - broker.answered_ms) / 1000
    late_s = (broker.asked_ms - (least_ms + 1000)) / 1000
    skew_s = max(ahead_s, late_s)
    if skew_s > CLOCK_WARNING_S:
        direction = "ahead of" if ahead_s > late_s else "behind"
        yield Finding(
            "error" if skew_s > CLOCK_ERROR_S else "warning", "broker.clock", broker.subject,
            f"its clock is {skew_s:.0f} s {direction} this machine's; times of messages, delays "
            "and retention follow the broker's clock",
            "synchronise both clocks, for example with chrony",
            round(skew_s, 1), "s",
        )  # fmt: skip


def _disk(broker: BrokerFacts) -> Iterator[Finding]:
    ratios = {
        "commit log": broker.number("commitLogDiskRatio"),
        "consume queues": broker.number("consumeQueueDiskRatio"),
    }
    for what, ratio in ratios.items():
        percent = 100 * (ratio or 0.0)
        limit = float(broker.config.get("diskMaxUsedSpaceRatio") or DISK_WARNING_PERCENT)
        if percent < min(limit, DISK_ERROR_PERCENT):
            continue
        is_full = percent >= DISK_ERROR_PERCENT
        effect = "sends are refused" if is_full else "old messages are deleted before their time"
        yield Finding(
            "error" if is_full else "warning", "broker.disk", broker.subject,
            f"the disk of the {what} is {percent:.0f} % full: {effect}",
            "add disk space, or lower fileReservedTime and run mqadmin deleteExpiredCommitLog "
            f"-b {broker.address}",
            round(percent, 1), "%",
        )  # fmt: skip


def _permission(broker: BrokerFacts) -> Iterator[Finding]:
    permission = broker.config.get("brokerPermission", "")
    if permission.isdigit() and int(permission) & 6 != 6:
        lacking = " and ".join(
            word for bit, word in ((4, "read"), (2, "write")) if not int(permission) & bit
        )
        yield Finding(
            "warning", "broker.permission", broker.subject,
            f"brokerPermission is {permission}: clients may not {lacking}",
            f"after maintenance: mqadmin updateBrokerConfig -b {broker.address} "
            "-k brokerPermission -v 6",
            int(permission),
        )  # fmt: skip


def _load(broker: BrokerFacts) -> Iterator[Finding]:
    wait_ms = broker.number("sendThreadPoolQueueHeadWaitTimeMills") or 0
    if wait_ms >= QUEUE_WAIT_WARNING_MS:
        yield Finding(
            "warning", "broker.busy", broker.subject,
            f"a send has waited for {wait_ms:.0f} ms; the broker refuses sends that wait too long",
            "look at the disk's latency, spread topics over more brokers, or add some",
            wait_ms, "ms",
        )  # fmt: skip


def _versions(facts: Facts) -> Iterator[Finding]:
    by_version: dict[str, list[str]] = defaultdict(list)
    for broker in facts.living:
        if version := broker.runtime.get("brokerVersionDesc"):
            by_version[version].append(f"{broker.name} {broker.broker_id}")
    if len(by_version) > 1:
        shown = "; ".join(f"{v}: {', '.join(names)}" for v, names in sorted(by_version.items()))
        yield Finding(
            "warning", "broker.version", "brokers", f"they run different versions: {shown}",
            "end the upgrade: newer features fail at the older brokers",
            len(by_version), "versions",
        )  # fmt: skip
