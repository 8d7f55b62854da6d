"""`mqserver`: the entry point. The commands are in `commands.py`."""

from __future__ import annotations

import gc
import sys

from mqcommon.cli import running
from mqcommon.cli.groups import add_debug, invoke
from mqcommon.cli.running import Failure

NEEDS_MIB = {"broker": 2_560, "standalone": 512, "quickstart": 512, "namesrv": 128}
"""Address space that each command needs; a broker maps files of RocketMQ's sizes."""


def main() -> int:
    """Run the command of `mqserver`; returns its exit code."""
    return running.run(
        "mqserver",
        _command,
        _judge,
        needs_mib=NEEDS_MIB.get("".join(sys.argv[1:2]), 0),
    )


def _command() -> object:
    # The objects of a start live until the end, so the garbage collector would search them for
    # nothing: a sixth of the time of the imports. `running.keep_what_is_there` turns it on again.
    gc.disable()
    # If memory is short, loading the compiled core is the first thing that fails.
    from mqserver.commands.main import cli

    add_debug(cli)
    return invoke(cli, "mqserver")


def _judge(error: Exception) -> Failure | None:
    from mqserver.commands.command_runtime import judge

    return judge(error)


if __name__ == "__main__":
    sys.exit(main())
