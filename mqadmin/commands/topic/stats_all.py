"""mqadmin statsAll: rates and daily totals of every topic, by the groups that consume it."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import fixed, front, hash_order
from mqadmin.notes import note_unreadable
from mqadmin.report import Report
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqcommon.names import is_of_a_group

Row = dict[str, object]
COLUMNS = (
    "topic", "group", "accumulation", "inTps", "outTps", "inMsg24Hour", "outMsg24Hour",
)  # fmt: skip


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask every topic's brokers in turn; unavailable figures stay zero, as in RocketMQ."""
    wanted = arguments.text("topic")
    unreached = Unreached()
    rows: list[Row] = []
    whole: list[Row] = []
    for topic in hash_order(await admin.topics.names()):
        is_inner = is_of_a_group(topic)
        if not is_inner and (not wanted or topic == wanted):
            failures = unreached.count
            found: list[Row] = []
            with unreached.passed_over():
                found = await _rows(admin, topic, unreached)
                await note_unreadable(admin, [topic])
            if arguments.flag("activeTopic"):
                found = [row for row in found if row["inMsg24Hour"] or row["outMsg24Hour"]]
            rows += found
            whole += found if unreached.count == failures else []
    return Report(whole, lambda: _table(rows), columns=COLUMNS, failure=unreached.failure)


async def _rows(admin: Admin, topic: str, unreached: Unreached) -> list[Row]:
    """A row for each group of a topic; one row without a group if the topic has no consumer."""
    route = await admin.topics.route(topic)
    masters = [data.master for data in route.broker_datas if data.master]
    groups = hash_order(await admin.topics.consumed_by(topic))
    in_tps, in_count = await _sums(admin, masters, ("TOPIC_PUT_NUMS", topic), unreached)
    head: Row = {"topic": topic, "group": None, "accumulation": 0, "inTps": in_tps}
    if not groups:
        return [{**head, "outTps": None, "inMsg24Hour": in_count, "outMsg24Hour": None}]
    rows = []
    for group in groups:
        item = ("GROUP_GET_NUMS", f"{topic}@{group}")
        out_tps, out_count = await _sums(admin, masters, item, unreached)
        behind = await _behind(admin, group, topic, unreached)
        row = {**head, "group": group, "accumulation": behind}
        rows.append({**row, "outTps": out_tps, "inMsg24Hour": in_count, "outMsg24Hour": out_count})
    return rows


async def _sums(
    admin: Admin, masters: list[str], item: tuple[str, str], unreached: Unreached
) -> tuple[float, int]:
    """A statistic's rate and its count of a day, over all brokers that have it.

    item: the statistic's name and key.
    """
    tps, count = 0.0, 0
    for address in masters:
        with unreached.passed_over():  # a broker that counted nothing answers with an error
            stats = await admin.brokers.stats(address, *item)
            tps += stats.stats_minute.tps
            count += stats.sum_of_a_day
    return tps, count


async def _behind(admin: Admin, group: str, topic: str, unreached: Unreached) -> int:
    with unreached.passed_over():  # a group that never committed is an error
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
