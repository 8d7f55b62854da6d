"""Shared by the commands `offsets`: targets of a move, and plans as rows and as text."""

from __future__ import annotations

from mqadmin.command import Arguments, Option, UsageError
from mqadmin.java_text import millis_text, milliseconds_of
from mqadmin.places import time_of
from mqadmin.report import Report, Row
from mqclient.admin import Admin, OffsetChange, OffsetPlan, ShiftBy, ToOffset
from mqclient.admin.plans import Target
from mqcommon.message import MessageQueue

GROUP = Option("g", "group", "Consumer group", required=True)
TARGETS = "earliest, latest, offset:N, time:WHEN or shift-by:N"
COLUMNS = (
    "group", "topic", "brokerName", "queueId", "minOffset", "maxOffset", "before", "after",
    "skipped", "repeated",
)  # fmt: skip
_SHOWN_MAX = 8
"""Most queues that a confirmation lists."""


def target_of(text: str) -> Target:
    """The target of --to; raises UsageError."""
    kind, _, value = text.partition(":")
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if kind == "time" and value:
        return time_of(value)
    try:
        if kind == "offset":
            return ToOffset(int(value))
        if kind == "shift-by":
            return ShiftBy(int(value))
    except ValueError:
        raise UsageError(f"--to {text}: {value!r} is not a whole number") from None
    raise UsageError(f"--to must be {TARGETS}, not {text!r}")


def target_text(target: Target) -> str:
    """A target in words."""
    if isinstance(target, str):
        return "the start" if target == "earliest" else "the end"
    if isinstance(target, ToOffset):
        return f"offset {target.offset}"
    if isinstance(target, ShiftBy):
        direction = "forward" if target.count >= 0 else "back"
        return f"a place {abs(target.count)} messages {direction} in each queue"
    return f"the time {millis_text(milliseconds_of(target))}"


def plan_text(plan: OffsetPlan, verb: str) -> str:
    """The effect of a plan, with the offsets of the first queues."""
    shown = [_change_text(change) for change in plan.changes[:_SHOWN_MAX]]
    more = len(plan.changes) - len(shown)
    queues = ", ".join([*shown, f"and {more} queues more"] if more > 0 else shown)
    return (
        f"{verb}: {plan.skipped} messages are skipped, {plan.repeated} are consumed again\n"
        f"({queues})"
    )


def _change_text(change: OffsetChange) -> str:
    before = "none" if change.before is None else change.before
    return f"{change.queue.broker_name}:{change.queue.queue_id} {before} -> {change.after}"


def rows_of(plan: OffsetPlan, moved: dict[MessageQueue, int] | None = None) -> list[Row]:
    """A plan's rows. moved: the offsets that were set, if the plan was carried out."""
    return [
        {
            "group": plan.group,
            "topic": plan.topic,
            "brokerName": change.queue.broker_name,
            "queueId": change.queue.queue_id,
            "minOffset": change.minimum,
            "maxOffset": change.maximum,
            "before": change.before,
            "after": change.after if moved is None else moved.get(change.queue, change.after),
            "skipped": change.skipped,
            "repeated": change.repeated,
        }
        for change in plan.changes
    ]


async def carried_out(admin: Admin, arguments: Arguments, plans: list[OffsetPlan]) -> Report:
    """Make the changes of plans, unless --dry-run is given, and report them."""
    rows: list[Row] = []
    for plan in plans:
        is_dry = arguments.flag("dry-run")
        rows += rows_of(plan, None if is_dry else await admin.plans.apply(plan))
    return Report(rows, columns=COLUMNS)
