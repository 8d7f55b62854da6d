"""mqadmin updateTopic: create or change a topic on a broker or on a whole cluster."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import java_object, perm_text
from mqadmin.report import Report
from mqadmin.targets import where
from mqclient.admin import Admin
from mqcommon.wire.bodies.topics import TopicConfig

QUEUES_DEFAULT = 8
PERM_DEFAULT = 6
UNIT_FLAG, UNIT_SUB_FLAG = 1, 2


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Create or change the topic, and register its order when it is ordered."""
    config = _config(arguments)
    chosen = where(arguments)
    broker, cluster = chosen["broker"], chosen["cluster"]
    addresses = await admin.topics.update(config, **chosen)
    order_line = ""
    if config.order and broker:
        queues = await admin.topics.add_to_order(config, await admin.brokers.name_of(broker))
        order_line = f"set broker orderConf. isOrder=true, orderConf=[{queues}]"
    elif config.order and cluster:
        queues = await admin.topics.update_order(config, await admin.brokers.names(cluster))
        order_line = f"set cluster orderConf. isOrder=true, orderConf=[{queues}]"
    rows = [{"brokerAddr": address, **config.to_plain()} for address in addresses]
    return Report(rows, lambda: _table(addresses, config, order_line, bool(broker)))


def _config(arguments: Arguments) -> TopicConfig:
    unit = UNIT_FLAG if arguments.is_true("unit") else 0
    unit_sub = UNIT_SUB_FLAG if arguments.is_true("hasUnitSub") else 0
    return TopicConfig(
        arguments.required("topic"),
        read_queue_nums=arguments.number("readQueueNums", QUEUES_DEFAULT),
        write_queue_nums=arguments.number("writeQueueNums", QUEUES_DEFAULT),
        perm=arguments.number("perm", PERM_DEFAULT),
        topic_sys_flag=unit | unit_sub,
        order=arguments.is_true("order"),
    )


def _table(addresses: list[str], config: TopicConfig, order_line: str, one_broker: bool) -> str:
    """RocketMQ's lines; it says the order before the success of one broker, else after."""
    created = "".join(f"create topic to {address} success.\n" for address in addresses)
    told = order_line + created if one_broker else created + order_line
    return told + config_text(config)


def config_text(config: TopicConfig) -> str:
    """`TopicConfig.toString`."""
    fields = {
        "topicName": config.topic_name,
        "readQueueNums": config.read_queue_nums,
        "writeQueueNums": config.write_queue_nums,
        "perm": perm_text(config.perm),
        "topicFilterType": config.topic_filter_type,
        "topicSysFlag": config.topic_sys_flag,
        "order": config.order,
    }
    return java_object("TopicConfig", fields)


UPDATE_TOPIC = Command(
    "updateTopic",
    run,
    [
        Option("b", "brokerAddr", "create topic to which broker"),
        Option("c", "clusterName", "create topic to which cluster"),
        Option("t", "topic", "topic name", required=True),
        Option("r", "readQueueNums", "set read queue nums"),
        Option("w", "writeQueueNums", "set write queue nums"),
        Option("p", "perm", "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"),
        Option("o", "order", "set topic's order(true|false)"),
        Option("u", "unit", "is unit topic (true|false)"),
        Option("s", "hasUnitSub", "has unit sub (true|false)"),
    ],
    either=("b", "c"),
)
