"""mqadmin clusterRT: how long sends to each broker take, round after round."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import hash_order
from mqadmin.report import Piece, Stream
from mqadmin.sending import average_text, padding, timed_send
from mqclient.admin import Admin
from mqclient.producer.producer import Producer
from mqcommon.message import Message

GROUP = "mqadmin_cluster_rt"
AMOUNT_DEFAULT, SIZE_DEFAULT, INTERVAL_DEFAULT_S = 100, 128, 10
CHINA = timezone(timedelta(hours=8))
"""The time zone of RocketMQ's log line."""
COLUMNS = ("timestamp", "cluster", "brokerName", "rt", "successCount", "failCount")


class Plan(NamedTuple):
    """The sends of a round. room: name of the machine room; None shows a table."""

    brokers: list[tuple[str, str]]
    amount: int
    size: int
    room: str | None


async def run(admin: Admin, arguments: Arguments) -> Stream:
    """Send messages to the topic of each broker's name, and repeat after the interval."""
    cluster = arguments.text("cluster")
    known = (await admin.brokers.clusters()).cluster_addr_table
    chosen = hash_order(known) if cluster is None else [cluster]
    brokers = [(one, name) for one in chosen for name in hash_order(await admin.brokers.names(one))]
    plan = Plan(
        brokers,
        arguments.number("amount", AMOUNT_DEFAULT),
        arguments.number("size", SIZE_DEFAULT),
        (arguments.text("machine_room") or "noname") if arguments.is_true("print_log") else None,
    )
    return Stream(_rounds(admin, plan, arguments.number("interval", INTERVAL_DEFAULT_S)), COLUMNS)


async def _rounds(admin: Admin, plan: Plan, interval_s: int) -> AsyncIterator[Piece]:
    if plan.room is None:
        titles = ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")
        yield Piece(_line((24, 24, 4, 8, 8), *titles))
    async with admin.producer(GROUP) as producer:
        while True:
            for cluster, broker in plan.brokers:
                yield await _measured(producer, plan, cluster, broker)
            await asyncio.sleep(interval_s)


async def _measured(producer: Producer, plan: Plan, cluster: str, broker: str) -> Piece:
    message = Message(broker, padding(plan.size))
    total_ms = failed = 0
    for number in range(plan.amount):
        sent = await timed_send(producer, message)
        failed += sent.result is None
        if number > 0:  # the first send opens the connection
            total_ms += sent.duration_ms
    rt = average_text(total_ms, plan.amount - 1)
    counts = (plan.amount - failed, failed)
    now = datetime.now(UTC)
    row: dict[str, object] = dict(zip(COLUMNS, (
        int(now.timestamp() * 1000), cluster, broker, None if rt == "NaN" else float(rt), *counts,
    ), strict=True))  # fmt: skip
    if plan.room is None:
        return Piece(_line((24, 24, 8, 16, 16), cluster, broker, rt, *counts), row)
    when = now.astimezone(CHINA).strftime("%Y-%m-%d %H:%M:%S")
    whole = rt if rt == "NaN" else Decimal(rt).quantize(Decimal(1), ROUND_HALF_UP)
    return Piece(f"{when}|{plan.room}|{cluster}|{broker}|{whole}", row)


def _line(widths: tuple[int, ...], *cells: object) -> str:
    return "  ".join(f"{cell!s:<{width}}" for cell, width in zip(cells, widths, strict=True))


CLUSTER_RT = Command(
    "clusterRT",
    run,
    [
        Option("a", "amount", "message amount | default 100"),
        Option("s", "size", "message size | default 128 Byte"),
        Option("c", "cluster", "cluster name | default display all cluster"),
        Option("p", "print log", "print as tlog | default false"),
        Option("m", "machine room", "machine room name | default noname"),
        Option("i", "interval", "print interval | default 10 seconds"),
    ],
)
