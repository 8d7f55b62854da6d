"""mqadmin producerConnection: the members of a producer group."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.admin.versions import version_name


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask the brokers of the topic."""
    group, topic = arguments.required("producerGroup"), arguments.required("topic")
    found = await admin.producers.connection(group, topic)
    rows = [
        {
            "clientId": member.client_id,
            "clientAddr": member.client_addr,
            "language": member.language,
            "version": version_name(member.version),
        }
        for member in found.connection_set
    ]
    lines = [
        f"{place:04d}  {row['clientId']:<32} {row['clientAddr']:<22} {row['language']:<8} "
        f"{row['version']}\n"
        for place, row in enumerate(rows, start=1)
    ]
    return Report(
        rows, lambda: "".join(lines), columns=("clientId", "clientAddr", "language", "version")
    )


PRODUCER_CONNECTION = Command(
    "producerConnection",
    run,
    [
        Option("g", "producerGroup", "producer group name", required=True),
        Option("t", "topic", "topic name", required=True),
    ],
)
