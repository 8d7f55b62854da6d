"""The peers' servers, each with the settings that it ships with, on a free port of this machine."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from benches.lib.harness import BenchFailed
from benches.lib.servers import HEAP, Servers, await_port
from mqserver.embedded.testing import free_port
from scripts import peers
from scripts.server_process import ServerProcess


class Server(Servers):
    """A server, usually of one process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / self.name)
        self.port = free_port()

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @classmethod
    def missing(cls) -> str | None:
        """The reason why this machine cannot run it; None if it can."""
        return peers.MISSING[cls.name]()

    def _run(self, command: list[str], port: int, env: Mapping[str, str] | None = None) -> None:
        process = ServerProcess(command, cwd=self.folder, env=env)
        self._processes.append(process)
        await_port(self.name, process, port)


class Kafka(Server):
    """One broker that is its own controller (KRaft)."""

    name = "Kafka"

    def _start(self) -> None:
        controller = free_port()
        conf = self.folder / "server.properties"
        conf.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={self.folder / 'logs'}\n"
            # One broker has no other for copies, and nobody joins a group later.
            "offsets.topic.replication.factor=1\n"
            "group.initial.rebalance.delay.ms=0\n"
        )
        java = ["java", *HEAP, "-cp", f"{peers.KAFKA.lib}/*"]
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        form = [*java, "kafka.tools.StorageTool", "format", "-t", name, "-c", str(conf)]
        done = subprocess.run(form, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise BenchFailed(f"Kafka's folder was not formatted: {done.stdout}{done.stderr}")
        self._run([*java, "kafka.Kafka", str(conf)], self.port)


class Nats(Server):
    """nats-server with JetStream."""

    name = "NATS"

    def _start(self) -> None:
        listen = ["-a", "127.0.0.1", "-p", str(self.port)]
        files = ["-js", "-sd", str(self.folder)]
        self._run([str(peers.NATS_SERVER), *listen, *files], self.port)


class Redis(Server):
    """Redis that appends each write to a file, and has it on disk within a second."""

    name = "Redis"

    def _start(self) -> None:
        listen = ["--bind", "127.0.0.1", "--port", str(self.port)]
        files = ["--dir", str(self.folder), "--appendonly", "yes", "--save", ""]
        self._run([shutil.which("redis-server") or "", *listen, *files], self.port)


class Rabbit(Server):
    """RabbitMQ, with a name service of its own."""

    name = "RabbitMQ"

    def _start(self) -> None:
        names = free_port()
        self._run(["epmd", "-address", "127.0.0.1", "-port", str(names)], names)
        self._run(
            [str(peers.RABBITMQ_SERVER)],
            self.port,
            {
                "RUNNING_UNDER_SYSTEMD": "1",  # the Erlang machine itself gets the signals
                "HOME": str(self.folder),
                "ERL_EPMD_PORT": str(names),
                "RABBITMQ_NODENAME": "peers@localhost",
                "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODE_PORT": str(self.port),
                "RABBITMQ_DIST_PORT": str(free_port()),
                "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
                "RABBITMQ_LOG_BASE": str(self.folder / "log"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
                "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            },
        )
