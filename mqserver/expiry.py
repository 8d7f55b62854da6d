"""When a certificate ends, and the warnings that come before."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from mqstore import _core

log = logging.getLogger("mqserver.tls")

SOON_S = 30 * 86_400
"""A certificate that ends earlier than this is warned of."""
AGAIN_S = 86_400
"""So often, while it stays the same."""


class Expiry:
    """The end of the certificate in a file; not safe for several threads.

    path: the PEM file, whose first certificate counts; None for no certificate. now: wall clock,
    seconds since the epoch.
    """

    def __init__(self, path: str | None, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._warned_at = 0.0
        self.at: int | None = None

    def read(self) -> None:
        """Read the file anew; one that cannot be read changes nothing, since it is not shown."""
        if self._path is None:
            return
        try:
            self.at = _core.certificate_end(self._path)
        except ValueError as error:
            log.debug("%s", error)
        self._warned_at = 0.0

    def look(self) -> None:
        """Warn, once a day, of a certificate that ends soon or has ended."""
        now = self._now()
        if self.at is None or self.at - now > SOON_S or now - self._warned_at < AGAIN_S:
            return
        self._warned_at = now
        end = datetime.fromtimestamp(self.at, UTC).isoformat()
        if self.at <= now:
            log.warning("the certificate %s has expired, at %s: others refuse it", self._path, end)
        else:
            days = (self.at - now) / 86_400
            log.warning("the certificate %s expires in %.0f days, at %s", self._path, days, end)
