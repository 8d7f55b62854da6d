"""mqadmin top: topics and groups by rate and lag, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.rates import COLUMNS, Sample, rows_between, take_sample
from mqadmin.report import Live, Round, Row
from mqclient.admin import Admin
from mqclient.errors import RocketMQError

SORTS = {"lag": "lag", "in": "inTps", "out": "outTps", "topic": "topic", "group": "group"}
INTERVAL_S, INTERVAL_MIN_S = 2.0, 0.5
ROWS = 30


async def run(admin: Admin, arguments: Arguments) -> Live:
    """Show a round every few seconds, until the command is stopped or has shown --count rounds."""
    field = SORTS.get((arguments.text("sort") or "lag").lower())
    if field is None:
        raise UsageError(f"--sort must be one of {', '.join(SORTS)}")
    return Live(_rounds(admin, arguments, field, arguments.count("rows") or ROWS), COLUMNS)


async def _rounds(
    admin: Admin, arguments: Arguments, field: str, rows_max: int
) -> AsyncIterator[Round]:
    """A failure of the first round ends the command, a later one is a note."""
    interval_s, count = _interval_s(arguments), arguments.count("count")
    only = arguments.text("topic") or None, arguments.text("group") or None
    before = await take_sample(admin, *only)
    shown = 0
    failure: RocketMQError | None = None
    while count is None or shown < count:
        await asyncio.sleep(interval_s)
        shown += 1
        try:
            after = await take_sample(admin, *only)
        except RocketMQError as error:
            failure = error
            yield Round([], f"note: {error}")
            continue
        failure = after.failure or before.failure
        rows = rows_between(before, after)
        yield Round(_first(rows, field, rows_max), _note(after, len(rows), rows_max))
        before = after
    if failure is not None:
        raise failure


def _interval_s(arguments: Arguments) -> float:
    text = arguments.text("interval")
    try:
        interval_s = INTERVAL_S if text is None else float(text)
    except ValueError:
        interval_s = 0.0
    if not INTERVAL_MIN_S <= interval_s < float("inf"):
        raise UsageError(f"--interval must be at least {INTERVAL_MIN_S} seconds, not {text!r}")
    return interval_s


def _first(rows: list[Row], field: str, count: int) -> list[Row]:
    """The first rows: the largest numbers, or names in their order; absent values come last."""
    ordered = sorted(rows, key=lambda row: (-row["inTps"], row["topic"], row["group"] or ""))
    known = [row for row in ordered if row[field] is not None]
    known.sort(key=lambda row: row[field], reverse=field not in ("topic", "group"))
    return [*known, *(row for row in ordered if row[field] is None)][:count]


def _note(sample: Sample, count: int, rows_max: int) -> str | None:
    """The reasons why rows are missing; None if none is."""
    notes = [f"{sample.failure}"] if sample.failure is not None else []
    if count > rows_max:
        notes.append(f"{count - rows_max} more rows; show them with --rows")
    if sample.unasked:
        unasked = f"{sample.unasked} topics without a group are not shown"
        notes.append(f"{unasked}, as they cost too many requests; choose one with -t")
    return f"note: {'; '.join(notes)}" if notes else None


TOP = Command(
    "top",
    run,
    [
        Option("t", "topic", "Only this topic"),
        Option("g", "group", "Only this consumer group"),
        Option("", "sort", f"Order of the rows: {', '.join(SORTS)} [lag]"),
        Option("", "rows", f"Most rows of a round [{ROWS}]"),
        Option("", "interval", f"Seconds between two rounds [{INTERVAL_S:g}]"),
        Option("", "count", "End after this number of rounds"),
    ],
    description="Topics and groups by rate and lag, live",
)
