"""A NameServer, a broker and perhaps its slaves in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import Loaded
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.paths import broker_override, namesrv_override
from mqserver.namesrv.server import NameServer
from mqserver.runtime.ports import naming_flag

ORIGIN = "standalone"


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
    """All servers; the brokers get the NameServer's address.

    slaves: the settings of each slave of the broker.
    """

    def __init__(
        self,
        namesrv_settings: Mapping[str, str],
        broker_settings: Mapping[str, str],
        slaves: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self._namesrv_settings = namesrv_settings
        self._broker_settings = broker_settings
        self._slave_settings = slaves
        self.names: NameServer | None = None
        self.server: Broker | None = None
        self.slaves: list[Broker] = []
        self.namesrv = ""
        self.broker = ""
        self.advertised_address = ""
        self.address_origin = ""
        self.warnings: tuple[str, ...] = ()

    def start(self) -> None:
        """Start the NameServer, the broker, then its slaves; a failure leaves none running."""
        sharing = 2 + len(self._slave_settings)  # the process's file descriptors
        with ExitStack() as started:
            names = NameServer(pair_namesrv(self._namesrv_settings), servers=sharing)
            with naming_flag("--set-namesrv"):
                names.start()
            started.callback(names.stop)
            brokers = []
            for settings in (self._broker_settings, *self._slave_settings):
                broker = Broker(pair_broker(settings, namesrv=names.address), servers=sharing)
                with naming_flag("--set"):
                    broker.start()
                started.callback(broker.stop)
                brokers.append(broker)
            started.pop_all()
        self.names, (server, *self.slaves) = names, brokers
        self.server, self.namesrv = server, names.address
        self.advertised_address = server.address
        self.address_origin = server.advertised.origin
        self.warnings = names.warnings + server.advertised.warnings
        self.broker = _reached_at(server)

    @property
    def slave_addresses(self) -> list[str]:
        """The addresses of the slaves, each as "host:port"."""
        return [_reached_at(slave) for slave in self.slaves]

    def stop(self) -> None:
        """Stop the slaves, the broker, then the NameServer."""
        for broker in (*self.slaves, self.server):
            if broker is not None:
                broker.stop()
        if self.names is not None:
            self.names.stop()

    @property
    def poisoned(self) -> bool:
        """After `stop`: whether the store could not be closed whole."""
        return any(broker.poisoned for broker in (self.server, *self.slaves) if broker)


def _reached_at(broker: Broker) -> str:
    """The address at which this process reaches a broker."""
    host = broker.settings.bind_address
    return f"{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{broker.port}"
