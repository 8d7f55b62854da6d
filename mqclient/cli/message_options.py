"""The options of commands that send: keys, tag, properties and other parts beside the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mqclient.aio import Message
from mqcommon.cli.options import all_options

__all__ = ["message_of", "message_options"]

F = TypeVar("F", bound=Callable[..., Any])


def message_options(command: F) -> F:
    """--tags, --keys, --property, --delay-level and --timeout."""
    return all_options(
        click.option("--tags", help="tag of the messages"),
        click.option(
            "--keys", multiple=True, help="index keys, separated by spaces; may be repeated"
        ),
        click.option(
            "--property", "properties", multiple=True, metavar="NAME=VALUE",
            help="property of the messages; may be repeated",
        ),
        click.option(
            "--delay-level", type=click.IntRange(0), default=0,
            help="delay the delivery: 1 (1 s) to 18 (2 h)",
        ),
        click.option(
            "--timeout", type=click.FloatRange(0.001), default=3.0, show_default=True,
            help="seconds to wait for each message",
        ),
    )(command)  # fmt: skip


def message_of(topic: str, fields: dict[str, Any], body: bytes) -> Message:
    """A message as `message_options` say. Raises ValueError, click.UsageError."""
    return Message(
        topic,
        body,
        tags=fields["tags"],
        keys=" ".join(fields["keys"]) or None,
        properties=dict(_pair(text) for text in fields["properties"]),
        delay_level=fields["delay_level"],
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--property {text!r} must be NAME=VALUE")
    return name, value
