"""`mqserver`'s commands and their options (RocketMQ's names and flags).

A command imports its server when it runs, so a NameServer process does not load the broker.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

_CONTEXT = {"help_option_names": ["-h", "--help"]}

_config = click.option(
    "-c", "--configFile", "file", type=click.Path(), help="Java-properties configuration file."
)
_print_all = click.option(
    "-p", "--printConfigItem", "print_all", is_flag=True, help="Print every setting, and exit."
)
_print_important = click.option(
    "-m", "--printImportantConfig", "print_important", is_flag=True,
    help="Print the important settings, and exit.",
)  # fmt: skip
_set = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="Set one of RocketMQ's keys; wins over the file. May be repeated.",
)  # fmt: skip
_namesrv = click.option(
    "-n", "--namesrvAddr", "namesrv", metavar="HOST:PORT;...", help="NameServers."
)


@click.group(context_settings=_CONTEXT)
@click.version_option(package_name="mqstack", message="%(prog)s %(version)s")
def cli() -> None:
    """RocketMQ's servers in one Python distribution."""


@cli.group()
def namesrv() -> None:
    """The NameServer: tells clients which brokers have a topic."""


@namesrv.command("start")
@_config
@_print_all
@_print_important
@_set
@click.option("-n", "--namesrvAddr", "ignored", hidden=True)
def namesrv_start(
    file: str | None,
    print_all: bool,
    print_important: bool,
    settings: tuple[str, ...],
    ignored: str | None,
) -> None:
    """Start a NameServer in the foreground; SIGTERM or Ctrl-C stops it."""
    from mqserver.commands.namesrv import run_namesrv

    run_namesrv(file, split(settings), show=_shown(print_all, print_important))


@cli.group()
def broker() -> None:
    """The broker: stores messages."""


@broker.command("start")
@_config
@_namesrv
@_print_all
@_print_important
@_set
def broker_start(
    file: str | None,
    namesrv: str | None,
    print_all: bool,
    print_important: bool,
    settings: tuple[str, ...],
) -> None:
    """Start a broker in the foreground; SIGTERM or Ctrl-C stops it."""
    from mqserver.commands.broker import run_broker

    run_broker(file, namesrv, split(settings), show=_shown(print_all, print_important))


@broker.command("check")
@_config
@_set
@click.option(
    "--strict", is_flag=True,
    help="Treat unknown keys and keys without effect as errors (exit 2).",
)  # fmt: skip
def broker_check(file: str | None, settings: tuple[str, ...], strict: bool) -> None:
    """Check a configuration file: exit 0, or name the lines that are wrong."""
    from mqserver.commands.broker import check_broker

    check_broker(file, split(settings), strict)


@cli.command("standalone")
@click.option("--data", type=click.Path(), help="Store directory; without it a temporary one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--advertise", metavar="HOST[:PORT]", envvar="MQSTACK_ADVERTISE", show_envvar=True,
    help="Broker address that clients are given.",
)  # fmt: skip
@click.option(
    "--slaves", type=click.IntRange(0, 16), default=0, show_default=True,
    help="Slaves of the broker, with stores beside its own.",
)  # fmt: skip
@_set
@click.option(
    "--set-namesrv", "namesrv_settings", multiple=True, metavar="KEY=VALUE",
    help="Set a key of the NameServer. May be repeated.",
)  # fmt: skip
def standalone(
    data: str | None,
    host: str,
    advertise: str | None,
    slaves: int,
    settings: tuple[str, ...],
    namesrv_settings: tuple[str, ...],
) -> None:
    """Start a NameServer and a broker in one process, on the loopback interface."""
    from mqserver.commands.standalone import run_standalone

    names = split(namesrv_settings, "--set-namesrv")
    run_standalone(data, host, advertise, split(settings), names, slaves)


@cli.command("quickstart")
@click.option("--free-ports", is_flag=True, help="Use free ports instead of RocketMQ's usual ones.")
def quickstart(free_ports: bool) -> None:
    """Start both servers, send ten messages, consume them, and exit."""
    from mqserver.commands.quickstart import quickstart as run_quickstart

    run_quickstart(free_ports)


def split(settings: Iterable[str], flag: str = "--set") -> dict[str, str]:
    """KEY=VALUE words of a flag as a mapping; a word of another form is a usage error."""
    found: dict[str, str] = {}
    for word in settings:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{word!r} is not KEY=VALUE", param_hint=flag)
        found[key] = value
    return found


def _shown(print_all: bool, print_important: bool) -> str:
    return "all" if print_all else "important" if print_important else ""
