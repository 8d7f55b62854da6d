"""mqadmin resetOffsetByTime: move a group to the messages of a time."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.java_text import java_value, parse_time_ms
from mqadmin.report import Report
from mqadmin.resetting import effect_of, is_forced, move, report
from mqclient.admin import Admin
from mqclient.admin.resets import END_MS


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Move the group."""
    to_ms = time_of(arguments.required("timestamp"))
    moved = await move(admin, arguments, to_ms)
    group, topic = arguments.required("group"), arguments.required("topic")
    force = java_value(is_forced(arguments))
    rest = (
        f"[{group}], topic[{topic}], force[{force}], "
        f"timestamp(string)[{arguments.text('timestamp')}], timestamp(long)[{to_ms}]\n"
    )
    head = "rollback consumer offset by specified"
    return report(moved, (f"{head} group{rest}", f"{head} consumerGroup{rest}"))


def time_of(text: str) -> int:
    """A time in milliseconds: now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS."""
    if text == "now":
        return END_MS
    try:
        to_ms = parse_time_ms(text)
    except ValueError:
        raise UsageError(
            f"--timestamp must be now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS, "
            f"not {text!r}"
        ) from None
    if to_ms < END_MS:
        raise UsageError(f"--timestamp must not be before 1970: {text}")
    return to_ms


async def effect(admin: Admin, arguments: Arguments) -> str:
    """The messages that the reset skips and repeats."""
    return await effect_of(admin, arguments, time_of(arguments.required("timestamp")))


RESET_OFFSET_BY_TIME = Command(
    "resetOffsetByTime",
    run,
    [
        Option("g", "group", "set the consumer group", required=True),
        Option("t", "topic", "set the topic", required=True),
        Option(
            "s",
            "timestamp",
            "set the timestamp[now|currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]",
            required=True,
        ),
        Option("f", "force", "set the force rollback by timestamp switch[true|false]"),
        Option("c", "cplus", "reset c++ client offset", takes_value=False),
    ],
    effect=effect,
)
