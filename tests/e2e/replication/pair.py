"""A NameServer, a master and its slave as processes, with a proxy before the master's HA port."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.replication.proxy import Proxy
from tests.interop.conf import SMALL_STORE
from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.replicas import create_topic, figures_of, is_joined
from tests.waiting import until

TOPIC = "Replicated"
FAST = {**SMALL_STORE, "haSendHeartbeatInterval": 200, "slaveTimeout": 500}
ROLES = ("master", "slave")


class Pair:
    """The processes; the master has the topic.

    queues: of the topic. master_role: the `brokerRole` of the master.
    """

    def __init__(self, home: Path, queues: int, master_role: str = "SYNC_MASTER") -> None:
        self.home = home
        for folder in ("namesrv", *ROLES):
            (home / folder).mkdir(parents=True)
        self._names = OurNamesrv(home / "namesrv")
        self.master = self._broker("master", {"brokerRole": master_role})
        create_topic(self.master.address, TOPIC, queues)
        self.proxy = Proxy(self.master.port + 1)
        of_slave = {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": self.proxy.address}
        self.slave = self._broker("slave", of_slave)

    def await_ready(self) -> None:
        """Wait until the slave has joined, and has the topic."""
        assert until(self._is_ready), figures_of(self.slave.address)

    def _broker(
        self, name: str, settings: Mapping[str, object], port: int | None = None
    ) -> OurBroker:
        every = {**FAST, **settings}
        return OurBroker(self.home / name, self._names.address, settings=every, port=port)

    def _is_ready(self) -> bool:
        """Whether the slave copies what comes, and has saved the topic."""
        topics = self.slave.store / "config" / "topics.json"
        return is_joined(self.slave.address) and topics.exists() and TOPIC in topics.read_text()

    # --- faults of a process

    def restart(self, role: str) -> None:
        """kill -9 of a broker, and its next start with the same store and ports."""
        broker = getattr(self, role)
        broker.kill()
        broker.process = broker.process.again()

    def pause(self, role: str) -> None:
        """SIGSTOP; the process has stopped on return."""
        pid = getattr(self, role).process.pid
        os.kill(pid, signal.SIGSTOP)
        status = Path(f"/proc/{pid}/status")
        assert until(lambda: "State:\tT" in status.read_text())

    def resume(self, role: str) -> None:
        """SIGCONT."""
        os.kill(getattr(self, role).process.pid, signal.SIGCONT)

    # --- the end of a run

    def lose_the_master(self) -> None:
        """Kill the master, throw its disk away, and promote the slave by hand."""
        self.master.kill()
        shutil.rmtree(self.master.store)
        self.slave.kill()
        alone = {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
        self.slave = self._broker("slave", alone, self.slave.port)

    def stop(self) -> None:
        """End what runs, a paused process too."""
        self.proxy.close()
        for role in reversed(ROLES):
            if not getattr(self, role).process.has_ended:
                self.resume(role)
                getattr(self, role).stop()
        self._names.stop()
