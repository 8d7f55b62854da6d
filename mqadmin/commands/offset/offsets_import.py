"""mqadmin offsets import: set the offsets that `offsets export` printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.confirmation import DRY_RUN
from mqadmin.moving import carried_out, plan_text
from mqadmin.report import Report
from mqclient.admin import Admin, OffsetPlan
from mqcommon.message import MessageQueue

Offsets = dict[tuple[str, str], dict[MessageQueue, int]]
"""Offsets by group and topic."""
FIELDS = {"group": str, "topic": str, "brokerName": str, "queueId": int, "offset": int}


async def _plans(admin: Admin, arguments: Arguments) -> list[OffsetPlan]:
    path = arguments.required("file")
    text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    renamed = arguments.text("group") or None
    return [
        await admin.plans.put(renamed or group, topic, offsets)
        for (group, topic), offsets in offsets_of(text).items()
    ]


def offsets_of(text: str) -> Offsets:
    """Read JSON lines or a JSON list; raises UsageError that names the line."""
    found: Offsets = {}
    for place, row in _rows(text):
        for name, kind in FIELDS.items():
            if not isinstance(row, dict) or type(row.get(name)) is not kind:
                raise UsageError(f"row {place} has no {name!r} as offsets export writes it")
        if row["offset"] < 0 or row["queueId"] < 0:
            raise UsageError(f"row {place} has a negative number")
        queue = MessageQueue(row["topic"], row["brokerName"], row["queueId"])
        found.setdefault((row["group"], row["topic"]), {})[queue] = row["offset"]
    if not found:
        raise UsageError("the file has no offsets")
    return found


def _rows(text: str) -> list[tuple[int, Any]]:
    """The rows of JSON lines or of one JSON list, with their numbers."""
    try:
        if text.lstrip().startswith("["):
            return list(enumerate(json.loads(text), start=1))
        lines = enumerate(text.splitlines(), start=1)
        return [(number, json.loads(line)) for number, line in lines if line.strip()]
    except ValueError as error:
        raise UsageError(f"the file is not JSON of offsets export: {error}") from error


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Set the offsets, or show which would change."""
    return await carried_out(admin, arguments, await _plans(admin, arguments))


async def effect(admin: Admin, arguments: Arguments) -> str:
    """The offsets that are overwritten."""
    if arguments.required("file") == "-":
        raise UsageError("offsets from standard input need --yes or --dry-run")
    plans = await _plans(admin, arguments)
    verb = "set the offsets of group {0.group} in topic {0.topic}"
    return "; ".join(plan_text(plan, verb.format(plan)) for plan in plans)


OFFSETS_IMPORT = Command(
    "offsets import",
    run,
    [
        Option("f", "file", "File of offsets export, - for standard input", required=True),
        Option("g", "group", "Group that gets the offsets, not the group of the file"),
        DRY_RUN,
    ],
    effect=effect,
    description="Set the offsets that offsets export printed",
)
