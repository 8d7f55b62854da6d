"""The kind of each test, by its folder: whether `make check` runs it, and its requirements.

- unit: Python in this process alone, in a second or so; `make check` runs these.
- server: starts our servers or commands.
- interop: runs real RocketMQ, with a JDK 17 and Maven.
- spark: starts a local Spark session.

A new folder of tests needs a line in `FOLDERS`. The marker `soak` is set on a test itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from pathlib import PurePath
from types import ModuleType

FOLDERS = {
    "tests": "unit",
    "tests/acl": "server",
    "tests/bad_input": "server",
    "tests/benches": "unit",
    "tests/broker": "unit",
    "tests/broker/replication": "unit",
    "tests/client": "unit",
    "tests/client/admin": "unit",
    "tests/client/blocking": "unit",
    "tests/client/cli": "unit",
    "tests/client/consumer": "unit",
    "tests/client/engine": "unit",
    "tests/client/integrations": "unit",
    "tests/client/producer": "unit",
    "tests/client/trace": "unit",
    "tests/deploy": "unit",
    "tests/e2e": "server",
    "tests/e2e/replication": "server",
    "tests/common": "unit",
    "tests/hostile": "unit",
    "tests/interop": "interop",
    "tests/interop/differential": "interop",
    "tests/admin": "unit",
    "tests/namesrv": "unit",
    "tests/offline": "unit",
    "tests/pipeline": "spark",
    "tests/server": "server",
    "tests/server/floods": "server",
    "tests/spark": "spark",
    "tests/store": "unit",
    "tests/common/wire": "unit",
}
ALWAYS_UNIT = {"tests/test_tidy.py"}
"""It asks git for the names of files, and nothing else."""
STARTERS = {
    "subprocess",
    "mqserver.embedded.standalone",
    "mqserver.embedded.in_process",
    "mqserver.broker.broker",
    "mqserver.namesrv.server",
    "benches.lib.servers",
    "benches.cases.versus_java.limit",
    "scripts.server_process",
}
"""A module in a folder of unit tests that imports from one of these starts something: its tests
are of the kind "server"."""


STARTING_FIXTURES = frozenset({"mq", "mq_broker", "mq_namesrv", "mq_replicated"})
"""Fixtures that start servers: a test that uses one is of the kind "server"."""


def kind_of(path: str, module: ModuleType, fixtures: Collection[str] = ()) -> str:
    """The kind of a test. path: of its module, from the repository's root. KeyError: no line.

    fixtures: the names of the fixtures that the test uses.
    """
    kind = FOLDERS[str(PurePath(path).parent)]
    if kind == "unit" and path not in ALWAYS_UNIT:
        starts = not STARTING_FIXTURES.isdisjoint(fixtures) or _starts_something(module)
        return "server" if starts else kind
    return kind


def _starts_something(module: ModuleType) -> bool:
    for value in vars(module).values():
        home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
        if home in STARTERS:
            return True
    return False
