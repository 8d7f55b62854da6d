"""`mqstore cut`, `repair` and `rebuild`: the commands that write a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mqcommon.cli.options import all_options
from mqcommon.cli.output import chosen_format, output_option, write_rows
from mqcommon.cli.progress import progress
from mqcommon.cli.running import refusing_arguments
from mqstore.cli.options import directory_argument
from mqstore.offline import RepairReport
from mqstore.offline import cut as cut_store
from mqstore.offline import rebuild as rebuild_store
from mqstore.offline import repair as repair_store

__all__ = ["cut", "rebuild", "repair"]

F = TypeVar("F", bound=Callable[..., Any])
_COUNT = click.IntRange(1, 2**31 - 1)
GROUP_COLUMNS = (
    "group", "topic", "queueId", "committedBefore", "committed", "remaining", "replayed", "skipped",
)  # fmt: skip


def _target_options(command: F) -> F:
    """Options for the destination, and those of `_made_with_options`."""
    options = (
        click.option("--to", type=click.Path(), help="write the result to this new directory"),
        click.option("--in-place", is_flag=True, help="change DIRECTORY itself, under its lock"),
    )
    return all_options(*options)(_made_with_options(command))


def _made_with_options(command: F) -> F:
    """Settings that the store was created with."""
    options = (
        click.option("--delay-levels", help="the broker's messageDelayLevel, if it was set"),
        click.option(
            "--max-hash-slots",
            "index_slots",
            type=_COUNT,
            help="the broker's maxHashSlotNum; needed if the index files do not show it",
        ),
        click.option(
            "--max-index-num",
            "index_entries",
            type=_COUNT,
            help="the broker's maxIndexNum; needed if the index files do not show it",
        ),
    )
    return all_options(*options)(command)


@click.command()
@directory_argument
@_target_options
@output_option
def repair(directory: str, output: str | None, **target: Any) -> None:
    """Repair the log of the store in DIRECTORY, then rebuild queues and index from it.

    Damaged ranges between good records are saved to mqstack/quarantine and overwritten with
    records that no consumer sees; a torn tail is truncated. Prints what each group will replay or
    skip.
    """
    _repair_to(repair_store, directory, output, **target)


@click.command()
@directory_argument
@_target_options
@output_option
def rebuild(directory: str, output: str | None, **target: Any) -> None:
    """Rebuild queues, index and checkpoint of the store in DIRECTORY; the log does not change.

    Prints what each group will replay or skip.
    """
    _repair_to(rebuild_store, directory, output, **target)


@click.command()
@directory_argument
@click.argument("offset", type=click.IntRange(0))
@_made_with_options
def cut(directory: str, offset: int, **made_with: Any) -> None:
    """End the log of the store in DIRECTORY at OFFSET, then rebuild queues and index from it.

    For a slave whose log differs from its master's: its log says from which offset on. Keeps the
    records before OFFSET, and saves the cut bytes to mqstack/quarantine. Stop the broker first.
    """
    with progress() as bar, refusing_arguments():
        report, (start, end) = cut_store(directory, offset, progress=bar, **made_with)
    saved = f"{report.root}/mqstack/quarantine/{start:020}-{end:020}"
    click.echo(f"cut: {end - start} bytes at {start}, saved in {saved}")
    for line in _lines(report):
        click.echo(line)


def _repair_to(
    work: Callable[..., RepairReport],
    directory: str,
    output: str | None,
    *,
    to: str | None,
    in_place: bool,
    **made_with: Any,
) -> None:
    if (to is None) != in_place:
        raise click.UsageError(
            "give the destination: --to NEW_DIRECTORY leaves the store unchanged, "
            "--in-place changes it"
        )
    try:
        with progress() as bar, refusing_arguments():
            report = work(directory, to, in_place=in_place, progress=bar, **made_with)
    except FileExistsError:
        raise click.ClickException(
            f"{to} is not empty; give --to a directory that does not exist yet"
        ) from None
    if chosen_format(output) != "table":
        write_rows([*_group_rows(report), _summary(report)], GROUP_COLUMNS, output)
        return
    for line in _lines(report):
        click.echo(line)
    changed = [row for row in _group_rows(report) if _is_changed(row)]
    same = len(report.groups) - len(changed)
    if same:
        click.echo(f"groups: nothing to read, replay or skip in {same} of their queues")
    if changed:
        write_rows(changed, GROUP_COLUMNS, "table")


def _is_changed(row: dict[str, Any]) -> bool:
    """Whether a group's consumers will notice a change in a queue."""
    return bool(row["remaining"] or row["skipped"] or row["committed"] != row["committedBefore"])


def _group_rows(report: RepairReport) -> list[dict[str, Any]]:
    return [
        {
            "kind": "group",
            "group": row.group,
            "topic": row.topic,
            "queueId": row.queue_id,
            "committedBefore": row.committed_before,
            "committed": row.committed,
            "remaining": row.remaining,
            "replayed": row.replayed,
            "skipped": row.skipped,
        }
        for row in report.groups
    ]


def _summary(report: RepairReport) -> dict[str, Any]:
    return {
        "kind": "summary",
        "root": report.root,
        "logStart": report.log_start,
        "logEnd": report.log_end,
        "records": report.records,
        "repaired": [
            {"start": start, "end": end, "saved": saved} for start, end, saved in report.repaired
        ],
        "cut": report.cut and {"start": report.cut[0], "end": report.cut[1]},
        "queues": report.queues,
        "queueEntries": report.queue_entries,
        "keptQueues": [f"{topic}/{queue_id}" for topic, queue_id in report.kept_queues],
        "indexEntries": report.index_entries,
        "restored": list(report.restored),
    }


def _lines(report: RepairReport) -> list[str]:
    """The report as text lines."""
    lines = [f"{report.root}: {report.records} records, log offsets {report.log_start} to "
             f"{report.log_end}"]  # fmt: skip
    lines += [
        f"repaired: {end - start} bytes at {start}, saved in {saved}"
        for start, end, saved in report.repaired
    ]
    if report.cut:
        start, end = report.cut
        lines.append(f"truncated: {end - start} bytes after the last record, from offset {start}")
    lines.append(f"queues: {report.queues} with {report.queue_entries} entries; "
                 f"index: {report.index_entries} entries")  # fmt: skip
    lines += [
        f"kept: {topic}/{queue_id}, whose messages have all expired"
        for topic, queue_id in report.kept_queues
    ]
    lines += [f"restored: {name} from its .bak" for name in report.restored]
    return lines
