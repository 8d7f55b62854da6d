"""mqadmin statsAll: rates and daily totals of every topic, by the groups that consume it."""

from __future__ import annotations

from contextlib import suppress

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import fixed, front, hash_order
from mqadmin.notes import note_unreadable
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.errors import RocketMQError
from mqcommon.names import is_of_a_group
from mqcommon.wire.bodies.groups import BrokerStatsData

Row = dict[str, object]
COLUMNS = (
    "topic", "group", "accumulation", "inTps", "outTps", "inMsg24Hour", "outMsg24Hour",
)  # fmt: skip


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask every topic's brokers in turn; unavailable figures stay zero, as in RocketMQ."""
    wanted = arguments.text("topic")
    rows: list[Row] = []
    for topic in hash_order(await admin.topics.names()):
        is_inner = is_of_a_group(topic)
        if not is_inner and (not wanted or topic == wanted):
            with suppress(RocketMQError):  # deleted meanwhile, or no broker has it
                rows += await _rows(admin, topic)
                await note_unreadable(admin, [topic])
    if arguments.flag("activeTopic"):
        rows = [row for row in rows if row["inMsg24Hour"] or row["outMsg24Hour"]]
    return Report(rows, lambda: _table(rows), columns=COLUMNS)


async def _rows(admin: Admin, topic: str) -> list[Row]:
    """A row for each group of a topic; one row without a group if the topic has no consumer."""
    route = await admin.topics.route(topic)
    masters = [data.master for data in route.broker_datas if data.master]
    groups = hash_order(await admin.topics.consumed_by(topic))
    in_tps, in_count = await _sums(admin, masters, "TOPIC_PUT_NUMS", topic)
    head: Row = {"topic": topic, "group": None, "accumulation": 0, "inTps": in_tps}
    if not groups:
        return [{**head, "outTps": None, "inMsg24Hour": in_count, "outMsg24Hour": None}]
    rows = []
    for group in groups:
        key = f"{topic}@{group}"
        out_tps, out_count = await _sums(admin, masters, "GROUP_GET_NUMS", key)
        row = {**head, "group": group, "accumulation": await _behind(admin, group, topic)}
        rows.append({**row, "outTps": out_tps, "inMsg24Hour": in_count, "outMsg24Hour": out_count})
    return rows


async def _sums(admin: Admin, masters: list[str], name: str, key: str) -> tuple[float, int]:
    """A statistic's rate and its count of a day, over all brokers that have it."""
    tps, count = 0.0, 0
    for address in masters:
        with suppress(RocketMQError):  # nothing was counted there
            stats = await admin.brokers.stats(address, name, key)
            tps += stats.stats_minute.tps
            count += _of_a_day(stats)
    return tps, count


def _of_a_day(stats: BrokerStatsData) -> int:
    """The sum of the longest period that has one yet."""
    return stats.stats_day.sum or stats.stats_hour.sum or stats.stats_minute.sum


async def _behind(admin: Admin, group: str, topic: str) -> int:
    with suppress(RocketMQError):  # the group was never online, or never committed
        offsets = (await admin.offsets.progress(group, topic)).offset_table.values()
        return max(sum(offset.broker_offset - offset.consumer_offset for offset in offsets), 0)
    return 0


def _table(rows: list[Row]) -> str:
    def line(topic: str, group: str, *numbers: str) -> str:
        widths = (12, 11, 11, 14, 14)
        cells = (f"{cell:>{width}}" for cell, width in zip(numbers, widths, strict=True))
        return " ".join([f"{topic:<64}  {group:<64}", *cells])

    titles = ("#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
    lines = [line("#Topic", "#Consumer Group", *titles)]
    for row in rows:
        topic, group, behind, in_tps, out_tps, in_count, out_count = row.values()
        lines.append(
            line(
                front(str(topic), 64),
                front(str(group or ""), 64),
                str(behind),
                _rate(in_tps),
                _rate(out_tps),
                str(in_count),
                "NO_CONSUMER" if group is None else str(out_count),
            )
        )
    return "\n".join(lines)


def _rate(value: object) -> str:
    return fixed(value, 2) if isinstance(value, float) else ""


STATS_ALL = Command(
    "statsAll",
    run,
    [
        Option("a", "activeTopic", "print active topic only", takes_value=False),
        Option("t", "topic", "print select topic only"),
    ],
)
