"""mqadmin sendMessage: send one message."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.report import Report
from mqadmin.sending import SEND_COLUMNS
from mqclient.admin import Admin
from mqclient.cli.send_row import send_row
from mqclient.producer.results import SendResult
from mqcommon.cli.running import refusing_arguments
from mqcommon.message import Message, MessageQueue

GROUP = "mqadmin_send_message"


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Send the message, to one queue if -b and -i are given."""
    topic, broker = arguments.required("topic"), arguments.text("broker")
    queue_id = arguments.number("qid", -1)
    if arguments.text("qid") is not None and not broker:
        raise UsageError("Broker name must be set if the queue is chosen!")
    queue = MessageQueue(topic, broker, queue_id) if broker and queue_id >= 0 else None
    with refusing_arguments():
        message = Message(
            topic,
            (arguments.text("body") or "").encode(),
            tags=arguments.text("tags"),
            keys=arguments.text("key"),
        )
    async with admin.producer(GROUP, trace=arguments.is_true("msgTraceEnable")) as producer:
        with refusing_arguments():
            result = await producer.send(message, queue=queue)
    return Report([send_row(result)], lambda: _table(result), single=True, columns=SEND_COLUMNS)


def _table(result: SendResult) -> str:
    def line(broker: str, queue: object, status: str, msg_id: str) -> str:
        return f"{broker:<32}  {queue!s:<4}  {status:<20}    {msg_id}"

    queue = result.message_queue
    return "\n".join(
        [
            line("#Broker Name", "#QID", "#Send Result", "#MsgId"),
            line(queue.broker_name, queue.queue_id, str(result.status), ",".join(result.msg_ids)),
        ]
    )


SEND_MESSAGE = Command(
    "sendMessage",
    run,
    [
        Option("t", "topic", "Topic name", required=True),
        Option("p", "body", "UTF-8 string format of the message body", required=True),
        Option("k", "key", "Message keys"),
        Option("c", "tags", "Message tags"),
        Option("b", "broker", "Send message to target broker"),
        Option("i", "qid", "Send message to target queue"),
        Option("m", "msgTraceEnable", "Message Trace Enable, Default: false"),
    ],
)
