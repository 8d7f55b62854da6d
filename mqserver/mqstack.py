"""`mqstack client|admin|server|store|pipeline ...`: the commands under one name.

Java's `mqadmin` may be on the PATH too; no other software has a command of this name.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

from mqcommon.cli import running
from mqcommon.cli.groups import invoke
from mqcommon.cli.running import failure_of

COMMANDS = {
    "client": ("mqclient.cli", "Move messages in and out of RocketMQ (mqclient)."),
    "admin": ("mqadmin", "Look at clusters and change them (mqadmin)."),
    "server": ("mqserver.cli", "Run a NameServer and brokers (mqserver)."),
    "store": ("mqstore.cli", "Read, check and repair a broker's files (mqstore)."),
    "pipeline": ("mqpipeline.cli", "Move topics to and from Parquet and Delta Lake (mqpipeline)."),
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mqstack", prog_name="mqstack", message="%(prog)s %(version)s")
def cli() -> None:
    """RocketMQ for Python: its servers, clients and tools."""


def _forwarding(name: str, module: str, summary: str) -> click.Command:
    """A command that leaves all words after its name to the module's `main`."""

    def run(words: tuple[str, ...]) -> int:
        sys.argv = [f"mqstack {name}", *words]
        code: int = import_module(module).main()
        return code

    rest = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    as_given = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    return click.Command(
        name, as_given, run, params=[rest], short_help=summary, add_help_option=False
    )


for _name, (_module, _summary) in COMMANDS.items():
    cli.add_command(_forwarding(_name, _module, _summary))


def main() -> None:
    """Entry point of `mqstack`."""
    raise SystemExit(running.run("mqstack", lambda: invoke(cli, "mqstack"), failure_of))


if __name__ == "__main__":
    main()
