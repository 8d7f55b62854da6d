"""A master serves its log to slaves at the HA port."""

from __future__ import annotations

from mqcommon._core import HaMaster
from mqserver.config.loaded import SettingsError
from mqserver.config.replication_table import SLAVES_MAX
from mqserver.config.settings import BrokerSettings, networks
from mqserver.runtime.ports import naming_port
from mqserver.tls.certificates import plane_tls
from mqstore import Store


def ha_port(settings: BrokerSettings, listen_port: int) -> int:
    """The port that slaves connect to: `haListenPort` if it is set, else the port after the
    listener's, as in RocketMQ."""
    return settings.ha_listen_port or listen_port + 1


def tls_of_master(settings: BrokerSettings) -> dict[str, object] | None:
    """The certificate of the HA port; None without `haTlsEnable`.

    Raises SettingsError if there is none to show.
    """
    if not settings.ha_tls_enable:
        return None
    shown = plane_tls(settings.server_tls)
    if shown["mode"] == "disabled":
        raise SettingsError(
            "haTlsEnable=true needs a certificate: set tls.server.certPath and "
            "tls.server.keyPath, and tls.server.mode other than disabled"
        )
    return shown


def opened(settings: BrokerSettings, store: Store, listen_port: int) -> tuple[HaMaster, int]:
    """Open the HA port, a free one if the broker listens on a free port; returns listener and port.

    Raises OSError, which names the port and the setting, if the port is taken, SettingsError and
    ValueError for a certificate that cannot be used.
    """
    is_free = not (settings.listen_port or settings.ha_listen_port)
    port = 0 if is_free else ha_port(settings, listen_port)
    allowed = [str(network) for network in networks(settings.ha_allow_addresses)]
    master = HaMaster(
        store,
        {
            "host": settings.bind_address,
            "port": port,
            "transfer_batch_bytes": settings.ha_transfer_batch_size,
            "send_heartbeat_interval_ms": settings.ha_send_heartbeat_interval,
            "housekeeping_interval_ms": settings.ha_housekeeping_interval,
            "max_slaves": SLAVES_MAX,
            "max_bytes_per_second": settings.ha_max_bytes_per_second,
            "allow": allowed or None,
            "tls": tls_of_master(settings),
        },
    )
    with naming_port(str(port), "haListenPort"):
        return master, master.start()
