"""mqadmin addWritePerm: let producers send to a broker again, after wipeWritePerm."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Give the write permission at every NameServer."""
    name = arguments.required("brokerName")
    counts = await admin.namesrv.add_write_perm(name)
    rows = [
        {"namesrvAddr": address, "brokerName": name, "topicCount": count}
        for address, count in counts.items()
    ]
    lines = [
        f"add write perm of broker[{name}] in name server[{address}] OK, {count}\n"
        for address, count in counts.items()
    ]
    return Report(rows, lambda: "".join(lines), columns=("namesrvAddr", "brokerName", "topicCount"))


ADD_WRITE_PERM = Command(
    "addWritePerm",
    run,
    [Option("b", "brokerName", "broker name", required=True)],
)
