"""`mqclient bench`: load any RocketMQ broker and report the results.

The load generator is compiled (rust/bench): threads with a connection each, and up to
`--in-flight` requests on it; latencies go into HDR histograms.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from mqclient.cli.bench_compare import compare
from mqclient.cli.bench_options import (
    FINITE,
    WHOLE,
    load_of,
    load_options,
    send_options,
    send_settings,
    topic_options,
)
from mqcommon import _core
from mqcommon.cli import exit_codes
from mqcommon.cli.options import tags_option
from mqcommon.cli.output import chosen_format, write_rows
from mqcommon.cli.running import CommandError

__all__ = ["bench", "run_connect", "run_consume", "run_latency", "run_produce"]

MOVED = ("messages", "seconds", "messages_per_second", "megabytes_per_second")
OPENED = ("connections", "seconds", "connections_per_second")
PERCENTILES = {
    "p50": "p50_us",
    "p99": "p99_us",
    "p999": "p99.9_us",
    "p9999": "p99.99_us",
    "max": "max_us",
}


def run_produce(load: dict[str, object], **settings: object) -> dict[str, Any]:
    """Send messages as fast as the window allows, or at a rate.

    load: namesrv, address_map, topic, topics, queues, threads, warmup_s, duration_s, count,
    headers ("json" | "rocketmq"), timeout_s, credentials (the account that signs, from
    `account_of`), tls (from `connector_tls`); settings: in_flight (per thread), rate (messages per
    second, 0 for no limit), oneway, wait, body_bytes, batch, tag. All have defaults.
    Returns the report: messages, requests, refused, errors, bytes, seconds, messages_per_second,
    megabytes_per_second, latency_us, each_second, totals, problems (docs/bench.md says what each
    means). Raises ConnectionError, ValueError, PermissionError if the account is unknown or may
    not do this, RuntimeError; the last two with the broker's code and remark.
    Releases the GIL; Ctrl-C ends the load early.
    """
    return _run("produce", {"load": load, **settings})


def run_consume(load: dict[str, object], **settings: object) -> dict[str, Any]:
    """Read the backlog of all queues of a topic, or new messages.

    load: as `run_produce`, threads count per broker and group. settings: group, groups, pull_max,
    expression, repeat (start again at the end), tail (wait for new messages), commit (the group's
    offsets). Returns and raises as `run_produce`.
    """
    return _run("consume", {"load": load, **settings})


def run_latency(produce: dict[str, object], **settings: object) -> dict[str, Any]:
    """Send and read at the same time; `latency_us` is the time from due send to reader.

    produce: `load` and the settings of `run_produce`; settings: readers (per broker), group,
    pull_max. Returns and raises as `run_produce`.
    """
    return _run("latency", {"produce": produce, **settings})


def run_connect(load: dict[str, object], **settings: object) -> dict[str, Any]:
    """Open connections to the brokers of a topic, and hold them for duration_s.

    load: as `run_produce`. settings: connections, rate (per second, 0 for all at once), role
    ("silent" | "producer" | "consumer"), group, groups, heartbeat_s. Returns and raises as
    `run_produce`; its messages are connections.
    """
    return _run("connect", {"load": load, **settings})


def _run(kind: str, settings: dict[str, object]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(_core.bench(kind, json.dumps(settings)))
    return report


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def bench() -> None:
    """Measure a broker, ours or Java's: throughput, latency, and whether messages are lost.

    Begin with `mqclient bench produce` beside `mqserver standalone`. Latencies are in
    microseconds (us). A run in which messages were refused or lost says so and exits 1; so does
    one that could not keep its --rate. docs/bench.md explains every figure.
    """


bench.add_command(compare)


@bench.command(short_help="Send messages.")
@load_options()
@send_options
@click.option(
    "--rate",
    type=FINITE,
    default=0.0,
    help="messages per second; latency counts from each message's scheduled time [no limit]",
)
def produce(rate: float, name: str | None, save: str | None, output: str | None, **o: Any) -> None:
    """Send messages; an unknown topic is created if the broker allows it.

    64 synchronous senders: --threads 64. 64 requests in flight on one connection: --in-flight 64.
    SYNC_FLUSH is the broker's setting (flushDiskType).
    """
    settings = send_settings(o, rate)
    load = load_of(o, warmup=1.0)
    run = partial(run_produce, load, **settings)
    _report("produce", run, {"load": load, **settings}, (name, save, output))


@bench.command(short_help="Read a backlog, or new messages.")
@load_options()
@topic_options
@click.option(
    "-g",
    "--group",
    default="mqclient_bench",
    show_default=True,
    help="consumer group of the readers",
)
@click.option(
    "--groups", type=WHOLE, default=1, show_default=True, help="groups that each read everything"
)
@click.option("--pull-max", type=WHOLE, default=32, show_default=True, help="messages per request")
@tags_option(default="*", show_default=True)
@click.option("--repeat", is_flag=True, help="start again after the end of the backlog")
@click.option("--tail", is_flag=True, help="start at the end and wait for new messages")
@click.option("--commit", is_flag=True, help="commit the groups' offsets, as consumers do")
def consume(name: str | None, save: str | None, output: str | None, **o: Any) -> None:
    """Read all queues of a topic from their first message to the last one at the start.

    With --tail, latency is from a message's birth (a millisecond on its sender's clock) to here.
    """
    names = ("group", "groups", "pull_max", "repeat", "tail", "commit")
    settings = {option: o.pop(option) for option in names} | {"expression": o.pop("tags")}
    load = load_of(o, warmup=1.0 if settings["repeat"] else 0.0)
    run = partial(run_consume, load, **settings)
    _report("consume", run, {"load": load, **settings}, (name, save, output))


@bench.command(short_help="Measure the time from sender to reader.")
@load_options()
@send_options
@click.option(
    "--rate",
    type=FINITE,
    default=1000.0,
    show_default=True,
    help="messages per second; 0 for no limit",
)
@click.option(
    "--readers", type=WHOLE, default=1, show_default=True, help="reading connections per broker"
)
@click.option(
    "-g",
    "--group",
    default="mqclient_bench",
    show_default=True,
    help="consumer group of the readers",
)
@click.option("--pull-max", type=WHOLE, default=32, show_default=True, help="messages per pull")
def latency(rate: float, name: str | None, save: str | None, output: str | None, **o: Any) -> None:
    """Send and read at the same time: how long a message takes from its sender to its reader.

    Checks every message: an acknowledged message that does not arrive is lost, and the run fails.
    """
    readers = {option: o.pop(option) for option in ("readers", "group", "pull_max")}
    sending = send_settings(o, rate)
    produce = {"load": load_of(o, warmup=1.0), **sending}
    run = partial(run_latency, produce, **readers)
    _report("latency", run, {**produce, **readers}, (name, save, output))


@bench.command(short_help="Open and hold many connections.")
@load_options(duration="seconds to hold the connections after all are open", threads=2)
@click.option(
    "--connections", type=WHOLE, default=1000, show_default=True, help="connections to open"
)
@click.option(
    "--rate",
    type=FINITE,
    default=1000.0,
    show_default=True,
    help="connections per second; 0 for all at once",
)
@click.option(
    "--role",
    type=click.Choice(("silent", "producer", "consumer")),
    default="producer",
    show_default=True,
    help="role in their heartbeats; silent connections send none",
)
@click.option(
    "-g", "--group", default="mqclient_bench", show_default=True, help="group of the connections"
)
@click.option(
    "--groups",
    type=WHOLE,
    default=1,
    show_default=True,
    help="groups over which the connections are spread",
)
@click.option(
    "--heartbeat", type=FINITE, default=30.0, show_default=True, help="seconds between heartbeats"
)
def connect(name: str | None, save: str | None, output: str | None, **o: Any) -> None:
    """Open many connections to the brokers of a topic, send heartbeats, hold them idle.

    Latency is the time from a connection's due time until it is open.
    """
    names = ("connections", "rate", "role", "group", "groups")
    settings = {option: o.pop(option) for option in names}
    settings["heartbeat_s"] = o.pop("heartbeat")
    load = load_of(o)
    run = partial(run_connect, load, **settings)
    _report("connect", run, {"load": load, **settings}, (name, save, output))


def _report(
    kind: str,
    run: Callable[[], dict[str, Any]],
    settings: dict[str, Any],
    wishes: tuple[str | None, str | None, str | None],
) -> None:
    """Run, write the report, end with 1 if the run has problems.

    wishes: --name, --save, --output.
    """
    name, save, output = wishes
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        figures = run()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except ConnectionError as error:
        raise CommandError(str(error), exit_codes.UNREACHABLE) from error
    except PermissionError as error:
        raise CommandError(str(error), exit_codes.DENIED) from error
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    head = {"kind": kind, "name": name or _name(kind, settings), "started_at": started_at}
    report = {**head, "settings": _without_secrets(settings), **figures}
    whole = chosen_format(output) in ("json", "jsonl")
    columns = (*(OPENED if kind == "connect" else MOVED), *PERCENTILES.values())
    write_rows([report if whole else _row(report)], columns, output)
    if save:
        _save(report, save)
    if not figures["messages"] and not figures["problems"]:
        click.echo("mqclient: nothing was counted: no message came in the counted time", err=True)
    for code, count in figures["lesser_durability"].items():
        click.echo(f"mqclient: {count} sends stored with less durability: code {code}", err=True)
    for problem in figures["problems"]:
        click.echo(f"mqclient: {problem}", err=True)
    if figures["problems"]:
        click.get_current_context().exit(exit_codes.FAILED)


def _save(report: dict[str, Any], path: str) -> None:
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(report) + "\n")
    except OSError as error:
        raise click.ClickException(f"the report is not saved: {error}") from error


def _without_secrets(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as a report says them: that requests were signed, and not by which keys."""
    load = dict(settings["load"])
    kept = {"signed": load.pop("credentials", None), "tls": load.pop("tls", None)}
    return {**settings, "load": {**load, **{key: True for key, given in kept.items() if given}}}


def _row(report: dict[str, Any]) -> dict[str, Any]:
    latency = report["latency_us"]
    row = {**report, **{name: latency[key] for key, name in PERCENTILES.items()}}
    if report["kind"] == "connect":  # its messages are connections
        row["connections"] = row["messages"]
        row["connections_per_second"] = row["messages_per_second"]
    digits = {"seconds": 3}  # all connections may be open in less than a tenth
    return {
        name: round(v, digits.get(name, 1)) if isinstance(v, float) else v
        for name, v in row.items()
    }


def _name(kind: str, settings: dict[str, Any]) -> str:
    """A short description of a run, equal for runs with the same settings."""
    load = settings["load"]
    usual = {"rate": 0.0, "topics": 1, "batch": 1, "groups": 1, "headers": "json"}
    flags = [flag for flag in ("oneway", "tail", "repeat", "commit") if settings.get(flag)]
    flags += ["tls"] if load.get("tls") else []
    words = [kind, f"{load['threads']} threads"]
    if "in_flight" in settings:
        words += [f"{settings['in_flight']} in flight", f"{settings['body_bytes']} B"]
    if "connections" in settings:
        words += [f"{settings['connections']} connections", settings["role"]]
    for option, value in usual.items():
        given = settings.get(option, load.get(option, value))
        if given != value:
            words.append(f"{option} {given:g}" if isinstance(given, float) else f"{option} {given}")
    return ", ".join([*words, *flags])
