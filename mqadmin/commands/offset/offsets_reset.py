"""mqadmin offsets reset: move a group in a topic to another place."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.confirmation import DRY_RUN
from mqadmin.moving import GROUP, TARGETS, carried_out, plan_text, target_of, target_text
from mqadmin.places import QUEUES, TOPIC, queues_of
from mqadmin.report import Report
from mqclient.admin import Admin, OffsetPlan


async def _plan(admin: Admin, arguments: Arguments) -> OffsetPlan:
    target = target_of(arguments.required("to"))
    group, topic = arguments.required("group"), arguments.required("topic")
    return await admin.plans.reset(group, topic, target, queues_of(arguments))


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Move the group, or show where it would go."""
    return await carried_out(admin, arguments, [await _plan(admin, arguments)])


async def effect(admin: Admin, arguments: Arguments) -> str:
    """The messages that the group skips and repeats."""
    plan = await _plan(admin, arguments)
    place = target_text(target_of(arguments.required("to")))
    return plan_text(plan, f"move group {plan.group} to {place} of topic {plan.topic}")


OFFSETS_RESET = Command(
    "offsets reset",
    run,
    [
        GROUP,
        TOPIC,
        Option("", "to", f"Where to: {TARGETS}", required=True),
        QUEUES,
        DRY_RUN,
    ],
    effect=effect,
    description="Move a group to the start, the end, an offset or a time of a topic",
)
