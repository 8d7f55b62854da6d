"""Starts a NameServer and a broker as an operator does: ours, or Java RocketMQ."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benches.lib.harness import ROOT, ProcessCost
from mqcommon.java_properties import render
from mqcommon.names import AUTO_CREATE_TOPIC
from mqcommon.wire.bodies.route import TopicRouteData
from mqcommon.wire.calls import namesrv_calls
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.testing import free_port
from scripts.java_rocketmq import INTEROP, OPEN_FLAGS, VERSUS, Project, fetch, prepare_home
from scripts.server_process import ServerProcess

BOOTED = "boot success"
BOOT_SECONDS_MAX = 60.0
ROUTE_SECONDS_MAX = 60.0
HEAP = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC")
"""The flags of RocketMQ's own scripts, scaled to a small machine."""
NO_TLS = "-Dtls.server.mode=disabled"
"""Without it each start generates RSA keys, which takes seconds."""


_INSTALLED = ("env", "-u", "PYTHONDONTWRITEBYTECODE", f"PYTHONPATH={ROOT}")
"""Lets Python cache bytecode, as pip does for installed packages; otherwise each start compiles."""
_SERVE = (*_INSTALLED, sys.executable, "-c", "from mqserver.cli import main; main()")
_LOCAL = ("--set", "bindAddress=127.0.0.1")


@dataclass(frozen=True)
class Slave:
    """A running slave: its address, the folder of its files, and its process."""

    address: str
    folder: Path
    process: ServerProcess

    @property
    def cost(self) -> ProcessCost:
        """Costs of its process."""
        return ProcessCost(self.process.pid)


class Servers:
    """Server processes with files under a folder; stopped at the end of the `with` block."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[ServerProcess] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        try:
            self._start()
            self._await_ready()
        except BaseException as error:
            error.add_note(f"while starting {self.name}")
            self._stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop()

    def _start(self) -> None:
        """Start the processes; returns when their ports are open."""
        raise NotImplementedError

    def _await_ready(self) -> None:
        """Wait for what an open port does not show."""

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()
        self._processes.clear()


class Cluster(Servers):
    """A NameServer and a broker.

    start_ms: milliseconds from exec to the open port, for NameServer and broker.
    """

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        super().__init__(folder)
        self.settings = settings
        self.namesrv = ""
        self.start_ms: list[float] = []

    @property
    def cost(self) -> ProcessCost:
        """Costs of the broker's process; of the master's, if it has a slave."""
        return ProcessCost(self._processes[:2][-1].pid)

    @property
    def namesrv_cost(self) -> ProcessCost:
        """Costs of the NameServer's process."""
        return ProcessCost(self._processes[0].pid)

    @property
    def pids(self) -> list[int]:
        """The pids of the servers: NameServer, broker, slaves."""
        return [process.pid for process in self._processes]

    def add_slave(self, settings: Mapping[str, object]) -> Slave:
        """Start a slave of the broker; it has the broker's settings, and these."""
        number = len(self._processes) - 1
        folder = self.folder / f"slave-{number}"
        folder.mkdir()
        role = {"brokerRole": "SLAVE", "brokerId": number}
        address = self._start_broker(folder, {**self.settings, **role, **settings})
        return Slave(address, folder, self._processes[-1])

    def store_bytes(self) -> int:
        """Disk space of the files under the folder."""
        names = (Path(at) / name for at, _, found in os.walk(self.folder) for name in found)
        return sum(name.stat().st_blocks * 512 for name in names if name.exists())

    def route(self, topic: str) -> TopicRouteData:
        """The NameServer's route for a topic; waits until the broker has registered the topic."""
        call = namesrv_calls.route(topic)
        deadline = time.monotonic() + ROUTE_SECONDS_MAX
        with Probe(self.namesrv) as namesrv:
            while (route := call.result(namesrv.call(call.request))) is None:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{topic}: not registered in {ROUTE_SECONDS_MAX} s")
                time.sleep(0.01)
        return route

    def restart_empty(self) -> None:
        """Stop both servers, delete their files, and start them again."""
        self._stop()
        shutil.rmtree(self.folder)
        self.__enter__()

    def _start(self) -> None:
        port = free_port()
        self.namesrv = f"127.0.0.1:{port}"
        self._run(self._namesrv(port), port)
        self._start_broker(self.folder, self.settings)

    def _await_ready(self) -> None:
        self.route(AUTO_CREATE_TOPIC)  # RocketMQ 5 reports its start before it has registered

    def _start_broker(self, folder: Path, settings: Mapping[str, object]) -> str:
        """Start a broker with files in a folder; returns its address."""
        port = free_port()
        self._run(self._broker(self._broker_conf(folder, port, settings)), port)
        return f"127.0.0.1:{port}"

    def _namesrv(self, port: int) -> list[str]:
        raise NotImplementedError

    def _broker(self, conf: Path) -> list[str]:
        raise NotImplementedError

    def _run(self, command: list[str], port: int) -> None:
        """Start a server; returns when its port is open and it has logged that it is up."""
        started = time.monotonic()
        process = ServerProcess(command, cwd=self.folder)
        self._processes.append(process)
        await_port(self.name, process, port)
        self.start_ms.append((time.monotonic() - started) * 1000)
        process.await_line(BOOTED)

    def _stop(self) -> None:
        super()._stop()
        self.start_ms.clear()

    def _broker_conf(self, folder: Path, port: int, settings: Mapping[str, object]) -> Path:
        values = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": f"broker-{self.name}",
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": self.namesrv,
            "listenPort": port,
            "haListenPort": port + 1,
            "storePathRootDir": folder / "store",
            "storePathCommitLog": folder / "store" / "commitlog",
            "diskMaxUsedSpaceRatio": 95,
            **settings,
        }
        path = folder / "broker.conf"
        path.write_text(render({key: str(value) for key, value in values.items()}))
        return path


class Ours(Cluster):
    """mqserver, each server in its own process."""

    name = "mqstack"

    def _namesrv(self, port: int) -> list[str]:
        kv = ["--set", f"kvConfigPath={self.folder / 'kvConfig.json'}"]
        return [*_SERVE, "namesrv", "start", "--set", f"listenPort={port}", *_LOCAL, *kv]

    def _broker(self, conf: Path) -> list[str]:
        return [*_SERVE, "broker", "start", "-c", str(conf), *_LOCAL]


class Java(Cluster):
    """Java RocketMQ 4.9.7, each server in its own JVM."""

    name = "java-4.9.7"
    project: Project = INTEROP

    def _namesrv(self, port: int) -> list[str]:
        conf = self.folder / "namesrv.conf"
        conf.write_text(f"listenPort={port}\n")
        return self._java("namesrv.NamesrvStartup", conf, "-Xms256m", "-Xmx256m")

    def _broker(self, conf: Path) -> list[str]:
        return self._java("broker.BrokerStartup", conf, *HEAP)

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()  # a clean shutdown takes five seconds; the store is not needed
        super()._stop()

    def _java(self, main: str, conf: Path, *flags: str) -> list[str]:
        home = prepare_home(conf.with_suffix(""))
        homes = (f"-Drocketmq.home.dir={home}", f"-Duser.home={home}")
        options = (*flags, NO_TLS, *OPEN_FLAGS, *homes)
        jars, main_class = f"{fetch(self.project)}/*", f"org.apache.rocketmq.{main}"
        return ["java", *options, "-cp", jars, main_class, "-c", str(conf)]


class Java5(Java):
    """Java RocketMQ 5.3.3."""

    name = "java-5.3.3"
    project = VERSUS


def broker_of(cluster: Cluster) -> str:
    """The address of a cluster's broker."""
    return cluster.route(AUTO_CREATE_TOPIC).broker_datas[0].broker_addrs[0]


def await_port(name: str, process: ServerProcess, port: int) -> None:
    """Wait until a server's port is open; raises RuntimeError with its output if it stays shut."""
    deadline = time.monotonic() + BOOT_SECONDS_MAX
    while not _is_open(port):
        if time.monotonic() > deadline or process.has_ended:
            raise RuntimeError(f"{name}: port {port} stays closed\n{process.output}")
        time.sleep(0.001)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
