"""A NameServer and a broker as an operator starts them: ours, or Java RocketMQ."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from benches.harness import ROOT, ProcessCost
from scripts.java_rocketmq import OPEN_FLAGS, class_path
from tests.interop.java_servers import prepare_home
from tests.interop.processes import ServerProcess, free_triple

BOOTED = "boot success"
HEAP = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC")
"""What RocketMQ's own scripts use, scaled to a small machine."""
NO_TLS = "-Dtls.server.mode=disabled"
"""Else each start makes RSA keys, for seconds."""


class Cluster:
    """Both servers under a folder; stopped at the end of the `with` block."""

    name = ""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self.folder = folder
        self.settings = settings
        self.namesrv = ""
        self._processes: list[ServerProcess] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def cost(self) -> ProcessCost:
        """The broker's process."""
        return ProcessCost(self._processes[-1].pid)

    def _start(self) -> None:
        raise NotImplementedError

    def _run(self, command: list[str]) -> None:
        self._processes.append(ServerProcess(command, cwd=self.folder))
        self._processes[-1].await_line(BOOTED)

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()

    def _broker_conf(self, port: int) -> Path:
        values = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": f"broker-{self.name}",
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": self.namesrv,
            "listenPort": port,
            "storePathRootDir": self.folder / "store",
            "storePathCommitLog": self.folder / "store" / "commitlog",
            "diskMaxUsedSpaceRatio": 95,
            **self.settings,
        }
        path = self.folder / "broker.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return path


class Ours(Cluster):
    """mqserver, a process each."""

    name = "mqstack"

    def _start(self) -> None:
        port = free_triple()
        self.namesrv = f"127.0.0.1:{port}"
        serve = [sys.executable, "-c", "from mqserver.cli import main; main()"]
        local = ["--set", "bindAddress=127.0.0.1"]
        kv = ["--set", f"kvConfigPath={self.folder / 'kvConfig.json'}"]
        command = [*serve, "namesrv", "start", "--set", f"listenPort={port}", *local, *kv]
        self._run(["env", f"PYTHONPATH={ROOT}", *command])
        conf = self._broker_conf(free_triple())
        command = [*serve, "broker", "start", "-c", str(conf), *local]
        self._run(["env", f"PYTHONPATH={ROOT}", *command])


class Java(Cluster):
    """Java RocketMQ 4.9.7, a JVM each."""

    name = "java-4.9.7"

    def _start(self) -> None:
        port = free_triple()
        self.namesrv = f"127.0.0.1:{port}"
        conf = self.folder / "namesrv.conf"
        conf.write_text(f"listenPort={port}\n")
        self._run(self._java("namesrv.NamesrvStartup", conf, "-Xms256m", "-Xmx256m"))
        broker_port = free_triple()
        self.settings = {**self.settings, "haListenPort": broker_port + 1}
        self._run(self._java("broker.BrokerStartup", self._broker_conf(broker_port), *HEAP))

    def _java(self, main: str, conf: Path, *flags: str) -> list[str]:
        home = prepare_home(self.folder / conf.stem)
        homes = (f"-Drocketmq.home.dir={home}", f"-Duser.home={home}")
        options = (*flags, NO_TLS, *OPEN_FLAGS, *homes)
        main_class = f"org.apache.rocketmq.{main}"
        return ["java", *options, "-cp", class_path(), main_class, "-c", str(conf)]
