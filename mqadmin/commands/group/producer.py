"""mqadmin producer: every producer that a broker knows, by group."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import in_hash_order
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.admin.versions import version_name
from mqcommon.wire.bodies.groups import ProducerInfo

COLUMNS = ("group", "clientId", "remoteIP", "language", "version", "lastUpdateTimestamp")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask the broker."""
    found = await admin.producers.all(arguments.required("broker"))
    rows = [
        {"group": group, **one.to_plain(), "version": version_name(one.version)}
        for group, members in sorted(found.items())
        for one in members
    ]
    return Report(rows, lambda: _text(found), columns=COLUMNS)


def _text(found: dict[str, list[ProducerInfo]]) -> str:
    lines = []
    for group, members in in_hash_order(found):
        if not members:
            lines.append(f"producer group ({group}) instances are empty\n")
        lines += (
            f"producer group ({group}) instance : clientId={one.client_id},"
            f"remoteIP={one.remote_ip}, language={one.language}, version={one.version}, "
            f"lastUpdateTimestamp={one.last_update_timestamp}\n"
            for one in members
        )
    return "".join(lines)


PRODUCER = Command(
    "producer",
    run,
    [Option("b", "broker", "broker address", required=True)],
)
