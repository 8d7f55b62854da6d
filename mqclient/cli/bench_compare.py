"""`mqclient bench compare`: reports side by side, with ratios."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from mqcommon.cli.output import chosen_format, output_option, write_rows

__all__ = ["compare"]

LATENCIES = ("latency_us", "send_us", "service_us", "heartbeat_us")
PERCENTILES = {"p50": "p50", "p99": "p99", "p999": "p99.9", "p9999": "p99.99", "max": "max"}
MORE_IS_BETTER = ("messages_per_second", "megabytes_per_second")
FILE_BYTES_MAX = 256 << 20
Runs = dict[str, list[dict[str, Any]]]


@click.command(short_help="Put reports side by side, with ratios.")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@output_option
def compare(files: tuple[Path, ...], output: str | None) -> None:
    """Compare reports that --save or --output json wrote: FILE is measured against the first.

    Runs of the same name in one file are rounds, of which the median counts. A ratio is a file's
    figure divided by the first file's; `best` is the file with the better figure.
    """
    if len(files) < 2:
        raise click.UsageError("give at least two files: A.json B.json")
    names = _short_names(files)
    runs = dict(zip(names, map(_read, files), strict=True))
    rows = [row for case in _cases(runs) for row in _rows(case, runs)]
    if not rows:
        raise click.ClickException("no run of one file matches a run of another: use --name")
    columns = ("run", "figure", *names, *(f"{name}/{names[0]}" for name in names[1:]), "best")
    if chosen_format(output) == "table":
        rows = [{name: _cell(value) for name, value in row.items()} for row in rows]
    write_rows(rows, columns, output)
    for warning in _warnings(runs):
        click.echo(f"mqclient: {warning}", err=True)


def _short_names(files: tuple[Path, ...]) -> list[str]:
    """Each file's name without its ending, or the whole path if two names are equal."""
    stems = [path.stem for path in files]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in files]
    if len(set(names)) != len(names):
        raise click.UsageError("a file is named twice")
    return names


def _read(path: Path) -> Runs:
    """Read the runs of a file by their names: one object, a list of them, or one a line."""
    if path.stat().st_size > FILE_BYTES_MAX:
        raise click.UsageError(f"{path} has more than {FILE_BYTES_MAX} bytes: not a report")
    runs: Runs = {}
    try:
        for report in _reports(path.read_text(encoding="utf-8")):
            _figures(report)
            runs.setdefault(str(report.get("name") or report["kind"]), []).append(report)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise click.UsageError(f"{path} is no report of mqclient bench: {error!r}") from error
    if not runs:
        raise click.UsageError(f"{path} is no report of mqclient bench: it is empty")
    return runs


def _reports(text: str) -> Iterator[dict[str, Any]]:
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
        return
    yield from whole if isinstance(whole, list) else [whole]


def _cases(runs: dict[str, Runs]) -> list[str]:
    """The runs that the first file and another have, in the first's order."""
    first, *others = runs.values()
    return [case for case in first if any(case in other for other in others)]


def _rows(case: str, runs: dict[str, Runs]) -> Iterator[dict[str, Any]]:
    medians = {name: _median(file[case]) for name, file in runs.items() if case in file}
    first_name, first = next(iter(medians.items()))
    for figure, base in first.items():
        values = {name: figures.get(figure) for name, figures in medians.items()}
        ratios = {
            f"{name}/{first_name}": value / base if value is not None and base else None
            for name, value in values.items()
            if name != first_name
        }
        yield {"run": case, "figure": figure, **values, **ratios, "best": _best(figure, values)}


def _best(figure: str, values: dict[str, float | None]) -> str:
    known = {name: value for name, value in values.items() if value is not None}
    chosen = (max if figure in MORE_IS_BETTER else min)(known.values())
    winners = [name for name, value in known.items() if value == chosen]
    return winners[0] if len(winners) < len(known) else ""


def _median(reports: list[dict[str, Any]]) -> dict[str, float]:
    rounds = [_figures(report) for report in reports]
    names = [name for name in rounds[0] if all(name in one for one in rounds)]
    return {name: statistics.median(one[name] for one in rounds) for name in names}


def _figures(report: dict[str, Any]) -> dict[str, float]:
    figures = {name: float(report[name]) for name in MORE_IS_BETTER}
    for latency in LATENCIES:
        for key, percentile in PERCENTILES.items():
            if latency in report:
                name = f"{latency.removesuffix('_us')} {percentile} (us)"
                figures[name] = float(report[latency][key])
    figures["problems"] = float(len(report["problems"]))
    return figures


def _warnings(runs: dict[str, Runs]) -> Iterator[str]:
    for name, file in runs.items():
        for case, reports in file.items():
            for problem in (problem for report in reports for problem in report["problems"]):
                yield f"{name}, {case}: {problem}"
    for case in _cases(runs):
        reports = [report for file in runs.values() for report in file.get(case, [])]
        for option in _different(reports):
            yield f"{case}: the runs differ in {option}"


def _different(reports: list[dict[str, Any]]) -> list[str]:
    """The settings that differ between reports; the brokers' addresses are ignored."""
    flat = [
        {**report.get("settings", {}), **report.get("settings", {}).get("load", {})}
        for report in reports
    ]
    options = dict.fromkeys(option for settings in flat for option in settings)
    ignored = ("load", "namesrv", "address_map", "topic")
    return [
        option
        for option in options
        if option not in ignored and any(one.get(option) != flat[0].get(option) for one in flat)
    ]


def _cell(value: object) -> object:
    if not isinstance(value, float):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
