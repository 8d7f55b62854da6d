"""`mqstack client|admin|server|store ...`: the four commands under one name.

Java's `mqadmin` may be on the PATH too; this name is only ours.
"""

from __future__ import annotations

import sys
from importlib import import_module

from mqstore.version import version

COMMANDS = {
    "client": "mqclient.cli",
    "admin": "mqclient.mqadmin",
    "server": "mqserver.cli",
    "store": "mqstore.cli",
}
USAGE_ERROR = 2


def main() -> None:
    """Entry point of `mqstack`."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print("Usage: mqstack client|admin|server|store ..., or mqstack --version")
        raise SystemExit(0 if arguments else USAGE_ERROR)
    if arguments == ["--version"]:
        print(f"mqstack {version()}")
        return
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"mqstack: unknown command {command}; one of {', '.join(COMMANDS)}", file=sys.stderr)
        raise SystemExit(USAGE_ERROR)
    sys.argv = [f"mqstack {command}", *rest]
    raise SystemExit(import_module(COMMANDS[command]).main())


if __name__ == "__main__":
    main()
