"""The type of a sub-command: its options as RocketMQ declares them, and how to run it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import click
from msgspec import Struct

from mqadmin.contexts import Context, in_use
from mqadmin.java_text import parse_time_ms
from mqadmin.report import FORMATS, Result
from mqclient.admin import Admin
from mqclient.cli import connection
from mqclient.settings.identity import Credentials
from mqcommon.cli.options import DEBUG
from mqcommon.cli.running import WrongArguments

CONNECTION = [
    *(click.Option([option.flag, option.argument]) for option in connection.OPTIONS),
    click.Option(["--context"]),
]
"""The options for connecting besides -n. Their texts are read after a saved context is known."""
WATCH_MIN_S = 0.1
"""Shortest time between two rounds of --watch."""


class UsageError(Exception):
    """The command line is wrong; the text says where. Exit code 2."""


class Option(Struct, frozen=True):
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

    connection: arguments of a client, made of the options for connecting. context: the name of the
    saved context that the command uses, empty if it uses none.
    """

    def __init__(
        self, values: Mapping[str, Any], connection: Mapping[str, Any], context: str = ""
    ) -> None:
        self._values = values
        self.connection = connection
        self.context = context

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


class Command(Struct, frozen=True):
    """A sub-command.

    either: short names of options of which exactly one must be given. interval_option: the
    option, in seconds, that makes the command repeat until it is stopped. more_options: ours, which
    RocketMQ's usage text does not have. effect: for a command that changes stored data, names the
    change, as the end of the sentence "This will ...". description: the purpose of a command of our
    own, in one line; `catalogue` has RocketMQ's descriptions. positional: the word after the
    command's name, `NAME`, or `[NAME]` if it may be absent. connects: False for a command that asks
    no server; it gets an Admin that is not started.
    """

    name: str
    run: Callable[[Admin, Arguments], Awaitable[Result]]
    options: Sequence[Option] = ()
    either: Sequence[str] = ()
    interval_option: str | None = None
    more_options: Sequence[Option] = ()
    effect: Callable[[Admin, Arguments], Awaitable[str]] | None = None
    description: str = ""
    positional: str = ""
    connects: bool = True

    @property
    def all_options(self) -> tuple[Option, ...]:
        """The command's options and the common ones, sorted by name."""
        common = (HELP_OPTION, NAMESRV_OPTION) if self.connects else (HELP_OPTION,)
        by_name = {o.short or o.long: o for o in (*common, *self.options)}
        return tuple(by_name[name] for name in sorted(by_name))

    def parse(self, words: Sequence[str]) -> Arguments:
        """Read the words after the command's name; raises UsageError."""
        command = click.Command(self.name, params=self.parameters(), add_help_option=False)
        try:
            with command.make_context(f"mqadmin {self.name}", list(words)) as context:
                values = dict(context.params)
        except click.UsageError as error:
            raise UsageError(error.format_message()) from error
        if values["help"]:
            return Arguments(values, {})
        self._check(values)
        if not self.connects:
            return Arguments(values, {})
        found = in_use(values.pop("context"), has_address=bool(values["namesrvAddr"]))
        try:
            return _connecting(values, *(found or ("", None)))
        except click.UsageError as error:
            raise UsageError(error.format_message()) from error

    def parameters(self) -> list[click.Parameter]:
        """Options with RocketMQ's names, whose help is RocketMQ's text (`help.py`), and ours."""
        options = (*self.all_options, *self.more_options)
        return [
            *(
                click.Option(
                    [*option.flags, option.name],
                    # False would make the value optional, and refuse one that begins with "-".
                    is_flag=None if option.takes_value else True,
                )
                for option in options
            ),
            *([click.Argument([self.argument], required=False)] if self.positional else []),
            *(CONNECTION if self.connects else []),
            click.Option(["--output"], type=click.Choice(FORMATS)),
            click.Option(["--watch"], type=click.FloatRange(min=WATCH_MIN_S)),
            *([click.Option(["--yes"], is_flag=True)] if self.effect is not None else []),
            DEBUG,
        ]

    @property
    def argument(self) -> str:
        """The name of the positional word's value, as `Arguments` has it."""
        return self.positional.strip("[]").lower()

    def _check(self, values: Mapping[str, object]) -> None:
        if self.positional and not self.positional.startswith("[") and not values[self.argument]:
            raise UsageError(f"Missing argument: {self.positional}")
        for option in self.options:
            if option.required and values[option.name] is None:
                raise UsageError(f"Missing required option: {option.short or option.long}")
        group = [option for option in self.options if option.short in self.either]
        given = [option for option in group if values[option.name] is not None]
        if group and len(given) != 1:
            names = " or ".join(f"-{option.short} ({option.long})" for option in group)
            raise UsageError(f"give exactly one of {names}")


def _connecting(values: dict[str, Any], name: str, context: Context | None) -> Arguments:
    """The arguments of a command line; a context has the values that the line does not have."""
    given = {option.argument: values.pop(option.argument) for option in connection.OPTIONS}
    if context is None:
        return Arguments(values, connection.read_options(given))
    values["namesrvAddr"] = values["namesrvAddr"] or context.namesrv
    saved = {
        "credentials": context.credentials,
        "tls": context.tls_config,
        "address_map": context.address_map,
    }
    connection.read_options(given)  # an error of the line is not the context's
    try:
        read = connection.read_options({key: given[key] or saved[key] for key in saved})
    except click.BadParameter as error:
        raise WrongArguments(f"context {name!r}: {error.message}") from error
    if context.credentials_env and not given["credentials"]:
        read["credentials"] = _account(name, context.credentials_env)
    return Arguments(values, read, name)


def _account(name: str, variables: Sequence[str]) -> Credentials:
    """The account in the environment; raises WrongArguments if a variable is not set."""
    for variable in variables:
        if not os.environ.get(variable):
            raise WrongArguments(
                f"context {name!r} takes its account from the environment, "
                f"but {variable} is not set"
            )
    return Credentials(*(os.environ[variable] for variable in variables))
