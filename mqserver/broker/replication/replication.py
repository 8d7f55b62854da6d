"""What the role of a broker adds to it: a master's HA port, or a slave's copying."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mqserver.broker.context import BrokerContext
from mqserver.broker.replication import master
from mqserver.runtime.services import Services
from mqstore import Store

if TYPE_CHECKING:
    from mqcommon._core import HaMaster
    from mqserver.broker.replication.slave import Slave

log = logging.getLogger("mqserver.broker.replication")
UNKNOWN = -1
"""The lag of a slave that does not know its master's end."""


class Replication:
    """The replication of one broker: `open`, `begin` when the broker registers, `stop`.

    A broker that may have no slaves, and is none, does nothing here.
    """

    def __init__(self, context: BrokerContext, store: Store, services: Services) -> None:
        self._context = context
        self._settings = context.settings
        self._store = store
        self._services = services
        self._master: HaMaster | None = None
        self._slave: Slave | None = None
        self._returning: threading.Thread | None = None

    def open(self, listen_port: int) -> int:
        """Open the HA port of a master; returns the port that registrations name.

        Raises OSError, which names port and setting, if the port is taken.
        """
        settings = self._settings
        port = master.ha_port(settings, listen_port)
        if settings.is_slave:
            from mqserver.broker.replication.slave import Slave

            self._slave = Slave(self._context, self._store, self._services)
        elif settings.ha_listen:
            self._store.set_replica_wait(
                settings.replicas_awaited,
                settings.slave_timeout,
                settings.ha_slave_fallbehind_max,
            )
            self._master, port = master.opened(settings, self._store, listen_port)
            log.info("slaves may connect to port %d", port)
        return port

    def begin(self, namesrvs: Sequence[str]) -> None:
        """Follow the master, or take the offsets that slaves have kept for this master."""
        if self._slave is not None:
            self._slave.start()
        elif self._master is not None and namesrvs and self._store.max_physical_offset():
            from mqserver.broker.replication.returning import take_offsets_of_slaves

            self._returning = threading.Thread(
                target=take_offsets_of_slaves,
                args=(self._store, self._settings, namesrvs),
                name="returning-offsets",
                daemon=True,
            )
            self._returning.start()

    def master_is(self, address: str | None, ha_address: str | None) -> None:
        """Take what a NameServer says about the master of this slave."""
        if self._slave is not None:
            self._slave.master_is(address, ha_address)

    def slaves(self) -> list[dict[str, Any]]:
        """A row for each connected slave; see `_core.HaMaster.slaves`."""
        return self._master.slaves() if self._master is not None else []

    def slave_status(self) -> dict[str, Any] | None:
        """Where this slave is; see `_core.HaSlave.status`. None for a master."""
        return self._slave.status() if self._slave is not None else None

    def figures(self) -> dict[str, str]:
        """What `brokerStatus` shows: each slave of a master, or the master of a slave."""
        shown = {
            f"haSlave.{row['address']}": f"{row['state']}, {row['lag_bytes']} bytes behind"
            for row in self.slaves()
        }
        status = self.slave_status()
        if status is not None:
            lag = status["lag_bytes"]
            behind = f"{lag} bytes behind" if lag != UNKNOWN else "lag unknown"
            shown["haMaster"] = f"{status['address']}, {status['state']}, {behind}"
        return shown

    def unready(self) -> str | None:
        """Why a slave cannot serve yet, None if it can; a master always can."""
        return self._slave.unready() if self._slave is not None else None

    def stop(self) -> None:
        """End all connections; the store may be closed then."""
        if self._slave is not None:
            self._slave.stop()
        if self._returning is not None:
            self._returning.join()
        if self._master is not None:
            self._master.stop()
