"""The type of a sub-command: its options as RocketMQ declares them, and how to run it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from mqadmin.java_text import parse_time_ms
from mqadmin.report import FORMATS, Report, Stream
from mqclient.admin import Admin
from mqclient.cli import connection
from mqcommon.cli.options import DEBUG

WATCH_MIN_S = 0.1
"""Shortest time between two rounds of --watch."""


class UsageError(Exception):
    """The command line is wrong; the text says where. Exit code 2."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command, e.g. -t,--topic <arg>.

    short: empty if there is only the long name. takes_value: False for a flag.
    """

    short: str
    long: str
    help: str
    required: bool = False
    takes_value: bool = True

    @property
    def name(self) -> str:
        """The name of its value: some of RocketMQ's long names have blanks."""
        return self.typed.replace("-", "_")

    @property
    def typed(self) -> str:
        """The long name as it is typed: print-msg for RocketMQ's "print msg"."""
        return self.long.strip().replace(" ", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """The option as it is typed: -t, --topic."""
        long = tuple(f"--{word}" for word in dict.fromkeys((self.long, self.typed)))
        return (f"-{self.short}", *long) if self.short else long


HELP_OPTION = Option("h", "help", "Print help", takes_value=False)
NAMESRV_OPTION = Option(
    "n", "namesrvAddr", "Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'"
)


class Arguments:
    """The values of a command line, by the options' long names: `flag("dry-run")`.

    connection: arguments of a client, made of the options for connecting.
    """

    def __init__(self, values: Mapping[str, Any], connection: Mapping[str, Any]) -> None:
        self._values = values
        self.connection = connection

    def text(self, name: str) -> str | None:
        """A value without surrounding blanks, None when the option is absent."""
        value = self._values.get(name.replace("-", "_"))
        return value.strip() if isinstance(value, str) else None

    def required(self, name: str) -> str:
        """The value of an option that must be given, and not be blank."""
        value = self.text(name)
        if not value:
            raise UsageError(f"--{name} must not be empty")
        return value

    def flag(self, name: str) -> bool:
        """Whether a flag is given."""
        return self._values.get(name.replace("-", "_")) is True

    def is_true(self, name: str) -> bool:
        """Whether an option has the value true (any other text is false, as in Java)."""
        return (self.text(name) or "").lower() == "true"

    def seconds(self, name: str) -> float | None:
        """A number of seconds that the parser has checked, None when the option is absent."""
        value = self._values.get(name)
        return value if isinstance(value, float) else None

    def time_ms(self, name: str) -> int | None:
        """A time in milliseconds since 1970, None when it is absent; raises UsageError."""
        value = self.text(name)
        try:
            return None if value is None else parse_time_ms(value)
        except ValueError as error:
            raise UsageError(f"--{name}: {error}") from None

    def number(self, name: str, default: int) -> int:
        """A whole number; raises UsageError for other text."""
        value = self.text(name)
        if value is None:
            return default
        try:
            return int(value)
        except ValueError:
            raise UsageError(f"--{name} must be a whole number, not {value!r}") from None

    def count(self, name: str) -> int | None:
        """A whole number of at least 1, None when the option is absent; raises UsageError."""
        if self.text(name) is None:
            return None
        count = self.number(name, 0)
        if count < 1:
            raise UsageError(f"--{name} must be at least 1, not {count}")
        return count


@dataclass(frozen=True, slots=True)
class Command:
    """A sub-command.

    either: short names of options of which exactly one must be given. interval_option: the
    option, in seconds, that makes the command repeat until it is stopped. more_options: ours, which
    RocketMQ's usage text does not have. effect: for a destructive command, names the loss, as the
    end of the sentence "This will ...". description: the purpose of a command of our own, in one
    line; `catalogue` has RocketMQ's descriptions.
    """

    name: str
    run: Callable[[Admin, Arguments], Awaitable[Report | Stream]]
    options: Sequence[Option] = ()
    either: Sequence[str] = ()
    interval_option: str | None = None
    more_options: Sequence[Option] = ()
    effect: Callable[[Admin, Arguments], Awaitable[str]] | None = None
    description: str = ""
    all_options: tuple[Option, ...] = field(init=False)

    def __post_init__(self) -> None:
        by_name = {o.short or o.long: o for o in (HELP_OPTION, NAMESRV_OPTION, *self.options)}
        options = [by_name[name] for name in sorted(by_name)]
        object.__setattr__(self, "all_options", tuple(options))

    def parse(self, words: Sequence[str]) -> Arguments:
        """Read the words after the command's name; raises UsageError."""
        command = click.Command(self.name, params=self.parameters(), add_help_option=False)
        try:
            with command.make_context(f"mqadmin {self.name}", list(words)) as context:
                values = dict(context.params)
        except click.UsageError as error:
            raise UsageError(error.format_message()) from error
        if not values["help"]:
            self._check(values)
        return Arguments(values, connection.server_options_of(values))

    def parameters(self) -> list[click.Parameter]:
        """Options with RocketMQ's names, whose help is RocketMQ's text (`help.py`), and ours."""
        options = (*self.all_options, *self.more_options)
        return [
            *(
                click.Option(
                    [*option.flags, option.name],
                    is_flag=not option.takes_value,
                )
                for option in options
            ),
            *click.command(connection.server_options(lambda: None)).params,
            click.Option(["--output"], type=click.Choice(FORMATS)),
            click.Option(["--watch"], type=click.FloatRange(min=WATCH_MIN_S)),
            *([click.Option(["--yes"], is_flag=True)] if self.effect is not None else []),
            DEBUG,
        ]

    def _check(self, values: Mapping[str, object]) -> None:
        for option in self.options:
            if option.required and values[option.name] is None:
                raise UsageError(f"Missing required option: {option.short or option.long}")
        group = [option for option in self.options if option.short in self.either]
        given = [option for option in group if values[option.name] is not None]
        if group and len(given) != 1:
            names = " or ".join(f"-{option.short} ({option.long})" for option in group)
            raise UsageError(f"give exactly one of {names}")
