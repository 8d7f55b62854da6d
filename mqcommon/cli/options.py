"""Options with the same meaning in every command, and decorators to add them.

Each option is declared once, here or in `mqclient.cli.connection` if it needs a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mqcommon.cli import running
from mqcommon.cli.moments import read_milliseconds, read_start

__all__ = [
    "DEBUG",
    "all_options",
    "milliseconds_option",
    "read_by",
    "start_option",
    "tags_option",
    "topic_option",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
TIME = "TIME"


def all_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; help lists them in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def read_by(read: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that parses an option's text; a ValueError or OSError becomes a usage error."""

    def checked(_context: click.Context, _option: click.Parameter, text: Any) -> Any:
        try:
            return None if text is None else read(text)
        except (ValueError, OSError) as error:
            raise click.BadParameter(str(error)) from None

    return checked


def topic_option(text: str = "topic", *, argument: str = "topic", **more: Any) -> Callable[[F], F]:
    """The option -t/--topic."""
    return click.option("-t", "--topic", argument, help=text, **more)


def tags_option(**more: Any) -> Callable[[F], F]:
    """The option --tags, to select messages by tag."""
    return click.option(
        "--tags", help="only messages with one of these tags: 'TagA || TagB'", **more,
    )  # fmt: skip


def start_option(text: str, *, default: str = "latest") -> Callable[[F], F]:
    """The option --from, the start of reading: earliest, latest or a time."""
    return click.option(
        "--from", "start", callback=read_by(read_start), default=default, show_default=True,
        metavar=TIME, help=text,
    )  # fmt: skip


def milliseconds_option(flag: str, argument: str, text: str) -> Callable[[F], F]:
    """An option for a time; its value is milliseconds since 1970, or None if it is not given."""
    return click.option(
        flag, argument, callback=read_by(read_milliseconds), metavar=TIME, help=text,
    )  # fmt: skip


def _debug(_context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given:
        running.show_tracebacks()


DEBUG = click.Option(
    ["--debug"], is_flag=True, is_eager=True, expose_value=False, callback=_debug,
    help="Show the traceback of a defect.",
)  # fmt: skip
"""The option --debug of every command and group."""
