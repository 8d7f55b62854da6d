"""Finds the NameServers in the settings, or through an address server."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mqclient.engine.address_server import AddressServerError, address_server_url, fetch_addresses
from mqserver.config.settings import BrokerSettings

log = logging.getLogger("mqserver.broker")


class NameServerList:
    """The current list of NameServers.

    settings: called each time, because settings may change online. `namesrvAddr` wins; if it is
    empty, the list comes from the address server that the settings may name.
    """

    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._settings = settings
        self._said: list[str] = []
        self._trouble = ""

    @property
    def addresses(self) -> list[str]:
        """The NameServers, each as "host:port"."""
        return self._settings().namesrv_addresses or self._said

    @property
    def is_asked_for(self) -> bool:
        """Whether the list comes from an address server."""
        settings = self._settings()
        asks = settings.fetch_namesrv_addr_by_address_server
        return asks and not settings.namesrv_addresses

    def refresh(self) -> None:
        """Ask the address server, blocking; the list stays as it is if the answer is bad."""
        settings = self._settings()
        url = address_server_url(
            settings.rmq_address_server_domain, settings.rmq_address_server_sub_group
        )
        try:
            found = list(fetch_addresses(url))
        except AddressServerError as error:
            self._complain(str(error))
            return
        self._complain("")
        if found != self._said:
            log.warning(
                "the address server %s lists these NameServers now: %s", url, ";".join(found)
            )
            self._said = found

    def _complain(self, trouble: str) -> None:
        """Log trouble when it begins or changes, not at every attempt."""
        if trouble and trouble != self._trouble:
            kept = ";".join(self._said)
            log.warning("%s; %s", trouble, f"keeping {kept}" if kept else "no NameServer is known")
        self._trouble = trouble
