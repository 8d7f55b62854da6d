"""mqadmin offsets copy: give a group the offsets of another group."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.confirmation import DRY_RUN
from mqadmin.moving import carried_out, plan_text
from mqadmin.places import TOPIC
from mqadmin.report import Report
from mqclient.admin import Admin, OffsetPlan


async def _plan(admin: Admin, arguments: Arguments) -> OffsetPlan:
    source, target = arguments.required("from-group"), arguments.required("to-group")
    return await admin.plans.copy(source, target, arguments.required("topic"))


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Copy the offsets, or show which would change."""
    return await carried_out(admin, arguments, [await _plan(admin, arguments)])


async def effect(admin: Admin, arguments: Arguments) -> str:
    """The offsets that are overwritten."""
    plan = await _plan(admin, arguments)
    source = arguments.required("from-group")
    verb = f"give group {plan.group} the offsets of group {source} in topic {plan.topic}"
    return plan_text(plan, verb)


OFFSETS_COPY = Command(
    "offsets copy",
    run,
    [
        Option("s", "from-group", "Group whose offsets are copied", required=True),
        Option("d", "to-group", "Group that gets the offsets", required=True),
        TOPIC,
        DRY_RUN,
    ],
    effect=effect,
    description="Give a group the offsets of another group in a topic",
)
