"""mqadmin consumerProgress: how far one group is in each queue, or all groups in short."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import fixed, front, hash_order, seconds_text
from mqadmin.notes import note_unreadable
from mqadmin.report import Report
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqclient.admin.versions import version_name
from mqcommon.message import MessageQueue
from mqcommon.names import is_of_a_group, retry_groups
from mqcommon.wire.bodies.groups import ConsumerConnection, ConsumeStats

GROUP_COLUMNS = ("group", "count", "version", "type", "model", "tps", "diffTotal")
QUEUE_COLUMNS = (
    "topic", "brokerName", "queueId", "brokerOffset", "consumerOffset", "diff", "lastTimestamp",
)  # fmt: skip
CONSUME_TYPES = {"CONSUME_ACTIVELY": "PULL", "CONSUME_PASSIVELY": "PUSH"}


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Show one group by queue, or every group in a line."""
    group = arguments.text("groupName")
    if group is None:
        return await _all_groups(admin)
    stats = await admin.offsets.progress(group)
    with_clients = arguments.is_true("showClientIP")
    unreached = Unreached()
    clients = await _clients(admin, group, unreached) if with_clients else None
    rows = _queue_rows(stats, clients)
    topics = {queue.topic for queue in stats.offset_table}
    await note_unreadable(admin, sorted(t for t in topics if not is_of_a_group(t)))
    columns = (*QUEUE_COLUMNS, "clientIP") if with_clients else QUEUE_COLUMNS
    return Report(
        [] if unreached.count else rows,
        lambda: _queue_table(rows, stats.consume_tps, with_clients),
        columns=columns,
        failure=unreached.failure,
    )


async def _all_groups(admin: Admin) -> Report:
    unreached = Unreached()
    rows, whole = [], []
    for name in await _groups(admin):
        failures = unreached.count
        rows.append(await _summary(admin, name, unreached))
        whole += rows[-1:] if unreached.count == failures else []
    return Report(
        whole, lambda: _groups_table(rows), columns=GROUP_COLUMNS, failure=unreached.failure
    )


async def _groups(admin: Admin) -> list[str]:
    """Groups in RocketMQ's order: the order of their retry topics among all topics."""
    return retry_groups(hash_order(await admin.topics.names()))


async def _clients(admin: Admin, group: str, unreached: Unreached) -> dict[MessageQueue, str]:
    """The address of the member that has each queue, if the members answer."""
    found: dict[MessageQueue, str] = {}
    with unreached.passed_over():
        for member in (await admin.groups.connection(group)).connection_set:
            info = await admin.groups.running_info(group, member.client_id)
            found |= dict.fromkeys(info.mq_table, member.client_id.partition("@")[0])
    return found


def _queue_rows(
    stats: ConsumeStats, clients: dict[MessageQueue, str] | None
) -> list[dict[str, object]]:
    rows = []
    for queue, offset in sorted(stats.offset_table.items()):
        row: dict[str, object] = {
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "brokerOffset": offset.broker_offset,
            "consumerOffset": offset.consumer_offset,
            "diff": offset.broker_offset - offset.consumer_offset,
            "lastTimestamp": offset.last_timestamp,
        }
        rows.append(row if clients is None else {**row, "clientIP": clients.get(queue)})
    return rows


def _queue_table(rows: list[dict[str, object]], tps: float, with_clients: bool) -> str:
    def line(
        topic: object, broker: object, queue: object, *cells: object, client: object = None
    ) -> str:
        at, committed, diff, last = (f"{cell!s:<20}" for cell in cells)
        head = f"{topic!s:<64}  {broker!s:<32}  {queue!s:<4}  {at}  {committed}  "
        who = f"{client!s:<20} " if with_clients else ""  # RocketMQ has one blank here, not two
        return f"{head}{who}{diff}  {last.rstrip()}"

    titles = ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff")
    lines = [line(*titles, "#LastTime", client="#Client IP")]
    for row in rows:
        names = ("queueId", "brokerOffset", "consumerOffset", "diff")
        lines.append(
            line(
                front(str(row["topic"]), 64),
                front(str(row["brokerName"]), 32),
                *(row[name] for name in names),
                _time(row["lastTimestamp"]),
                client=row.get("clientIP") or "N/A",
            )
        )
    total = sum(int(str(row["diff"])) for row in rows)
    return "\n".join([*lines, "", f"Consume TPS: {fixed(tps, 2)}", f"Diff Total: {total}"])


def _time(timestamp_ms: object) -> str:
    assert isinstance(timestamp_ms, int)
    return seconds_text(timestamp_ms) if timestamp_ms else "N/A"


async def _summary(admin: Admin, group: str, unreached: Unreached) -> dict[str, object]:
    """One group in short; unavailable figures stay zero, as in RocketMQ."""
    stats, connection = ConsumeStats(), ConsumerConnection()
    with unreached.passed_over():
        stats = await admin.offsets.progress(group)
    with unreached.passed_over():
        connection = await admin.groups.connection(group)
    members = connection.connection_set
    offsets = stats.offset_table.values()
    return {
        "group": group,
        "count": len(members),
        "version": version_name(min(m.version for m in members)) if members else "OFFLINE",
        "type": CONSUME_TYPES.get(connection.consume_type or "", ""),
        "model": (connection.message_model or "") if members else "",
        "tps": int(stats.consume_tps),
        "diffTotal": sum(offset.broker_offset - offset.consumer_offset for offset in offsets),
    }


def _groups_table(rows: list[dict[str, object]]) -> str:
    def line(*cells: object) -> str:
        group, count, version, kind, model, tps, diff = map(str, cells)
        head = f"{front(group, 64):<64}  {count:<6}  {version:<24} {kind:<5}"
        return f"{head}  {model:<14}  {tps:<7}  {diff}"

    titles = ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    return "\n".join([line(*titles), *(line(*row.values()) for row in rows)])


CONSUMER_PROGRESS = Command(
    "consumerProgress",
    run,
    [
        Option("g", "groupName", "consumer group name"),
        Option("s", "showClientIP", "Show Client IP per Queue"),
    ],
)
