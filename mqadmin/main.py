"""Reads the command line, runs one sub-command, prints its result, returns an exit code.

Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable, 4 denied, 70 a defect of ours.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from mqadmin.catalogue import (
    command_of,
    groups,
    is_rocketmqs,
    listing,
    named,
    nearest,
    second_words,
)
from mqadmin.command import Arguments, Command, UsageError
from mqadmin.completion import COMPLETION, script
from mqadmin.confirmation import is_confirmed, require_address
from mqadmin.help import full_help, usage
from mqadmin.report import write
from mqadmin.watching import repeat
from mqclient.admin import Admin
from mqclient.cli.failures import failure_of
from mqcommon.cli import exit_codes, running
from mqcommon.cli.running import Failure
from mqcommon.version import version

AdminMaker = Callable[[Arguments], Admin]
"""Makes the Admin that the connection options ask for; tests pass one with a mock transport."""


def _connected(arguments: Arguments) -> Admin:
    """An Admin as -n and the connection options say."""
    return Admin(arguments.text("namesrvAddr"), **arguments.connection)


def main(argv: Sequence[str] | None = None, connect: AdminMaker = _connected) -> int:
    """Run the command line and return the exit code. argv: words after the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    name, rest = named(words)
    if name is not None:
        return _run(command_of(name), rest, connect)
    return running.run("mqadmin", lambda: _show(words), _judge)


def _judge(error: Exception) -> Failure | None:
    if isinstance(error, UsageError):
        return Failure(str(error), exit_codes.USAGE)
    return failure_of(error)


def _show(words: list[str]) -> int:
    """Show a list, a help or the version, or say which command there is not; the exit code."""
    if not words or words in (["help"], ["-h"], ["--help"]):
        print(groups() if sys.stdout.isatty() else listing())
        return exit_codes.OK
    if words == ["--version"]:
        print(f"mqadmin {version()}")
        return exit_codes.OK
    if words[0].lower() == "help":
        words = words[1:]
    if words[0] == COMPLETION:
        print(script(words[1:]))
        return exit_codes.OK
    name, _ = named(words)
    if name is None and (seconds := second_words(words[0])):
        print(f"mqadmin {words[0]}: say what to do: {', '.join(seconds)}", file=sys.stderr)
        return exit_codes.USAGE
    if name is None:
        print(f"The sub command {words[0]} not exist.", file=sys.stderr)
        near = nearest(words[0])
        if near:
            print(f"mqadmin: did you mean {' or '.join(near)}?", file=sys.stderr)
        return exit_codes.USAGE
    print(full_help(command_of(name)))
    return exit_codes.OK


def _run(command: Command, words: Sequence[str], connect: AdminMaker) -> int:
    """Run one command; every failure becomes one line on standard error and an exit code."""

    def work() -> int:
        arguments = command.parse(words)
        if arguments.flag("help"):
            print(full_help(command))
            return exit_codes.OK
        return asyncio.run(_execute(command, arguments, connect))

    def judge(error: Exception) -> Failure | None:
        if isinstance(error, UsageError):
            return Failure(f"{error}\n{usage(command)}", exit_codes.USAGE)
        return failure_of(error)

    return running.run("mqadmin", work, judge, label=f"mqadmin {command.name}")


async def _execute(command: Command, arguments: Arguments, connect: AdminMaker) -> int:
    """Run a command once, or again and again until it is stopped. Returns the exit code."""
    interval_s = arguments.seconds("watch")
    if interval_s is None and command.interval_option is not None:
        interval_s = float(arguments.number(command.interval_option, 0))
    require_address(command, arguments)
    try:
        admin = connect(arguments)
    except ValueError as error:
        raise UsageError(str(error)) from error
    async with admin if command.connects else nullcontext():
        if not await is_confirmed(command, admin, arguments):
            return exit_codes.FAILED
        form = arguments.text("output") or _usual_form(command)

        async def once() -> int:
            return await write(await command.run(admin, arguments), form)

        if not interval_s or interval_s < 0:
            return await once()
        clears = form == "table" and arguments.seconds("watch") is not None
        return await repeat(once, interval_s, f"mqadmin {command.name}", clears=clears)


def _usual_form(command: Command) -> str:
    """The output without --output. Scripts read RocketMQ's text from a pipe."""
    if sys.stdout.isatty():
        return "table"
    return "rocketmq" if is_rocketmqs(command.name) else "jsonl"
