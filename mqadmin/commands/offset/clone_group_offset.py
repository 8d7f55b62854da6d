"""mqadmin cloneGroupOffset: give a group the offsets that another group has in a topic."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Commit the topic's offsets. RocketMQ's command copies the source's other topics too."""
    source, target = arguments.required("srcGroup"), arguments.required("destGroup")
    topic = arguments.required("topic")
    copied = await admin.resets.copy(source, target, topic)
    rows = [
        {
            "destGroup": target,
            "topic": topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "offset": offset,
        }
        for queue, offset in copied.items()
    ]
    return Report(
        rows,
        lambda: (
            f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"
        ),
        columns=("destGroup", "topic", "brokerName", "queueId", "offset"),
    )


async def effect(_admin: Admin, arguments: Arguments) -> str:
    """Whose offsets are overwritten."""
    source, target = arguments.required("srcGroup"), arguments.required("destGroup")
    topic = arguments.required("topic")
    return f"replace the offsets of group {target} in topic {topic} by those of group {source}"


CLONE_GROUP_OFFSET = Command(
    "cloneGroupOffset",
    run,
    [
        Option("s", "srcGroup", "set source consumer group", required=True),
        Option("d", "destGroup", "set destination consumer group", required=True),
        Option("t", "topic", "set the topic", required=True),
        Option("o", "offline", "the group or the topic is offline"),
    ],
    effect=effect,
)
