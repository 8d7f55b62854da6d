"""Shared by wipeWritePerm and addWritePerm: a change that each NameServer makes for itself."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from mqadmin.command import Arguments
from mqadmin.report import Report, Row
from mqadmin.unreached import Unreached
from mqclient.admin import Admin

__all__ = ["at_every_namesrv"]

Change = Callable[[str, str], Awaitable[dict[str, int]]]
"""Changes a broker's permission at one NameServer: broker name, address -> topics by address."""


async def at_every_namesrv(admin: Admin, arguments: Arguments, change: Change, verb: str) -> Report:
    """Make the change at every NameServer, also after one has failed. verb: wipe or add."""
    name = arguments.required("brokerName")
    unreached = Unreached()
    rows: list[Row] = []
    lines = []
    for address in await admin.namesrv.addresses():
        outcome = "Failed"
        with unreached.passed_over(refusals=True):
            count = (await change(name, address))[address]
            rows.append({"namesrvAddr": address, "brokerName": name, "topicCount": count})
            outcome = f"OK, {count}"
        lines.append(f"{verb} write perm of broker[{name}] in name server[{address}] {outcome}\n")
    columns = ("namesrvAddr", "brokerName", "topicCount")
    failure = unreached.failure

    def text() -> str:
        if failure is not None:  # RocketMQ prints a stack trace
            print(f"note: {failure}", file=sys.stderr)
        return "".join(lines)

    return Report(rows, text, columns=columns, failure=failure)
