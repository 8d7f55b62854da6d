"""`mqserver`: the entry point. The commands are in `commands.py`."""

from __future__ import annotations

import sys

from mqstore.commands.shortage import telling_shortage

NEEDS_MIB = {"broker": 2_560, "standalone": 512, "quickstart": 512, "namesrv": 128}
"""Address space that each command needs; a broker maps files of RocketMQ's sizes."""


def main() -> None:
    """Entry point of `mqserver`."""
    with telling_shortage("mqserver", NEEDS_MIB.get("".join(sys.argv[1:2]), 0)):
        # Where memory is short, loading the compiled core is the first thing that fails.
        from mqserver.commands import cli

        cli(prog_name="mqserver")


if __name__ == "__main__":
    main()
