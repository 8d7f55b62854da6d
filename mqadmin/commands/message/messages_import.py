"""mqadmin messages import: send the messages that `messages export` printed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.confirmation import DRY_RUN
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.cli.send_file import COLUMNS, Counts, Resend, resend
from mqclient.producer.copies import copy_of
from mqcommon.cli.running import refusing_arguments

IMPORT_GROUP = "mqadmin_import"


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Send the messages, or check the file."""
    plan = _plan(arguments)
    if arguments.flag(DRY_RUN.long):
        topics = _topics(plan)
        left_out = topics.pop(None, 0)
        counts = Counts(read=left_out + topics.total(), left_out=left_out)
    else:
        producer = admin.producer(IMPORT_GROUP)
        counts = await resend(plan, producer, "mqadmin messages import")
    return Report([counts.row(plan)], columns=COLUMNS)


def _plan(arguments: Arguments) -> Resend:
    skip = arguments.number("skip", 0)
    if skip < 0:
        raise UsageError(f"--skip must not be negative, not {skip}")
    return Resend(
        path=Path(arguments.required("file")),
        topic=arguments.text("topic"),
        keep_queue=arguments.flag("keep-queue"),
        skip=skip,
        count=arguments.count("count"),
    )


def _topics(plan: Resend) -> Counter[str | None]:
    """The number of messages for each topic; None for those that RocketMQ keeps for itself."""
    with refusing_arguments():
        copies = (copy_of(message, plan.topic)[0] for message in plan.messages(None))
        return Counter(None if copy is None else copy.topic for copy in copies)


async def effect(_admin: Admin, arguments: Arguments) -> str:
    """The number of messages that each topic gets."""
    topics = _topics(_plan(arguments))
    topics.pop(None, 0)
    shown = ", ".join(f"{count} to topic {topic}" for topic, count in topics.items())
    return f"send {topics.total()} messages: {shown or 'none'}; consumers of the topics get them"


MESSAGES_IMPORT = Command(
    "messages import",
    run,
    [
        Option("f", "file", "File of messages export or mqstore export", required=True),
        Option("t", "topic", "Topic for all messages; their original topics without it"),
        Option("", "keep-queue", "Send to the original queue ids", takes_value=False),
        Option("", "skip", "Leave out this many messages at the start of the file"),
        Option("", "count", "At most this many messages; all without it"),
        DRY_RUN,
    ],
    effect=effect,
    description="Send the messages that messages export printed",
)
