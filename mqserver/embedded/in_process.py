"""A NameServer and a broker in this process."""

from __future__ import annotations

from collections.abc import Mapping

from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import Loaded
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.paths import broker_override, namesrv_override
from mqserver.namesrv.server import NameServer

ORIGIN = "standalone"
_SERVERS = 2
"""Both servers share the process's file descriptors."""


def pair_namesrv(settings: Mapping[str, str], origin: str = ORIGIN) -> Loaded:
    """The NameServer's settings; `settings` override changes made online."""
    return load(NAMESRV, override=namesrv_override, flags=pairs(settings, origin))


def pair_broker(settings: Mapping[str, str], origin: str = ORIGIN, namesrv: str = "") -> Loaded:
    """The broker's settings; `settings` override changes made online.

    namesrv: the address of the pair's NameServer.
    """
    return load(
        BROKER,
        environment=pairs({"namesrvAddr": namesrv}, ORIGIN),
        override=broker_override,
        flags=pairs(settings, origin),
    )


class InProcessServers:
    """Both servers; the broker gets the NameServer's address."""

    def __init__(
        self, namesrv_settings: Mapping[str, str], broker_settings: Mapping[str, str]
    ) -> None:
        self._namesrv_settings = namesrv_settings
        self._broker_settings = broker_settings
        self.names: NameServer | None = None
        self.server: Broker | None = None
        self.namesrv = ""
        self.broker = ""
        self.advertised_address = ""
        self.address_origin = ""
        self.warnings: tuple[str, ...] = ()

    def start(self) -> None:
        """Start the NameServer, then the broker; a failure leaves neither running."""
        names = NameServer(pair_namesrv(self._namesrv_settings), servers=_SERVERS)
        names.start()
        try:
            loaded = pair_broker(self._broker_settings, namesrv=names.address)
            server = Broker(loaded, servers=_SERVERS)
            server.start()
        except BaseException:
            names.stop()
            raise
        self.names, self.server = names, server
        self.namesrv = names.address
        self.advertised_address = server.address
        self.address_origin = server.advertised.origin
        self.warnings = names.warnings + server.advertised.warnings
        host = server.settings.bind_address
        self.broker = f"{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{server.port}"

    def stop(self) -> None:
        """Stop the broker, then the NameServer."""
        if self.server is not None:
            self.server.stop()
        if self.names is not None:
            self.names.stop()

    @property
    def poisoned(self) -> bool:
        """After `stop`: whether the store could not be closed whole."""
        return self.server is not None and self.server.poisoned
