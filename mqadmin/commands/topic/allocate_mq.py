"""mqadmin allocateMQ: which client of a group would read which queue of a topic."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.java_text import hash_order
from mqadmin.queue_reading import readable_queues
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.consumer.allocation import averagely
from mqcommon import fastjson
from mqcommon.message import MessageQueue

COLUMNS = ("client", "topic", "brokerName", "queueId")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Allocate the queues by RocketMQ's usual strategy, AVG."""
    topic = arguments.required("topic")
    clients = [word.strip() for word in arguments.required("ipList").split(",") if word.strip()]
    if not clients:
        raise UsageError("--ipList names no client: give -i IP,IP,...")
    queues = await readable_queues(admin, topic)
    shares = {client: averagely(client, queues, clients) for client in clients}
    rows = [
        {"client": client, "topic": topic, "brokerName": q.broker_name, "queueId": q.queue_id}
        for client, share in shares.items()
        for q in share
    ]
    return Report(rows, lambda: _text(shares), columns=COLUMNS)


def _text(shares: dict[str, list[MessageQueue]]) -> str:
    """The JSON of a HashMap: its keys are in hash order."""

    def of_queue(queue: MessageQueue) -> str:
        values = {
            "brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic
        }  # fmt: skip
        return fastjson.dumps(values)

    parts = (
        f"{fastjson.dumps(client)}:[{','.join(map(of_queue, shares[client]))}]"
        for client in hash_order(shares)
    )
    return f'{{"result":{{{",".join(parts)}}}}}'


ALLOCATE_MQ = Command(
    "allocateMQ",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("i", "ipList", "ipList", required=True),
    ],
)
