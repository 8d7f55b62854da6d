"""mqadmin offsets skip: let a group skip messages that it has not consumed."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.confirmation import DRY_RUN
from mqadmin.moving import GROUP, carried_out, plan_text
from mqadmin.places import QUEUES, TOPIC, queues_of
from mqadmin.report import Report
from mqclient.admin import Admin, OffsetPlan, ShiftBy
from mqclient.admin.plans import Target


async def _plan(admin: Admin, arguments: Arguments) -> OffsetPlan:
    count = arguments.count("count")
    target: Target = ShiftBy(count) if count else "latest"
    group, topic = arguments.required("group"), arguments.required("topic")
    return await admin.plans.reset(group, topic, target, queues_of(arguments))


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Skip the messages, or show which offsets would change."""
    return await carried_out(admin, arguments, [await _plan(admin, arguments)])


async def effect(admin: Admin, arguments: Arguments) -> str:
    """The messages that the group will not consume."""
    plan = await _plan(admin, arguments)
    return plan_text(plan, f"let group {plan.group} skip messages of topic {plan.topic}")


OFFSETS_SKIP = Command(
    "offsets skip",
    run,
    [
        GROUP,
        TOPIC,
        Option("", "count", "Messages to skip in each queue; all without it"),
        QUEUES,
        DRY_RUN,
    ],
    effect=effect,
    description="Let a group skip all messages it has not consumed, or a number of them",
)
