"""`mqstack client|admin|server|store|pipeline ...`: the commands under one name.

Java's `mqadmin` may be on the PATH too; no other software has a command of this name.
"""

from __future__ import annotations

import sys
from importlib import import_module

from mqcommon.cli.exit_codes import USAGE
from mqcommon.version import version

COMMANDS = {
    "client": "mqclient.cli",
    "admin": "mqadmin",
    "server": "mqserver.cli",
    "store": "mqstore.cli",
    "pipeline": "mqpipeline.cli",
}


def main() -> None:
    """Entry point of `mqstack`."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print("Usage: mqstack client|admin|server|store|pipeline ..., or mqstack --version")
        raise SystemExit(0 if arguments else USAGE)
    if arguments == ["--version"]:
        print(f"mqstack {version()}")
        return
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"mqstack: unknown command {command}; one of {', '.join(COMMANDS)}", file=sys.stderr)
        raise SystemExit(USAGE)
    sys.argv = [f"mqstack {command}", *rest]
    raise SystemExit(import_module(COMMANDS[command]).main())


if __name__ == "__main__":
    main()
