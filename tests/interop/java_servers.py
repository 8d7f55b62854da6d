"""The Java NameServer and broker as processes, each with a home of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from mqserver.embedded.testing import free_port
from scripts.java_rocketmq import (
    INTEROP,
    OPEN_FLAGS,
    QUICK_START_FLAGS,
    VERSUS,
    Project,
    class_path,
    fetch,
    prepare_home,
)
from scripts.server_process import ServerProcess
from tests.interop.conf import SMALL_STORE, broker_settings, write_conf

PATIENCE_FLAG = "-Dcom.rocketmq.remoting.client.connect.timeout=60000"
"""Timeout for connecting; RocketMQ's default is three seconds."""


def java_command(
    home: Path, main: str, *arguments: str, flags: tuple[str, ...] = (), jars: Project = INTEROP
) -> list[str]:
    """A `java` command line that keeps everything RocketMQ writes under `home`."""
    homes = (f"-Drocketmq.home.dir={home}", f"-Duser.home={home}")
    options = (*QUICK_START_FLAGS, *OPEN_FLAGS, PATIENCE_FLAG, *homes, *flags)
    path = class_path() if jars is INTEROP else f"{fetch(jars)}/*"
    return ["java", *options, "-cp", path, main, *arguments]


class JavaNamesrv:
    """`NamesrvStartup` on a free port; ready when the constructor returns."""

    jars = INTEROP

    def __init__(
        self,
        home: Path,
        *,
        settings: Mapping[str, object] | None = None,
        flags: tuple[str, ...] = (),
    ) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        values = {"listenPort": self.port, **(settings or {})}
        conf = write_conf(prepare_home(home) / "namesrv.conf", values)
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        command = java_command(home, main, "-c", str(conf), flags=flags, jars=self.jars)
        self.process = ServerProcess(command, cwd=home, ready="The Name Server boot success")

    def stop(self) -> None:
        self.process.stop()

    def discard(self) -> None:
        """Kill it: an orderly stop takes three seconds, and no test reads its result."""
        self.process.kill()


class JavaBroker:
    """`BrokerStartup` on a free triple of ports over a store directory; registered when ready."""

    jars = INTEROP
    more: ClassVar[Mapping[str, object]] = {}

    def __init__(
        self,
        home: Path,
        namesrv: str,
        *,
        name: str = "broker-a",
        port: int | None = None,
        store: Path | None = None,
        settings: Mapping[str, object] | None = None,
        flags: tuple[str, ...] = (),
    ) -> None:
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.name = name
        self.store = store or home / "store"
        values = broker_settings(name, namesrv, self.port, self.store)
        extra = SMALL_STORE if settings is None else settings
        conf = write_conf(prepare_home(home) / "broker.conf", {**values, **extra, **self.more})
        main = "org.apache.rocketmq.broker.BrokerStartup"
        command = java_command(home, main, "-c", str(conf), flags=flags, jars=self.jars)
        self.process = ServerProcess(command, cwd=home, ready="boot success")

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        """SIGKILL: its store then needs the recovery of an abnormal stop."""
        self.process.kill()

    def discard(self) -> None:
        """Kill it: no test reads its store afterwards."""
        self.process.kill()


class Java5Namesrv(JavaNamesrv):
    """RocketMQ 5's."""

    jars = VERSUS


class Java5Broker(JavaBroker):
    """RocketMQ 5's."""

    jars = VERSUS
    # It records ends in batches, every 3 s by default, and asks about unrecorded ones.
    more: ClassVar[Mapping[str, object]] = {"transactionOpBatchInterval": 100}
