"""mqadmin queryCq: entries of a consume queue, with the result of a group's filter."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import java_value
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.errors import RocketMQError
from mqcommon import fastjson
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.running import ConsumeQueueData, QueryConsumeQueueResponseBody

COUNT_DEFAULT = 10
RULE = "=" * 38
COLUMNS = (
    "index", "physicOffset", "physicSize", "tagsCode", "extendDataJson", "bitMap", "eval", "msg",
)  # fmt: skip


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask one broker: the given one, else the first of the topic."""
    topic, index = arguments.required("topic"), arguments.number("index", 0)
    address = arguments.text("broker") or await _first_master(admin, topic)
    found = await admin.brokers.consume_queue(
        address,
        MessageQueue(topic, "", arguments.number("queue", 0)),
        index,
        arguments.number("count", COUNT_DEFAULT),
        group=arguments.text("consumer"),
    )
    rows = [
        {**dict.fromkeys(COLUMNS), "index": number, **entry.to_plain()}
        for number, entry in enumerate(found.queue_data, index)
    ]
    return Report(rows, lambda: _text(found, index), columns=COLUMNS)


async def _first_master(admin: Admin, topic: str) -> str:
    data = (await admin.topics.route(topic)).broker_datas[0]
    if data.master is None:
        raise RocketMQError(f"broker {data.broker_name!r} has no master now; name one with -b")
    return data.master


def _text(found: QueryConsumeQueueResponseBody, index: int) -> str:
    parts = []
    if found.subscription_data is not None:
        plain = found.subscription_data.to_plain()
        sets = {name: tuple(value) if isinstance(value, list) else value
                for name, value in plain.items()}  # fmt: skip
        shown = fastjson.dumps(sets, pretty=True)
        parts.append(f"Subscription data: \n{shown}\n")
    if found.filter_data is not None:
        parts.append(f"Filter data: \n{found.filter_data}\n")
    parts.append(f"Queue data: \nmax: {found.max_queue_index}, min: {found.min_queue_index}\n")
    parts += [
        f"idx: {number}\n{_entry_text(entry)}\n"
        for number, entry in enumerate(found.queue_data, index)
    ]
    return "".join(f"{part}{RULE}\n" for part in parts)


def _entry_text(entry: ConsumeQueueData) -> str:
    """`ConsumeQueueData.toString`."""
    texts = (entry.extend_data_json, entry.bit_map, entry.msg)
    extension, bits, message = map(java_value, texts)
    return (
        f"ConsumeQueueData{{physicOffset={entry.physic_offset}, physicSize={entry.physic_size}, "
        f"tagsCode={entry.tags_code}, extendDataJson='{extension}', bitMap='{bits}', "
        f"eval={java_value(entry.eval)}, msg='{message}'}}"
    )


QUERY_CQ = Command(
    "queryCq",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("q", "queue", "queue num, ie. 1", required=True),
        Option("i", "index", "start queue index.", required=True),
        Option("c", "count", "how many."),
        Option("b", "broker", "broker addr."),
        Option("g", "consumer", "consumer group."),
    ],
)
