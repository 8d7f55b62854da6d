"""mqadmin addWritePerm: let producers send to a broker again, after wipeWritePerm."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqadmin.write_perm import at_every_namesrv
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Give the write permission at every NameServer."""
    return await at_every_namesrv(admin, arguments, admin.namesrv.add_write_perm, "add")


ADD_WRITE_PERM = Command(
    "addWritePerm",
    run,
    [Option("b", "brokerName", "broker name", required=True)],
)
