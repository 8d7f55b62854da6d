"""What the role of a broker adds to it: a master's HA port, or a slave's copying."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mqserver.broker.context import BrokerContext
from mqserver.broker.replication import master, promotion
from mqserver.runtime.services import Services
from mqserver.tls.certificates import CertificateWatch, client_tls, plane_tls
from mqstore import Store

if TYPE_CHECKING:
    from mqcommon._core import HaMaster
    from mqserver.broker.replication.returning import Returning
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
        self._returning: Returning | None = None
        self._certificates: CertificateWatch | None = None

    def open(self, listen_port: int) -> int:
        """Open the HA port of a master; returns the port that registrations name.

        Raises OSError, which names port and setting, if the port is taken.
        """
        settings = self._settings
        port = master.ha_port(settings, listen_port)
        if settings.is_slave:
            from mqserver.broker.replication.slave import Slave

            promotion.note_slave(self._store)
            self._slave = Slave(self._context, self._store, self._services)
        else:
            promotion.finish(self._context, self._store)
        if self._slave is None and settings.ha_listen:
            self._store.set_replica_wait(
                settings.replicas_awaited,
                settings.slave_timeout,
                settings.ha_slave_fallbehind_max,
            )
            self._master, port = master.opened(settings, self._store, listen_port)
            log.info("slaves may connect to port %d", port)
        self._watch_certificates()
        return port

    def begin(self, namesrvs: Sequence[str]) -> None:
        """Follow the master, or take the offsets that slaves have kept for this master."""
        if self._slave is not None:
            self._slave.start()
        elif self._master is not None and namesrvs and self._store.max_physical_offset():
            from mqserver.broker.replication.returning import Returning

            self._returning = Returning(self._store, self._settings, namesrvs)
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
            + _since(row)
            for row in self.slaves()
        }
        status = self.slave_status()
        if status is not None:
            lag = status["lag_bytes"]
            behind = f"{lag} bytes behind" if lag != UNKNOWN else "lag unknown"
            shown["haMaster"] = f"{status['address']}, {status['state']}, {behind}{_since(status)}"
        return shown

    def unready(self) -> str | None:
        """Why a slave cannot serve yet, None if it can; a master always can."""
        return self._slave.unready() if self._slave is not None else None

    def _watch_certificates(self) -> None:
        """Follow changes of the certificate files, as the broker's own port does."""
        settings = self._settings
        if not settings.ha_tls_enable:
            return
        if self._slave is not None:
            tls: Mapping[str, object] = client_tls(settings.client_tls)
            show: Callable[[Mapping[str, object]], None] = self._slave.renew_tls
        elif self._master is not None:
            tls, show = plane_tls(settings.server_tls), self._master.renew_tls
        else:
            return
        self._certificates = CertificateWatch(tls, show, services=self._services)
        self._certificates.start()

    def stop(self) -> None:
        """End all connections; the store may be closed then."""
        if self._certificates is not None:
            self._certificates.stop()
        if self._slave is not None:
            self._slave.stop()
        if self._returning is not None:
            self._returning.stop()
        if self._master is not None:
            self._master.stop()


def _since(row: Mapping[str, Any]) -> str:
    """The lag in time of a slave's figures, as words; nothing if there is none."""
    lag_ms = row["lag_ms"]
    return f" since {lag_ms / 1000:.1f} s" if lag_ms > 0 else ""
