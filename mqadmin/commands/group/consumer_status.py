"""mqadmin consumerStatus: the running state of a group's members, one file for each member."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report, Row
from mqadmin.running_text import has_same_subscriptions, problems, running_text
from mqclient.admin import Admin
from mqclient.admin.versions import version_name
from mqclient.errors import RocketMQError
from mqcommon.wire.bodies.groups import Connection
from mqcommon.wire.bodies.running import ConsumerRunningInfo


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group. info: None if the member did not answer; error says why."""

    connection: Connection
    info: ConsumerRunningInfo | None
    error: str | None = None


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask one member, or all."""
    group, stacks = arguments.required("consumerGroup"), arguments.flag("jstack")
    broker = arguments.text("brokerAddr") or None
    members = (await admin.groups.connection(group, broker)).connection_set
    client_id = arguments.text("clientId")
    if client_id is not None:
        info = await admin.groups.running_info(group, client_id, stacks=stacks)
        return Report([info.to_plain()], lambda: running_text(info), single=True)
    found = [await _member(admin, group, one, stacks=stacks) for one in members]
    now_ms = int(time.time() * 1000)
    rows = [_row(one, now_ms) for one in found]
    return Report(rows, lambda: _text(found, now_ms))


async def _member(admin: Admin, group: str, connection: Connection, *, stacks: bool) -> Member:
    """One member's state; a member that does not answer is named and left out, as in RocketMQ."""
    try:
        info = await admin.groups.running_info(group, connection.client_id, stacks=stacks)
    except RocketMQError as error:
        print(f"note: client {connection.client_id} did not answer: {error}", file=sys.stderr)
        return Member(connection, None, str(error))
    return Member(connection, info)


def _row(member: Member, now_ms: int) -> Row:
    client_id, info = member.connection.client_id, member.info
    return {
        "clientId": client_id,
        "version": version_name(member.connection.version),
        "error": member.error,
        "problems": [] if info is None else problems(client_id, info, now_ms),
        "runningInfo": None if info is None else info.to_plain(),
    }


def _text(members: list[Member], now_ms: int) -> str:
    """RocketMQ's text. It names a file of each member in the current folder and writes it."""
    lines = [f"{'#Index':<10} {'#ClientId':<40} {'#Version':<20} #ConsumerRunningInfoFile\n"]
    infos = {one.connection.client_id: one.info for one in members if one.info is not None}
    answered = [one.connection for one in members if one.connection.client_id in infos]
    for index, member in enumerate(answered, start=1):
        path = save(running_text(infos[member.client_id]), now_ms, member.client_id)
        version = version_name(member.version)
        lines.append(f"{index:<10} {member.client_id:<40} {version:<20} {path}\n")
    if infos and has_same_subscriptions(infos, now_ms):
        lines.append("\n\nSame subscription in the same group of consumer\n\nRebalance OK\n")
        for client_id in sorted(infos):
            lines += (f"{one}\n" for one in problems(client_id, infos[client_id], now_ms))
    elif infos:
        lines.append("\n\nWARN: Different subscription in the same group of consumer!!!")
    return "".join(lines)


def save(text: str, now_ms: int, client_id: str) -> Path:
    """Write a member's state to TIME/CLIENT in the current folder, as RocketMQ does."""
    # The id is the client's text: it must name a file in this folder only.
    name = client_id.replace("/", "%2F").replace("\0", "%00")
    path = Path(str(now_ms), "%2E" * len(name) if name in (".", "..") else name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


CONSUMER_STATUS = Command(
    "consumerStatus",
    run,
    [
        Option("g", "consumerGroup", "consumer group name", required=True),
        Option("i", "clientId", "The consumer's client id"),
        Option("b", "brokerAddr", "broker address"),
        Option("s", "jstack", "Run jstack command in the consumer progress", takes_value=False),
    ],
)
