"""mqadmin wipeWritePerm: have producers send no more to a broker, by its routes."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Take the write permission at every NameServer."""
    name = arguments.required("brokerName")
    counts = await admin.namesrv.wipe_write_perm(name)
    rows = [
        {"namesrvAddr": address, "brokerName": name, "topicCount": count}
        for address, count in counts.items()
    ]
    lines = [
        f"wipe write perm of broker[{name}] in name server[{address}] OK, {count}\n"
        for address, count in counts.items()
    ]
    return Report(rows, lambda: "".join(lines), columns=("namesrvAddr", "brokerName", "topicCount"))


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
