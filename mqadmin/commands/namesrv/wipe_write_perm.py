"""mqadmin wipeWritePerm: have producers send no more to a broker, by its routes."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqadmin.write_perm import at_every_namesrv
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Take the write permission at every NameServer."""
    return await at_every_namesrv(admin, arguments, admin.namesrv.wipe_write_perm, "wipe")


async def effect(_admin: Admin, arguments: Arguments) -> str:
    """What producers will see."""
    name = arguments.required("brokerName")
    return f"have producers send no more to broker {name}, until addWritePerm -b {name}"


WIPE_WRITE_PERM = Command(
    "wipeWritePerm",
    run,
    [Option("b", "brokerName", "broker name", required=True)],
    effect=effect,
)
