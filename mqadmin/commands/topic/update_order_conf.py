"""mqadmin updateOrderConf: the queues of an ordered topic, as the NameServers keep them."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.errors import RocketMQError
from mqcommon.wire.calls.topic_calls import ORDER_NAMESPACE


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Get, put or delete the value."""
    topic, method = arguments.required("topic"), arguments.required("method")
    if method == "get":
        value = await admin.namesrv.kv(ORDER_NAMESPACE, topic)
        if value is None:
            raise RocketMQError(
                f"topic {topic!r} has no order configuration; set one: "
                f"mqadmin updateOrderConf -t {topic} -m put -v BROKER_NAME:QUEUES"
            )
        return _report(
            topic, value, f"get orderConf success. topic=[{topic}], orderConf=[{value}] "
        )
    if method == "put":
        value = arguments.required("orderConf")
        await admin.namesrv.put_kv(ORDER_NAMESPACE, topic, value)
        text = f"update orderConf success. topic=[{topic}], orderConf=[{value}]"
        return _report(topic, value, text)
    if method == "delete":
        await admin.namesrv.delete_kv(ORDER_NAMESPACE, topic)
        return _report(topic, None, f"delete orderConf success. topic=[{topic}]")
    raise UsageError(f"--method must be get, put or delete, not {method!r}")


def _report(topic: str, value: str | None, text: str) -> Report:
    return Report([{"topic": topic, "orderConf": value}], lambda: text, single=True)


UPDATE_ORDER_CONF = Command(
    "updateOrderConf",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("v", "orderConf", "set order conf [eg. brokerName1:num;brokerName2:num]"),
        Option("m", "method", "option type [eg. put|get|delete", required=True),
    ],
)
