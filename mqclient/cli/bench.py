"""`mqclient bench produce|consume`: load any RocketMQ broker and say what it did.

The load generator is compiled (rust/src/client/bench): threads with a connection each, and up to
`--in-flight` requests on it; latencies go into an HDR histogram.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from mqstore import _core
from mqstore.cli.output import chosen_format, output_option, write_rows

__all__ = ["bench", "run_consume", "run_produce"]

F = TypeVar("F", bound=Callable[..., Any])

_COLUMNS = ("messages_per_second", "megabytes_per_second", "p50_us", "p99_us", "p99.9_us", "max_us")


def run_produce(load: dict[str, object], **settings: object) -> dict[str, Any]:
    """Send messages as fast as the window allows.

    load: namesrv, topic, threads, warmup_s, duration_s, count, headers ("json" | "rocketmq"),
    timeout_s; settings: in_flight (per thread), body_bytes, batch, tag. All have defaults.
    Returns the report: messages, requests, refused, bytes, seconds, messages_per_second,
    megabytes_per_second, latency_us, each_second. Raises ConnectionError, ValueError,
    RuntimeError with the broker's code and remark. Releases the GIL; Ctrl-C ends the load early.
    """
    report: dict[str, Any] = json.loads(_core.bench_produce(json.dumps({"load": load, **settings})))
    return report


def run_consume(load: dict[str, object], **settings: object) -> dict[str, Any]:
    """Read the backlog of all queues of a topic, committing nothing.

    load: as `run_produce`, threads count per broker. settings: group, pull_max, expression,
    repeat (begin again at the end). Returns and raises as `run_produce`.
    """
    report: dict[str, Any] = json.loads(_core.bench_consume(json.dumps({"load": load, **settings})))
    return report


class _Unreachable(click.ClickException):
    """No connection: exit code 3, as of every command."""

    exit_code = 3


@click.group()
def bench() -> None:
    """Measure a broker: throughput and latency of sends or of reading a backlog."""


def _load_options(command: F) -> F:
    """Add the options that both kinds of load have."""
    for option in reversed(
        (
            click.option("-n", "--namesrv", envvar="NAMESRV_ADDR", default="127.0.0.1:9876"),
            click.option("-t", "--topic", default="BenchmarkTest", show_default=True),
            click.option("--threads", default=1, show_default=True, help="a connection each"),
            click.option("--warmup", default=None, type=float, help="seconds not counted"),
            click.option("--duration", default=10.0, show_default=True, help="seconds counted"),
            click.option("--count", default=0, help="stop after so many messages"),
            click.option("--headers", type=click.Choice(("json", "rocketmq")), default="json"),
        )
    ):
        command = option(command)
    return output_option(command)


@bench.command()
@_load_options
@click.option("--in-flight", default=1, show_default=True, help="requests per thread")
@click.option("--body-bytes", default=1024, show_default=True)
@click.option("--batch", default=1, show_default=True, help="messages per request")
@click.option("--tag", default="", help="TAGS of every message")
def produce(
    in_flight: int, body_bytes: int, batch: int, tag: str, output: str | None, **load: Any
) -> None:
    """Send messages; an unknown topic is created if the broker allows it.

    64 synchronous senders: --threads 64. 64 requests in flight on one connection: --in-flight 64.
    """
    run = partial(run_produce, in_flight=in_flight, body_bytes=body_bytes, batch=batch, tag=tag)
    _report(run, _load(load, warmup=1.0), output)


@bench.command()
@_load_options
@click.option("-g", "--group", default="mqclient_bench", show_default=True)
@click.option("--pull-max", default=32, show_default=True, help="messages per request")
@click.option("--expression", default="*", show_default=True, help="tags to read")
@click.option("--repeat", is_flag=True, help="begin again at the end of the backlog")
def consume(
    group: str, pull_max: int, expression: str, repeat: bool, output: str | None, **load: Any
) -> None:
    """Read all queues of a topic from their first message to the last one there now."""
    run = partial(run_consume, group=group, pull_max=pull_max, expression=expression, repeat=repeat)
    _report(run, _load(load, warmup=1.0 if repeat else 0.0), output)


def _load(options: dict[str, Any], warmup: float) -> dict[str, object]:
    """Turn command-line options into load settings."""
    given = options.pop("warmup")
    duration = options.pop("duration")
    return {**options, "warmup_s": warmup if given is None else given, "duration_s": duration}


def _report(
    run: Callable[[dict[str, object]], dict[str, Any]], load: dict[str, object], output: str | None
) -> None:
    try:
        report = run(load)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except ConnectionError as error:
        raise _Unreachable(str(error)) from error
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    latency = report["latency_us"]
    names = {"p50": "p50_us", "p99": "p99_us", "p999": "p99.9_us", "max": "max_us"}
    row = {**report, **{name: round(latency[key], 1) for key, name in names.items()}}
    row = {name: round(v, 1) if isinstance(v, float) else v for name, v in row.items()}
    whole = chosen_format(output) in ("json", "jsonl")
    write_rows([report if whole else row], ("messages", "seconds", *_COLUMNS), output)
    if report["refused"]:
        click.echo(f"refused, by code: {report['refused']}: {report['first_refusal']}", err=True)
