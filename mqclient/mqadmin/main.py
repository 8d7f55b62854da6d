"""Reads the command line, runs one sub-command, prints what it found, says how it went.

Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable, 4 denied.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence

from mqclient.admin import Admin
from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqclient.mqadmin.catalogue import BUILT, command_of, full_name, listing
from mqclient.mqadmin.command import Arguments, Command, UsageError
from mqclient.mqadmin.help import full_help, usage
from mqclient.mqadmin.render import render
from mqclient.wire.codes import ResponseCode
from mqstore.shortage import telling_shortage
from mqstore.version import version

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_UNREACHABLE, EXIT_DENIED = range(5)
EXIT_INTERRUPTED = 130

AdminMaker = Callable[[str | None], Admin]
"""Makes the Admin for the -n option's value; tests pass one with a mock transport."""


def _connected(namesrv: str | None) -> Admin:
    """An Admin that signs with `conf/tools.yml` of ROCKETMQ_HOME, if there is one.

    It speaks TLS as the file of MQ_TLS_CONFIG says.
    """
    from mqclient.credentials import read_credentials
    from mqclient.tls import tls_from_environment

    try:
        return Admin(namesrv, tls=tls_from_environment(), **read_credentials(None))
    except OSError as error:
        raise ValueError(f"credentials or TLS properties cannot be read: {error}") from error


def main(argv: Sequence[str] | None = None, connect: AdminMaker = _connected) -> int:
    """Run the command line and return the exit code. argv: words after the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words in (["help"], ["-h"], ["--help"]):
        print(listing())
        return EXIT_OK
    if words == ["--version"]:
        print(f"mqadmin {version()}")
        return EXIT_OK
    wants_help = words[0].lower() == "help"
    if wants_help:
        words = words[1:]
    name = full_name(words[0])
    if name is None:
        print(f"The sub command {words[0]} not exist.", file=sys.stderr)
        return EXIT_USAGE
    command = command_of(name)
    if command is None:
        built = ", ".join(sorted(command.name for command in BUILT.values()))
        print(f"mqadmin {name}: not built yet. Built: {built}", file=sys.stderr)
        return EXIT_USAGE
    if wants_help:
        print(full_help(command))
        return EXIT_OK
    return _run(command, words[1:], connect)


def _run(command: Command, words: Sequence[str], connect: AdminMaker) -> int:
    """Run one command; every failure becomes one line on standard error and an exit code."""
    try:
        arguments = command.parse(words)
        if arguments.flag("help"):
            print(full_help(command))
            return EXIT_OK
        with telling_shortage("mqadmin"):
            asyncio.run(_execute(command, arguments, connect))
        return EXIT_OK
    except UsageError as error:
        return _failed(command, error, EXIT_USAGE, usage(command))
    except BrokerError as error:
        denied = error.code == ResponseCode.NO_PERMISSION or "AclException" in error.remark
        return _failed(command, error, EXIT_DENIED if denied else EXIT_FAILED)
    except (UnreachableError, ClientTimeout) as error:
        return _failed(command, error, EXIT_UNREACHABLE)
    except (RocketMQError, ValueError) as error:
        return _failed(command, error, EXIT_FAILED)
    except BrokenPipeError:
        return EXIT_OK  # the reader of the pipe has seen enough
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _failed(command: Command, error: Exception, code: int, more: str = "") -> int:
    print(f"mqadmin {command.name}: {error}", file=sys.stderr)
    if more:
        print(more, file=sys.stderr)
    return code


async def _execute(command: Command, arguments: Arguments, connect: AdminMaker) -> None:
    form = arguments.text("output") or "table"  # scripts read RocketMQ's text from a pipe
    interval_s = 0
    if command.interval_option is not None:
        interval_s = arguments.number(command.interval_option, 0)
    try:
        admin = connect(arguments.text("namesrvAddr"))
    except ValueError as error:
        raise UsageError(str(error)) from error
    async with admin:
        while True:
            print(render(await command.run(admin, arguments), form), end="", flush=True)
            if interval_s <= 0:
                return
            await asyncio.sleep(interval_s)
