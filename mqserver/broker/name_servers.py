"""Finds the NameServers: by the setting, or from an address server."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mqclient.address_server import AddressServerError, address_server_url, fetch_addresses
from mqserver.config.settings import BrokerSettings

log = logging.getLogger("mqserver.broker")


class NameServerList:
    """The NameServers of the moment. settings: asked each time, because it may change online.

    `namesrvAddr` wins; without it the address server is asked, if it may be.
    """

    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._settings = settings
        self._said: list[str] = []
        self._trouble = ""

    @property
    def addresses(self) -> list[str]:
        """Each as "host:port"."""
        return self._settings().namesrv_addresses or self._said

    @property
    def is_asked_for(self) -> bool:
        """Whether an address server says where they are."""
        settings = self._settings()
        asks = settings.fetch_namesrv_addr_by_address_server
        return asks and not settings.namesrv_addresses

    def refresh(self) -> None:
        """Ask the address server, blocking; without a good answer the list stays as it is."""
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
            log.warning("address server %s: the NameServers are %s", url, ";".join(found))
            self._said = found

    def _complain(self, trouble: str) -> None:
        """One line when it begins or changes, not one for each time."""
        if trouble and trouble != self._trouble:
            kept = ";".join(self._said)
            log.warning("%s; %s", trouble, f"keeping {kept}" if kept else "no NameServer is known")
        self._trouble = trouble
