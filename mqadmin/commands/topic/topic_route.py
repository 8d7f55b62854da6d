"""mqadmin topicRoute: which brokers have a topic, with how many queues."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin
from mqcommon import fastjson
from mqcommon.wire.bodies.route import BrokerData, TopicRouteData

COLUMNS = ("cluster", "brokerName", "brokerAddrs", "readQueueNums", "writeQueueNums", "perm")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Show a topic's route."""
    route = await admin.topics.route(arguments.required("topic"))
    if arguments.flag("list"):
        return Report(_rows(route), lambda: _table(route), columns=COLUMNS)
    return Report(
        [route.to_plain()], lambda: fastjson.dumps(route.to_plain(), pretty=True), single=True
    )


def _rows(route: TopicRouteData) -> list[dict[str, object]]:
    brokers = {data.broker_name: data for data in route.broker_datas}
    return [
        {
            "cluster": _broker(brokers, queues.broker_name).cluster or "",
            "brokerName": queues.broker_name,
            "brokerAddrs": _broker(brokers, queues.broker_name).broker_addrs,
            "readQueueNums": queues.read_queue_nums,
            "writeQueueNums": queues.write_queue_nums,
            "perm": queues.perm,
        }
        for queues in sorted(route.queue_datas, key=lambda data: data.broker_name)
    ]


def _broker(brokers: dict[str, BrokerData], name: str) -> BrokerData:
    return brokers.get(name) or BrokerData(name)


def _table(route: TopicRouteData) -> str:
    def line(*cells: object) -> str:
        widths = (45, 32, 50, 10, 11, 5)
        return " ".join(f"{cell!s:<{width}}" for cell, width in zip(cells, widths, strict=True))

    titles = ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    lines = [line(*titles)]
    for row in _rows(route):
        *first, addresses, reads, writes, perm = row.values()
        lines.append(line(*first, _addresses(addresses), reads, writes, perm))
    queues = route.queue_datas
    reads, writes = sum(q.read_queue_nums for q in queues), sum(q.write_queue_nums for q in queues)
    names = {data.broker_name for data in queues}
    return "\n".join([*lines, "-" * 158, line("Total:", len(names), "", reads, writes, "")])


def _addresses(addresses: object) -> str:
    """A HashMap<Long, String> as Java prints it: {0=127.0.0.1:10911}."""
    assert isinstance(addresses, dict)
    return "{" + ", ".join(f"{key}={addresses[key]}" for key in sorted(addresses)) + "}"


TOPIC_ROUTE = Command(
    "topicRoute",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("l", "list", "Use list format to print data", takes_value=False),
    ],
)
