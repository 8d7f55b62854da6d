"""mqadmin updateTopicPerm: change whether a topic can be read and written."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.commands.topic.update_topic import config_text
from mqadmin.report import Report
from mqadmin.targets import where
from mqclient.admin import Admin
from mqcommon.wire.bodies.route import TopicRouteData
from mqcommon.wire.bodies.topics import TopicConfig

SAME = "new perm equals to the old one!"
NO_MASTER = "updateTopicPerm error broker not exit or broker is not master!."


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Change the permission on one broker, or on every master of a cluster."""
    topic, perm = arguments.required("topic"), arguments.number("perm", 0)
    chosen = where(arguments)
    route = await admin.topics.route(topic)
    first = route.queue_datas[0]
    config = TopicConfig(
        topic,
        read_queue_nums=first.read_queue_nums,
        write_queue_nums=first.write_queue_nums,
        perm=perm,
        topic_sys_flag=first.topic_sys_flag,
    )
    if chosen["broker"]:
        return await _on_broker(admin, chosen["broker"], route, config)
    addresses = await admin.topics.update(config, **chosen)
    rows = [_row(address, config, first.perm) for address in addresses]
    return Report(rows, lambda: "\n".join(map(_line, rows)))


async def _on_broker(
    admin: Admin, broker: str, route: TopicRouteData, config: TopicConfig
) -> Report:
    names = [data.broker_name for data in route.broker_datas if data.master == broker]
    if not names:
        return Report([], lambda: NO_MASTER)
    old = next(data.perm for data in route.queue_datas if data.broker_name == names[0])
    if old == config.perm:
        return Report([], lambda: SAME)
    await admin.topics.update(config, broker=broker)
    row = _row(broker, config, old)
    return Report([row], lambda: f"{_line(row)}\n{config_text(config)}.")


def _row(address: str, config: TopicConfig, old: int) -> dict[str, object]:
    return {
        "brokerAddr": address,
        "topic": config.topic_name,
        "oldPerm": old,
        "perm": config.perm,
    }


def _line(row: dict[str, object]) -> str:
    return (
        f"update topic perm from {row['oldPerm']} to {row['perm']} in {row['brokerAddr']} success."
    )


UPDATE_TOPIC_PERM = Command(
    "updateTopicPerm",
    run,
    [
        Option("b", "brokerAddr", "create topic to which broker"),
        Option("c", "clusterName", "create topic to which cluster"),
        Option("t", "topic", "topic name", required=True),
        Option("p", "perm", "set topic's permission(2|4|6), intro[2:W; 4:R; 6:RW]", required=True),
    ],
)
